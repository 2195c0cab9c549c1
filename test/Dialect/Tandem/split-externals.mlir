// RUN: tandem-opt %s -tandem-to-kernel=strategy=fp32 -tandem-split-phases | FileCheck %s

// A sum over what one step leaves needs a launch of its own, after which another launch writes what
// is sent to the next step. The last launch recomputes nothing that only steps read.

// CHECK-LABEL: tandem.step @chain
// CHECK-SAME:      reductions(1)
// CHECK:       tandem.launch reduction externals ["first"] body {
// CHECK-NOT:     tandem.partial
// CHECK:         tandem.store_plane
// CHECK-NOT:     tandem.store_plane
// CHECK:       tandem.launch reduction body {
// CHECK:         tandem.partial sum
// CHECK-NOT:     tandem.store_plane
// CHECK:       tandem.launch reduction externals ["second"] body {
// CHECK:         tandem.reduction_result
// CHECK:         tandem.store_plane
// CHECK-NOT:     tandem.store_plane
// CHECK:       tandem.launch main body {
// CHECK-NOT:     tandem.reduction_result
// CHECK:         tandem.store_plane
// CHECK-NOT:     tandem.store_plane
func.func @chain(
    %param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">}) -> tensor<?xf32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %c0 = arith.constant 0 : index
  %size = tensor.dim %param, %c0 : tensor<?xf32>
  %a = tandem.external "first"(%grad) sends ["x"] receives ["a"] format(f32)
      : (tensor<?xf32>) -> tensor<?xf32>
  %total = linalg.reduce { arith.addf } ins(%a : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0]
  %sum = tensor.extract %total[] : tensor<f32>
  %sums = tensor.splat %sum[%size] : tensor<?xf32>
  %y = arith.divf %a, %sums : tensor<?xf32>
  %z = tandem.external "second"(%y) sends ["y"] receives ["z"] format(f32)
      : (tensor<?xf32>) -> tensor<?xf32>
  %new = arith.addf %param, %z : tensor<?xf32>
  return %new : tensor<?xf32>
}

// Launches over the rows of matrices share no launch of the device across a step.

// CHECK-LABEL: tandem.step @rows
// CHECK:       tandem.launch reduction externals ["scale"] body {
// CHECK-NOT:   fused_with_previous
// CHECK:       tandem.launch main body {
func.func @rows(
    %param: tensor<?x?xf32> {tandem.role = #tandem.role<param "param">},
    %grad: tensor<?x?xf32> {tandem.role = #tandem.role<grad "grad">},
    %rows: tensor<?xf32> {tandem.role = #tandem.role<state "rows", per = row>})
    -> (tensor<?x?xf32>, tensor<?xf32>) {
  %a = tandem.external "scale"(%grad) sends ["x"] receives ["a"] format(bf16)
      : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %new = arith.addf %param, %a : tensor<?x?xf32>
  return %new, %rows : tensor<?x?xf32>, tensor<?xf32>
}
