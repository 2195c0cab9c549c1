// RUN: tandem-opt %s | tandem-opt | FileCheck %s
// RUN: tandem-opt %s -emit-bytecode | tandem-opt | FileCheck %s
// RUN: tandem-opt %s -mlir-print-op-generic | tandem-opt | FileCheck %s

// CHECK-LABEL: func.func @error_free_transforms(
// CHECK-SAME:      %[[A:.+]]: bf16, %[[B:.+]]: bf16)
func.func @error_free_transforms(%a: bf16, %b: bf16) {
  // CHECK: mcf.fast_two_sum %[[A]], %[[B]] granted : !mcf.expansion<bf16 x 2>
  %0 = mcf.fast_two_sum %a, %b granted : !mcf.expansion<bf16 x 2>
  // CHECK: mcf.fast_two_sum %[[A]], %[[B]] : !mcf.expansion<bf16 x 2>
  %1 = mcf.fast_two_sum %a, %b : !mcf.expansion<bf16 x 2>
  // CHECK: mcf.two_sum %[[A]], %[[B]] : !mcf.expansion<bf16 x 2>
  %2 = mcf.two_sum %a, %b : !mcf.expansion<bf16 x 2>
  // CHECK: mcf.two_prod %[[A]], %[[B]] : !mcf.expansion<bf16 x 2>
  %3 = mcf.two_prod %a, %b : !mcf.expansion<bf16 x 2>
  // CHECK: mcf.two_prod_dekker %[[A]], %[[B]] : !mcf.expansion<bf16 x 2>
  %4 = mcf.two_prod_dekker %a, %b : !mcf.expansion<bf16 x 2>
  // CHECK: mcf.split %[[A]] : !mcf.expansion<bf16 x 2>
  %5 = mcf.split %a : !mcf.expansion<bf16 x 2>
  return
}

// CHECK-LABEL: func.func @expansion_component(
// CHECK-SAME:      %[[S:.+]]: !mcf.expansion<f16 x 2>, %[[A:.+]]: f16)
func.func @expansion_component(%s: !mcf.expansion<f16 x 2>, %a: f16) {
  // CHECK: mcf.grow %[[S]], %[[A]] : !mcf.expansion<f16 x 2>
  %0 = mcf.grow %s, %a : !mcf.expansion<f16 x 2>
  // CHECK: mcf.kahan %[[S]], %[[A]] : !mcf.expansion<f16 x 2>
  %1 = mcf.kahan %s, %a : !mcf.expansion<f16 x 2>
  // CHECK: mcf.scale %[[S]], %[[A]] : !mcf.expansion<f16 x 2>
  %2 = mcf.scale %s, %a : !mcf.expansion<f16 x 2>
  return
}

// CHECK-LABEL: func.func @expansion_expansion(
// CHECK-SAME:      %[[S:.+]]: !mcf.expansion<f8E5M2 x 3>, %[[T:.+]]: !mcf.expansion<f8E5M2 x 3>)
func.func @expansion_expansion(%s: !mcf.expansion<f8E5M2 x 3>, %t: !mcf.expansion<f8E5M2 x 3>) {
  // CHECK: mcf.mul %[[S]], %[[T]] : !mcf.expansion<f8E5M2 x 3>
  %0 = mcf.mul %s, %t : !mcf.expansion<f8E5M2 x 3>
  // CHECK: mcf.add %[[S]], %[[T]] : !mcf.expansion<f8E5M2 x 3>
  %add = mcf.add %s, %t : !mcf.expansion<f8E5M2 x 3>
  // CHECK: mcf.sub %[[S]], %[[T]] : !mcf.expansion<f8E5M2 x 3>
  %sub = mcf.sub %s, %t : !mcf.expansion<f8E5M2 x 3>
  // CHECK: mcf.div %[[S]], %[[T]] : !mcf.expansion<f8E5M2 x 3>
  %div = mcf.div %s, %t : !mcf.expansion<f8E5M2 x 3>
  // CHECK: mcf.sqrt %[[S]] : !mcf.expansion<f8E5M2 x 3>
  %sqrt = mcf.sqrt %s : !mcf.expansion<f8E5M2 x 3>
  // CHECK: mcf.renormalize %[[S]] : !mcf.expansion<f8E5M2 x 3>
  %normal = mcf.renormalize %s : !mcf.expansion<f8E5M2 x 3>
  // CHECK: mcf.neg %[[S]] : !mcf.expansion<f8E5M2 x 3>
  %1 = mcf.neg %s : !mcf.expansion<f8E5M2 x 3>
  return
}

// CHECK-LABEL: func.func @mixed(
// CHECK-SAME:      %[[HI:.+]]: bf16, %[[LO:.+]]: f8E4M3FN)
func.func @mixed(%hi: bf16, %lo: f8E4M3FN) -> (bf16, f8E4M3FN) {
  // CHECK: %[[S:.+]] = mcf.pack %[[HI]], %[[LO]] : !mcf.expansion<bf16, f8E4M3FN>
  %0 = mcf.pack %hi, %lo : !mcf.expansion<bf16, f8E4M3FN>
  // CHECK: %[[C:.+]]:2 = mcf.components %[[S]] : !mcf.expansion<bf16, f8E4M3FN>
  %1:2 = mcf.components %0 : !mcf.expansion<bf16, f8E4M3FN>
  // CHECK: return %[[C]]#0, %[[C]]#1 : bf16, f8E4M3FN
  return %1#0, %1#1 : bf16, f8E4M3FN
}

// CHECK-LABEL: func.func @conversions(
// CHECK-SAME:      %[[X:.+]]: f32, %[[Y:.+]]: f64)
func.func @conversions(%x: f32, %y: f64) {
  // CHECK: %[[S:.+]] = mcf.from_float %[[X]] : f32 -> !mcf.expansion<bf16 x 3>
  %0 = mcf.from_float %x : f32 -> !mcf.expansion<bf16 x 3>
  // CHECK: mcf.to_float %[[S]] : !mcf.expansion<bf16 x 3> -> f32
  %1 = mcf.to_float %0 : !mcf.expansion<bf16 x 3> -> f32
  // CHECK: %[[T:.+]] = mcf.from_float %[[Y]] : f64 -> !mcf.expansion<f32 x 2>
  %2 = mcf.from_float %y : f64 -> !mcf.expansion<f32 x 2>
  // CHECK: mcf.to_float %[[T]] : !mcf.expansion<f32 x 2> -> f32
  %3 = mcf.to_float %2 : !mcf.expansion<f32 x 2> -> f32
  return
}

// CHECK-LABEL: func.func @shaped(
// CHECK-SAME:      %[[V:.+]]: vector<8x!mcf.expansion<bf16 x 2>>, %[[W:.+]]: vector<8xbf16>,
// CHECK-SAME:      %[[T:.+]]: tensor<?x4x!mcf.expansion<f16 x 2>>, %[[X:.+]]: tensor<?x4xf64>)
func.func @shaped(%v: vector<8x!mcf.expansion<bf16 x 2>>, %w: vector<8xbf16>,
                  %t: tensor<?x4x!mcf.expansion<f16 x 2>>, %x: tensor<?x4xf64>) {
  // CHECK: mcf.grow %[[V]], %[[W]] : vector<8x!mcf.expansion<bf16 x 2>>
  %0 = mcf.grow %v, %w : vector<8x!mcf.expansion<bf16 x 2>>
  // CHECK: mcf.two_sum %[[W]], %[[W]] : vector<8x!mcf.expansion<bf16 x 2>>
  %1 = mcf.two_sum %w, %w : vector<8x!mcf.expansion<bf16 x 2>>
  // CHECK: mcf.components %[[T]] : tensor<?x4x!mcf.expansion<f16 x 2>>
  %2:2 = mcf.components %t : tensor<?x4x!mcf.expansion<f16 x 2>>
  // CHECK: mcf.from_float %[[X]] : tensor<?x4xf64> -> tensor<?x4x!mcf.expansion<f16 x 2>>
  %3 = mcf.from_float %x : tensor<?x4xf64> -> tensor<?x4x!mcf.expansion<f16 x 2>>
  return
}

// CHECK-LABEL: func.func @comparisons(
// CHECK-SAME:      %[[S:.+]]: !mcf.expansion<bf16 x 2>, %[[V:.+]]: vector<8x!mcf.expansion<bf16 x 2>>)
func.func @comparisons(%s: !mcf.expansion<bf16 x 2>, %v: vector<8x!mcf.expansion<bf16 x 2>>) -> (i1, vector<8xi1>) {
  // CHECK: mcf.compare eq, %[[S]], %[[S]] : !mcf.expansion<bf16 x 2>
  %eq = mcf.compare eq, %s, %s : !mcf.expansion<bf16 x 2>
  // CHECK: mcf.compare lt, %[[S]], %[[S]] : !mcf.expansion<bf16 x 2>
  %lt = mcf.compare lt, %s, %s : !mcf.expansion<bf16 x 2>
  // CHECK: mcf.compare le, %[[S]], %[[S]] : !mcf.expansion<bf16 x 2>
  %le = mcf.compare le, %s, %s : !mcf.expansion<bf16 x 2>
  // CHECK: mcf.compare gt, %[[S]], %[[S]] : !mcf.expansion<bf16 x 2>
  %gt = mcf.compare gt, %s, %s : !mcf.expansion<bf16 x 2>
  // CHECK: mcf.compare ge, %[[V]], %[[V]] : vector<8x!mcf.expansion<bf16 x 2>>
  %ge = mcf.compare ge, %v, %v : vector<8x!mcf.expansion<bf16 x 2>>
  return %lt, %ge : i1, vector<8xi1>
}

// CHECK-LABEL: func.func @constants(
func.func @constants() {
  // CHECK: mcf.constant -2.500000e+00 : !mcf.expansion<bf16 x 2>
  %0 = mcf.constant -2.5 : !mcf.expansion<bf16 x 2>
  // CHECK: mcf.constant 1.000000e-01 : vector<4x!mcf.expansion<f16, f8E4M3FN>>
  %1 = mcf.constant 0.1 : vector<4x!mcf.expansion<f16, f8E4M3FN>>
  return
}

// CHECK-LABEL: func.func @convert(
// CHECK-SAME:      %[[S:.+]]: !mcf.expansion<bf16, f8E5M2>)
func.func @convert(%s: !mcf.expansion<bf16, f8E5M2>) {
  // CHECK: %[[T:.+]] = mcf.convert %[[S]] : !mcf.expansion<bf16, f8E5M2> -> !mcf.expansion<bf16 x 2>
  %0 = mcf.convert %s : !mcf.expansion<bf16, f8E5M2> -> !mcf.expansion<bf16 x 2>
  // CHECK: mcf.convert %[[T]] : !mcf.expansion<bf16 x 2> -> !mcf.expansion<bf16, f8E5M2>
  %1 = mcf.convert %0 : !mcf.expansion<bf16 x 2> -> !mcf.expansion<bf16, f8E5M2>
  return
}
