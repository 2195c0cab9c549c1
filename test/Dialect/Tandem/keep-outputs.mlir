// RUN: tandem-opt %s -tandem-connect-saves | FileCheck %s
// RUN: tandem-opt %s -tandem-connect-saves -tandem-apply-strategy=strategy=coat | FileCheck %s -check-prefix=COAT
// RUN: tandem-opt %s -tandem-connect-saves -tandem-apply-strategy=strategy=bf16 | FileCheck %s -check-prefix=SHARED

// Outputs that linear layers take are also saved, whether or not something
// restores them; a sum of the residual stream is not.
// CHECK-NOT: tandem.keep_outputs
tandem.keep_outputs @forward

// CHECK-LABEL: func.func @forward(
// CHECK-SAME:      %{{[^:]+}}: tensor<?x?xf32> {tandem.role = #tandem.role<saved "x.saved">}
// CHECK-SAME:      %{{[^:]+}}: tensor<?x?xf32> {tandem.role = #tandem.role<saved "y.kept", consumer = linear>})
// CHECK-SAME:      -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>)
// CHECK:         %[[SUM:.+]] = arith.addf
// CHECK:         %[[SQUARE:.+]] = arith.mulf
// CHECK:         return %[[SUM]], %[[SQUARE]], %{{.+}}, %[[SQUARE]]

// COAT-LABEL: func.func @forward(
// COAT-SAME:      #tandem.float<bf16>> {tandem.role = #tandem.role<output "y", consumer = linear>}
// COAT-SAME:      group = tensor, scale = f32>> {tandem.role = #tandem.role<saved "y.kept", consumer = linear>}

// An output whose storage is the one that linear layers keep is not stored again.
// SHARED-LABEL: func.func @forward(
// SHARED-NOT:       "y.kept"
// SHARED-SAME:      tandem.kept = {{.*}}y = #tandem.role<saved "y.kept", consumer = linear>
func.func @forward(
    %x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
    %h: tensor<?x?xf32> {tandem.role = #tandem.role<output "h">},
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y", consumer = linear>})
    -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %sum = arith.addf %x, %x : tensor<?x?xf32>
  %square = arith.mulf %sum, %sum : tensor<?x?xf32>
  tandem.save %x as "x" : tensor<?x?xf32>
  return %sum, %square : tensor<?x?xf32>, tensor<?x?xf32>
}

// The backward pass does not use it.
// CHECK-LABEL: func.func @backward(
// CHECK-NOT:       kept
func.func @backward(
    %dy: tensor<?x?xf32> {tandem.role = #tandem.role<input "dy", flow = gradient>},
    %dx: tensor<?x?xf32> {tandem.role = #tandem.role<output "dx", flow = gradient>})
    -> tensor<?x?xf32> attributes {tandem.forward = @forward} {
  %x = tandem.restore "x" : tensor<?x?xf32>
  %new_dx = arith.mulf %dy, %x : tensor<?x?xf32>
  return %new_dx : tensor<?x?xf32>
}

// An output that the layer's own backward pass restores is stored once, for the stricter consumer.
tandem.keep_outputs @root

// CHECK-LABEL: func.func @root(
// CHECK-SAME:      #tandem.role<saved "y.saved", consumer = linear>
// CHECK-NOT:       kept
// CHECK:         return
func.func @root(
    %x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y", consumer = linear>})
    -> tensor<?x?xf32> {
  %root = math.sqrt %x : tensor<?x?xf32>
  tandem.save %root as "y" : tensor<?x?xf32>
  return %root : tensor<?x?xf32>
}

func.func @root_backward(
    %dy: tensor<?x?xf32> {tandem.role = #tandem.role<input "dy", flow = gradient>},
    %dx: tensor<?x?xf32> {tandem.role = #tandem.role<output "dx", flow = gradient>})
    -> tensor<?x?xf32> attributes {tandem.forward = @root} {
  %y = tandem.restore "y" : tensor<?x?xf32>
  %new_dx = arith.divf %dy, %y : tensor<?x?xf32>
  return %new_dx : tensor<?x?xf32>
}
