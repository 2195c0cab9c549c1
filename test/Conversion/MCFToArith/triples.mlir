// RUN: tandem-opt %s -convert-mcf-to-arith | FileCheck %s

// With three components, the tests count operations. Tests of the arithmetic
// check that the networks compute correct values.

!triple = !mcf.expansion<bf16 x 3>

// There are two TwoSums, an addition, and three Fast2Sums.
// CHECK-LABEL: func.func @grow(
// CHECK-COUNT-22: arith.{{addf|subf}}
// CHECK-NEXT:    return %{{.+}}, %{{.+}}, %{{.+}} : bf16, bf16, bf16
func.func @grow(%s: !triple, %a: bf16) -> !triple {
  %0 = mcf.grow %s, %a : !triple
  return %0 : !triple
}

// There are seven TwoSums, six Fast2Sums, and three additions.
// CHECK-LABEL: func.func @add(
// CHECK-COUNT-63: arith.{{addf|subf}}
// CHECK-NEXT:    return
func.func @add(%s: !triple, %t: !triple) -> !triple {
  %0 = mcf.add %s, %t : !triple
  return %0 : !triple
}

// Three products have errors, and three do not.
// CHECK-LABEL: func.func @mul(
// CHECK-COUNT-3: math.fma
// CHECK-COUNT-3: arith.mulf
// CHECK-NOT:     {{math.fma|arith.mulf}}
// CHECK:         return
func.func @mul(%s: !triple, %t: !triple) -> !triple {
  %0 = mcf.mul %s, %t : !triple
  return %0 : !triple
}

// CHECK-LABEL: func.func @scale(
// CHECK-COUNT-2: math.fma
// CHECK:         arith.mulf
// CHECK-NOT:     {{math.fma|arith.mulf}}
// CHECK:         return
func.func @scale(%s: !triple, %a: bf16) -> !triple {
  %0 = mcf.scale %s, %a : !triple
  return %0 : !triple
}

// There are three digits.
// CHECK-LABEL: func.func @div(
// CHECK-COUNT-3: arith.divf
// CHECK-NOT:     arith.divf
// CHECK:         return
func.func @div(%s: !triple, %t: !triple) -> !triple {
  %0 = mcf.div %s, %t : !triple
  return %0 : !triple
}

// CHECK-LABEL: func.func @sqrt(
// CHECK:         math.sqrt
// CHECK-COUNT-2: arith.divf
// CHECK-NOT:     {{math.sqrt|arith.divf}}
// CHECK-COUNT-3: arith.select
// CHECK-NEXT:    return
func.func @sqrt(%s: !triple) -> !triple {
  %0 = mcf.sqrt %s : !triple
  return %0 : !triple
}

// CHECK-LABEL: func.func @renormalize(
// CHECK-COUNT-18: arith.{{addf|subf}}
// CHECK-NEXT:    return
func.func @renormalize(%s: !triple) -> !triple {
  %0 = mcf.renormalize %s : !triple
  return %0 : !triple
}

// CHECK-LABEL: func.func @less(
// CHECK-COUNT-5: arith.cmpf
// CHECK-NOT:     arith.cmpf
// CHECK:         return
func.func @less(%s: !triple, %t: !triple) -> i1 {
  %0 = mcf.compare lt, %s, %t : !triple
  return %0 : i1
}
