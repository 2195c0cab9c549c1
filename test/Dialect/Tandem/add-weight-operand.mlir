// RUN: tandem-opt %s -tandem-add-weight-operand -split-input-file | FileCheck %s
// RUN: tandem-opt %s -tandem-add-weight-operand -tandem-recognize-updates \
// RUN:   -tandem-apply-strategy=strategy=s -tandem-form-kernel -split-input-file \
// RUN:   | FileCheck %s --check-prefix=KERNEL
// RUN: tandem-opt %s -tandem-add-weight-operand -tandem-recognize-updates \
// RUN:   -tandem-apply-strategy=strategy=s -tandem-form-kernel -tandem-apply-policy \
// RUN:   -tandem-lower-storage -split-input-file | FileCheck %s --check-prefix=LOWER

// The operand is an output after all other tensors, so that their random bits stay the same.

// CHECK-LABEL: func.func @sgd(
// CHECK-SAME:    %[[PARAM:[^:]+]]: tensor<?xf32> {tandem.role = #tandem.role<param "param">}
// CHECK-SAME:    tensor<?xf32> {tandem.role = #tandem.role<grad "grad">}
// CHECK-SAME:    tensor<?xf32> {tandem.role = #tandem.role<output "operand", consumer = linear>}
// CHECK-SAME:    f32 {tandem.role = #tandem.role<hyper "lr">}
// CHECK-SAME:    -> (tensor<?xf32>, tensor<?xf32>)
func.func @sgd(%param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
               %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
               %lr: f32 {tandem.role = #tandem.role<hyper "lr">}) -> tensor<?xf32> {
  // CHECK:      %[[NEW:.+]] = linalg.map
  %new = linalg.map ins(%param, %grad : tensor<?xf32>, tensor<?xf32>) outs(%param : tensor<?xf32>)
    (%p: f32, %g: f32, %out: f32) {
      %change = arith.mulf %lr, %g : f32
      %sum = arith.subf %p, %change : f32
      linalg.yield %sum : f32
    }
  // CHECK:      %[[VISIBLE:.+]] = tandem.visible %[[NEW]] of %[[PARAM]] : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
  // CHECK:      return %[[NEW]], %[[VISIBLE]] : tensor<?xf32>, tensor<?xf32>
  return %new : tensor<?xf32>
}

// In the kernel it is what the step stores in the weight's visible plane.

// KERNEL-LABEL: tandem.kernel @sgd
// KERNEL:         ^bb0(%[[PARAM:[^:]+]]: !tandem.stored<tensor<?xf32>, #tandem.remainder>
// KERNEL:         %[[NEW:.+]] = tandem.accumulate
// KERNEL-NEXT:    %[[VISIBLE:.+]] = tandem.visible %[[NEW]] of %[[PARAM]] : f32, !tandem.stored<tensor<?xf32>, #tandem.remainder> -> f32
// KERNEL-NEXT:    tandem.store %[[NEW]], %[[PARAM]]
// KERNEL-NEXT:    tandem.store %[[VISIBLE]], %{{.+}} : f32, <tensor<?xf32>, #tandem.float<f8E4M3FN>>

// LOWER-LABEL:  tandem.kernel @sgd
// LOWER:          %[[HIGH:.+]] = arith.trunci %{{.+}} : i32 to i16
// LOWER:          %[[VISIBLE:.+]] = arith.bitcast %[[HIGH]] : i16 to bf16
// LOWER-NEXT:     %[[WIDE:.+]] = arith.extf %[[VISIBLE]] : bf16 to f32
// LOWER-NEXT:     tandem.store_plane %[[HIGH]], %{{.+}}[0] : i16, <tensor<?xf32>, #tandem.remainder>
// LOWER:          arith.truncf %[[WIDE]] : f32 to f8E4M3FN
tandem.strategy @s compute(<f32, f32>) {
  tandem.assign param = #tandem.remainder
  tandem.assign grad = #tandem.float<bf16>
  tandem.assign output = #tandem.float<f8E4M3FN>
}

// -----

// Each of several params has an operand. Under the component policy a storage without components
// takes the visible component as an f32.

// CHECK-LABEL: func.func @two(
// CHECK-SAME:    #tandem.role<output "operand_a", consumer = linear>
// CHECK-SAME:    #tandem.role<output "operand_b", consumer = linear>
// CHECK-COUNT-2: tandem.visible
func.func @two(%a: tensor<?x?xf32> {tandem.role = #tandem.role<param "a">},
               %b: tensor<?x?xf32> {tandem.role = #tandem.role<param "b">})
    -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  return %a, %b : tensor<?x?xf32>, tensor<?x?xf32>
}

// LOWER-LABEL:  tandem.kernel @two
// LOWER:          %[[A:.+]] = tandem.load_plane %[[PARAM:.+]][0] : <tensor<?x?xf32>, #tandem.expansion<bf16 x 2>> -> bf16
// LOWER:          %[[CODE:.+]] = arith.bitcast %{{.+}} : bf16 to i16
// LOWER:          %[[BITS:.+]] = arith.select %{{.+}}, %{{.+}}, %[[CODE]] : i16
// LOWER:          %[[LEADING:.+]] = arith.bitcast %[[BITS]] : i16 to bf16
// LOWER-NEXT:     arith.extf %[[LEADING]] : bf16 to f32
// LOWER:          scaled.quantize
tandem.strategy @s compute(<component, bf16>) {
  tandem.assign param = #tandem.expansion<bf16 x 2>
  tandem.assign output consumer(linear) = #tandem.scaled<#scaled.float<f8E4M3FN>, group = 32, scale = f8E8M0FNU, recipe = pow2>
}
