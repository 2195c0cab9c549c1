// RUN: tandem-opt %s -tandem-connect-saves -tandem-apply-strategy=strategy=mine | FileCheck %s
// RUN: tandem-opt %s -tandem-connect-saves -tandem-apply-strategy=strategy=mine -tandem-form-kernel | FileCheck %s -check-prefix=KERNEL

tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign input = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>
  tandem.assign output = #tandem.float<bf16>
  tandem.assign saved named("x") = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>
  tandem.assign saved = #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>
}

// A tensor that is only read has no copy. If an input has one, the saved tensor has none.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME:    %{{[^:]+}}: !tandem.stored<tensor<?x?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>> {tandem.role = #tandem.role<input "x">}
// CHECK-NOT:     saved "x"
// CHECK-SAME:    scale = f32, transposed = true>> {tandem.role = #tandem.role<saved "y.saved">})
// CHECK-SAME:    tandem.kept = {x = #tandem.role<saved "x.saved">}

// A function of flat tensors would become one of matrices.
// KERNEL: tandem.kernel @forward compute(<f32, f32>)
func.func @forward(
    %x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y">}) -> tensor<?x?xf32> {
  %twice = arith.addf %x, %x : tensor<?x?xf32>
  tandem.save %x as "x" : tensor<?x?xf32>
  tandem.save %twice as "y" : tensor<?x?xf32>
  return %twice : tensor<?x?xf32>
}

// CHECK-LABEL: func.func @backward(
// CHECK-NOT:     transposed
// CHECK-SAME:    #tandem.role<restored "x">
// CHECK-NOT:     transposed
// CHECK-SAME:    #tandem.role<restored "y.saved">
// CHECK-NOT:     transposed
// CHECK:         return
func.func @backward(
    %dy: tensor<?x?xf32> {tandem.role = #tandem.role<input "dy">},
    %dx: tensor<?x?xf32> {tandem.role = #tandem.role<output "dx">})
    -> tensor<?x?xf32> attributes {tandem.forward = @forward} {
  %x = tandem.restore "x" : tensor<?x?xf32>
  %y = tandem.restore "y" : tensor<?x?xf32>
  %0 = arith.mulf %x, %y : tensor<?x?xf32>
  %1 = arith.mulf %0, %dy : tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
