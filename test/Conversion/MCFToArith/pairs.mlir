// RUN: tandem-opt %s -convert-mcf-to-arith | FileCheck %s

// Operations on two expansions of two components.

// (a, b) = two_sum(x1, y1); (c, d) = two_sum(x2, y2); (a, c) = fast_two_sum(a, c)
// b = (b + d) + c; (a, b) = fast_two_sum(a, b)
// CHECK-LABEL: func.func @add(
// CHECK-SAME:      %[[X1:[^:]+]]: bf16, %[[X2:[^:]+]]: bf16, %[[Y1:[^:]+]]: bf16, %[[Y2:[^:]+]]: bf16)
// CHECK:         %[[A:.+]] = arith.addf %[[X1]], %[[Y1]] : bf16
// CHECK-COUNT-4: arith.subf
// CHECK-NEXT:    %[[B:.+]] = arith.addf
// CHECK-NEXT:    %[[C:.+]] = arith.addf %[[X2]], %[[Y2]] : bf16
// CHECK-COUNT-4: arith.subf
// CHECK-NEXT:    %[[D:.+]] = arith.addf
// CHECK-NEXT:    %[[A1:.+]] = arith.addf %[[A]], %[[C]] : bf16
// CHECK-NEXT:    %[[T:.+]] = arith.subf %[[A1]], %[[A]] : bf16
// CHECK-NEXT:    %[[C1:.+]] = arith.subf %[[C]], %[[T]] : bf16
// CHECK-NEXT:    %[[BD:.+]] = arith.addf %[[B]], %[[D]] : bf16
// CHECK-NEXT:    %[[B1:.+]] = arith.addf %[[BD]], %[[C1]] : bf16
// CHECK-NEXT:    %[[HI:.+]] = arith.addf %[[A1]], %[[B1]] : bf16
// CHECK-NEXT:    %[[T1:.+]] = arith.subf %[[HI]], %[[A1]] : bf16
// CHECK-NEXT:    %[[LO:.+]] = arith.subf %[[B1]], %[[T1]] : bf16
// CHECK-NEXT:    return %[[HI]], %[[LO]]
func.func @add(%x: !mcf.expansion<bf16 x 2>, %y: !mcf.expansion<bf16 x 2>) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.add %x, %y : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// CHECK-LABEL: func.func @sub(
// CHECK-SAME:      %[[X1:[^:]+]]: bf16, %{{[^:]+}}: bf16, %[[Y1:[^:]+]]: bf16, %[[Y2:[^:]+]]: bf16)
// CHECK-DAG:     %[[N1:.+]] = arith.negf %[[Y1]] : bf16
// CHECK-DAG:     arith.negf %[[Y2]] : bf16
// CHECK:         arith.addf %[[X1]], %[[N1]] : bf16
func.func @sub(%x: !mcf.expansion<bf16 x 2>, %y: !mcf.expansion<bf16 x 2>) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.sub %x, %y : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// t = x1 / y1; (c, d) = two_prod(y1, t); (r, f) = fast_two_sum(c, y2*t)
// (r, f) = fast_two_sum(r, f + d); z = ((x1 - r) + (x2 - f)) / y1
// CHECK-LABEL: func.func @div(
// CHECK-SAME:      %[[X1:[^:]+]]: f32, %[[X2:[^:]+]]: f32, %[[Y1:[^:]+]]: f32, %[[Y2:[^:]+]]: f32)
// CHECK:         %[[T:.+]] = arith.divf %[[X1]], %[[Y1]] : f32
// CHECK:         %[[C:.+]] = arith.mulf %[[Y1]], %[[T]] : f32
// CHECK:         %[[D:.+]] = math.fma %[[Y1]], %[[T]], %{{.+}} : f32
// CHECK:         %[[P:.+]] = arith.mulf %[[Y2]], %[[T]] : f32
// CHECK:         %[[R0:.+]] = arith.addf %[[C]], %[[P]] : f32
// CHECK:         %[[F0:.+]] = arith.subf %[[P]], %{{.+}} : f32
// CHECK:         %[[F1:.+]] = arith.addf %[[F0]], %[[D]] : f32
// CHECK:         %[[R:.+]] = arith.addf %[[R0]], %[[F1]] : f32
// CHECK:         %[[F:.+]] = arith.subf %[[F1]], %{{.+}} : f32
// CHECK-DAG:     %[[HIGH:.+]] = arith.subf %[[X1]], %[[R]] : f32
// CHECK-DAG:     %[[LOW:.+]] = arith.subf %[[X2]], %[[F]] : f32
// CHECK:         %[[REST:.+]] = arith.addf %[[HIGH]], %[[LOW]] : f32
// CHECK:         %[[Z:.+]] = arith.divf %[[REST]], %[[Y1]] : f32
// CHECK:         %[[HI:.+]] = arith.addf %[[T]], %[[Z]] : f32
// CHECK:         %[[LO:.+]] = arith.subf %[[Z]], %{{.+}} : f32
// CHECK-NEXT:    return %[[HI]], %[[LO]]
func.func @div(%x: !mcf.expansion<f32 x 2>, %y: !mcf.expansion<f32 x 2>) -> !mcf.expansion<f32 x 2> {
  %0 = mcf.div %x, %y : !mcf.expansion<f32 x 2>
  return %0 : !mcf.expansion<f32 x 2>
}

// s = sqrt(x1); r = x2 + fma(-s, s, x1); t = r / (2*s), which is zero if s is.
// CHECK-LABEL: func.func @sqrt(
// CHECK-SAME:      %[[X1:[^:]+]]: bf16, %[[X2:[^:]+]]: bf16)
// CHECK:         %[[S:.+]] = math.sqrt %[[X1]] : bf16
// CHECK:         %[[N:.+]] = arith.negf %[[S]] : bf16
// CHECK:         %[[R:.+]] = math.fma %[[N]], %[[S]], %[[X1]] : bf16
// CHECK-DAG:     %[[TWICE:.+]] = arith.addf %[[S]], %[[S]] : bf16
// CHECK-DAG:     %[[R1:.+]] = arith.addf %[[X2]], %[[R]] : bf16
// CHECK:         %[[T:.+]] = arith.divf %[[R1]], %[[TWICE]] : bf16
// CHECK:         %[[SUM:.+]] = arith.addf %[[S]], %[[T]] : bf16
// CHECK:         %[[ERROR:.+]] = arith.subf %[[T]], %{{.+}} : bf16
// CHECK:         %[[ZERO:.+]] = arith.constant 0.000000e+00 : bf16
// CHECK:         %[[IS_ZERO:.+]] = arith.cmpf oeq, %[[S]], %[[ZERO]] : bf16
// CHECK-DAG:     %[[HI:.+]] = arith.select %[[IS_ZERO]], %[[S]], %[[SUM]] : bf16
// CHECK-DAG:     %[[LO:.+]] = arith.select %[[IS_ZERO]], %[[ZERO]], %[[ERROR]] : bf16
// CHECK:         return %[[HI]], %[[LO]]
func.func @sqrt(%x: !mcf.expansion<bf16 x 2>) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.sqrt %x : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// CHECK-LABEL: func.func @renormalize(
// CHECK-SAME:      %[[X1:[^:]+]]: bf16, %[[X2:[^:]+]]: bf16)
// CHECK-NEXT:    %[[HI:.+]] = arith.addf %[[X1]], %[[X2]] : bf16
// CHECK-COUNT-4: arith.subf
// CHECK-NEXT:    %[[LO:.+]] = arith.addf
// CHECK-NEXT:    return %[[HI]], %[[LO]]
func.func @renormalize(%x: !mcf.expansion<bf16 x 2>) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.renormalize %x : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// The leading component is less, or equal with a smaller next one.
// CHECK-LABEL: func.func @less(
// CHECK-SAME:      %[[X1:[^:]+]]: bf16, %[[X2:[^:]+]]: bf16, %[[Y1:[^:]+]]: bf16, %[[Y2:[^:]+]]: bf16)
// CHECK-DAG:     %[[LAST:.+]] = arith.cmpf olt, %[[X2]], %[[Y2]] : bf16
// CHECK-DAG:     %[[EQUAL:.+]] = arith.cmpf oeq, %[[X1]], %[[Y1]] : bf16
// CHECK-DAG:     %[[FIRST:.+]] = arith.cmpf olt, %[[X1]], %[[Y1]] : bf16
// CHECK-DAG:     %[[BOTH:.+]] = arith.andi %[[EQUAL]], %[[LAST]] : i1
// CHECK:         %[[RESULT:.+]] = arith.ori %[[FIRST]], %[[BOTH]] : i1
// CHECK:         return %[[RESULT]]
func.func @less(%x: !mcf.expansion<bf16 x 2>, %y: !mcf.expansion<bf16 x 2>) -> i1 {
  %0 = mcf.compare lt, %x, %y : !mcf.expansion<bf16 x 2>
  return %0 : i1
}

// x >= y is compared as y <= x.
// CHECK-LABEL: func.func @greater_or_equal(
// CHECK-SAME:      %[[X1:[^:]+]]: bf16, %[[X2:[^:]+]]: bf16, %[[Y1:[^:]+]]: bf16, %[[Y2:[^:]+]]: bf16)
// CHECK-DAG:     arith.cmpf ole, %[[Y2]], %[[X2]] : bf16
// CHECK-DAG:     arith.cmpf olt, %[[Y1]], %[[X1]] : bf16
func.func @greater_or_equal(%x: !mcf.expansion<bf16 x 2>, %y: !mcf.expansion<bf16 x 2>) -> i1 {
  %0 = mcf.compare ge, %x, %y : !mcf.expansion<bf16 x 2>
  return %0 : i1
}

// CHECK-LABEL: func.func @equal(
// CHECK-COUNT-2: arith.cmpf oeq
// CHECK-NOT:     arith.cmpf
// CHECK:         return
func.func @equal(%x: !mcf.expansion<bf16 x 2>, %y: !mcf.expansion<bf16 x 2>) -> i1 {
  %0 = mcf.compare eq, %x, %y : !mcf.expansion<bf16 x 2>
  return %0 : i1
}

// 0.999 is 1 - 2^-10 - ...: the rest after the leading component is rounded, too.
// CHECK-LABEL: func.func @constant(
// CHECK-DAG:     %[[HI:.+]] = arith.constant 1.000000e+00 : bf16
// CHECK-DAG:     %[[LO:.+]] = arith.constant -9.994500e-04 : bf16
// CHECK:         return %[[HI]], %[[LO]]
func.func @constant() -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.constant 0.999 : !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}
