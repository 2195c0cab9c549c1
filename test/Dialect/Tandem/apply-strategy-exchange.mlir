// RUN: tandem-opt %s -tandem-connect-externals -tandem-apply-strategy=strategy=wide | FileCheck %s

// A rule replaces the format that the graph gives to what is received; what is sent has none.

// CHECK-LABEL: func.func @step(
// CHECK-SAME:    !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> {tandem.role = #tandem.role<sent "x", external = "invert", format = bf16>}
// CHECK-SAME:    !tandem.stored<tensor<?xf32>, #tandem.float<f32>> {tandem.role = #tandem.role<received "y", external = "invert", format = f32>}
func.func @step(
    %p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
    %g: tensor<?xf32> {tandem.role = #tandem.role<grad "g">}) -> tensor<?xf32> {
  %y = tandem.external "invert"(%g) sends ["x"] receives ["y"] format(bf16) : (tensor<?xf32>) -> tensor<?xf32>
  %new = arith.addf %p, %y : tensor<?xf32>
  return %new : tensor<?xf32>
}

tandem.strategy @wide compute(<f32, f32>) {
  tandem.assign param = #tandem.float<bf16, dither>
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign received named("y") = #tandem.float<f32>
}
