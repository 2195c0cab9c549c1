// RUN: tandem-opt %s -convert-mcf-to-arith | FileCheck %s

!mixed = !mcf.expansion<bf16, f8E5M2>

// The trailing component is lo * 2^(e-8), where e is the leading one's exponent, at
// least -126. The sum is computed in the leading format and narrowed again.
// CHECK-LABEL: func.func @grow(
// CHECK-SAME:      %[[HI:[^:]+]]: bf16, %[[LO:[^:]+]]: f8E5M2, %[[A:[^:]+]]: bf16)
// CHECK:         %[[WIDE:.+]] = arith.extf %[[HI]] : bf16 to f32
// CHECK:         %[[BITS:.+]] = arith.bitcast %[[WIDE]] : f32 to i32
// CHECK:         %[[EXPONENT_BITS:.+]] = arith.constant 2139095040 : i32
// CHECK:         %[[FIELD:.+]] = arith.andi %[[BITS]], %[[EXPONENT_BITS]] : i32
// CHECK:         %[[LEAST:.+]] = arith.constant 8388608 : i32
// CHECK:         arith.select %{{.+}}, %[[FIELD]], %[[LEAST]] : i32
// CHECK:         %[[RESIDUAL:.+]] = arith.extf %[[LO]] : f8E5M2 to f32
// CHECK:         arith.constant 3.906250e-03 : f32
// CHECK:         %[[LOW:.+]] = arith.truncf %{{.+}} : f32 to bf16
// CHECK:         %[[SUM:.+]] = arith.addf %[[HI]], %[[A]] : bf16
// CHECK:         arith.addf %[[LOW]], %{{.+}} : bf16
// CHECK:         %[[NEW:.+]] = arith.addf %[[SUM]], %{{.+}} : bf16
// CHECK:         arith.constant 2.560000e+02 : f32
// CHECK:         arith.constant 5.734400e+04 : f32
// CHECK:         arith.cmpf ogt
// CHECK:         arith.cmpf olt
// CHECK:         %[[NARROW:.+]] = arith.truncf %{{.+}} : f32 to f8E5M2
// CHECK:         return %[[NEW]], %[[NARROW]]
func.func @grow(%s: !mixed, %a: bf16) -> !mixed {
  %0 = mcf.grow %s, %a : !mixed
  return %0 : !mixed
}

// Packing, unpacking and widening do not round the trailing component again.
// CHECK-LABEL: func.func @raw(
// CHECK-SAME:      %[[HI:[^:]+]]: bf16, %[[LO:[^:]+]]: f8E5M2)
// CHECK-NEXT:    return %[[HI]], %[[LO]]
func.func @raw(%hi: bf16, %lo: f8E5M2) -> (bf16, f8E5M2) {
  %0 = mcf.pack %hi, %lo : !mixed
  %1:2 = mcf.components %0 : !mixed
  return %1#0, %1#1 : bf16, f8E5M2
}

// CHECK-LABEL: func.func @convert(
// CHECK-SAME:      %[[HI:[^:]+]]: bf16, %{{[^:]+}}: f8E5M2)
// CHECK-NOT:     to f8E5M2
// CHECK:         %[[LOW:.+]] = arith.truncf %{{.+}} : f32 to bf16
// CHECK-NEXT:    return %[[HI]], %[[LOW]]
func.func @convert(%s: !mixed) -> !mcf.expansion<bf16 x 2> {
  %0 = mcf.convert %s : !mixed -> !mcf.expansion<bf16 x 2>
  return %0 : !mcf.expansion<bf16 x 2>
}

// CHECK-LABEL: func.func @to_float(
// CHECK:         %[[RESULT:.+]] = arith.addf %{{.+}}, %{{.+}} : f32
// CHECK-NEXT:    return %[[RESULT]]
func.func @to_float(%s: !mixed) -> f32 {
  %0 = mcf.to_float %s : !mixed -> f32
  return %0 : f32
}
