// Arithmetic that LLVM shares, and that MLIR's canonicalization would round
// differently, satisfies the kernel's requirements: nothing is refused.
// RUN: tandem-translate %s --function=sums --strategy=mixed --tandem-to-ptx --chip=sm_80 | FileCheck %s
// RUN: tandem-translate %s --function=sums --strategy=mixed --tandem-to-ptx --chip=sm_90 | FileCheck %s
// RUN: tandem-translate %s --function=size --strategy=mixed --tandem-to-ptx --chip=sm_90 | FileCheck %s --check-prefix=SIZE

// The sums of the tensor and of the model begin with the sum of a thread's
// elements.
// CHECK: .entry tandem_sums_phase0(
func.func @sums(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">},
                %g: tensor<?xf32> {tandem.role = #tandem.role<grad "g">}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %size = tensor.dim %p, %c0 : tensor<?xf32>
  %zero = arith.constant dense<0.0> : tensor<f32>
  %own = linalg.reduce { arith.addf } ins(%g : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0]
  %all = linalg.reduce { arith.addf } ins(%g : tensor<?xf32>) outs(%zero : tensor<f32>) dimensions = [0] {tandem.scope = "model"}
  %a = tensor.extract %own[] : tensor<f32>
  %b = tensor.extract %all[] : tensor<f32>
  %share = arith.divf %a, %b : f32
  %shares = tensor.splat %share[%size] : tensor<?xf32>
  %new_p = arith.addf %p, %shares : tensor<?xf32>
  return %new_p : tensor<?xf32>
}

// The number of elements is rounded to f32 and then to bf16.
// SIZE: cvt.rn.f32.s64
// SIZE: cvt.rn.bf16.f32
func.func @size(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %size = tensor.dim %p, %c0 : tensor<?xf32>
  %int = arith.index_cast %size : index to i64
  %count = arith.sitofp %int : i64 to f32
  %counts = tensor.splat %count[%size] : tensor<?xf32>
  %new_p = arith.addf %p, %counts : tensor<?xf32>
  return %new_p : tensor<?xf32>
}

tandem.strategy @mixed compute(<component, bf16>) {
  tandem.assign param = #tandem.expansion<bf16 x 2>
  tandem.assign grad = #tandem.float<bf16>
}
