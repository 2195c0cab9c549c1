// RUN: cat %S/../../../examples/llama/eager.mlir %S/../../../examples/llama/layer.mlir | tandem-opt -tandem-connect-saves -tandem-apply-strategy=strategy=eager -tandem-print-saves -o /dev/null 2>&1 | FileCheck %s -check-prefix=EAGER
// RUN: tandem-opt %S/../../../examples/llama/layer.mlir -tandem-connect-saves -tandem-apply-strategy=strategy=te-current -tandem-print-saves -o /dev/null 2>&1 | FileCheck %s -check-prefix=TE
// RUN: tandem-opt %S/../../../examples/llama/layer.mlir -tandem-connect-saves -tandem-apply-strategy=strategy=coat -tandem-print-saves -o /dev/null 2>&1 | FileCheck %s -check-prefix=COAT
// RUN: tandem-opt %S/../../../examples/llama/layer.mlir -tandem-connect-saves -tandem-apply-strategy=strategy=coat-fp8 -tandem-print-saves -o /dev/null 2>&1 | FileCheck %s -check-prefix=FP8
// RUN: tandem-opt %s -tandem-connect-saves -tandem-apply-strategy=strategy=coat -tandem-print-saves=hidden=100 2>&1 | FileCheck %s
// RUN: not tandem-opt %s -tandem-connect-saves -tandem-apply-strategy=strategy=coat -tandem-print-saves -o /dev/null 2>&1 | FileCheck %s -check-prefix=UNKNOWN
// RUN: not tandem-opt %s -tandem-connect-saves -tandem-print-saves=hidden=100 -o /dev/null 2>&1 | FileCheck %s -check-prefix=EARLY

// The three rows of COAT's table 2, which excludes scales: 22.66, 18.33 and 13.33 U.
// EAGER:      @llama_layer keeps for a token, in U = 3072 * 2 bytes:
// EAGER-DAG:  attention_norm 2.0000 2.0000 nonlinear #tandem.float<f32>
// EAGER-DAG:  act_gate 2.6667 2.6667 nonlinear #tandem.float<bf16>
// EAGER:      total 22.6667 22.6667
// EAGER-NEXT: computed again instead payload and scales operations of
// EAGER-NEXT: act_silu 2.6667 2.6667 3 + exp act_gate
// EAGER-NEXT: linear_down 2.6667 2.6667 1 act_silu, act_up
// EAGER-NOT:  {{.}}
// TE-DAG:     attention_norm 1.0000 1.0000 nonlinear #tandem.float<bf16>
// TE-DAG:     linear_down 1.3333 1.3333 linear #tandem.scaled
// TE:         total 18.3333 18.3333
// COAT-DAG:   attention_norm 0.5000 0.5625 nonlinear #tandem.scaled<#scaled.float<f8E4M3FN>, group = 16, scale = bf16>
// COAT-DAG:   linear_qkv 0.5000 0.5000 linear #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>
// COAT-DAG:   flash_output 1.0000 1.0000 opaque #tandem.float<bf16>
// COAT:       total 13.3333 13.9583
// COAT-NEXT:  computed again instead payload and scales operations of
// COAT-NEXT:  act_silu 1.3333 1.5000 3 + exp act_gate
// COAT-NEXT:  linear_down 1.3333 1.3333 1 act_silu, act_up
// COAT-NOT:   {{.}}

// These include the transposed copies of inputs of linear layers.
// FP8-DAG:    linear_qkv 1.0000 1.0000 linear #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>
// FP8:        total {{.+}}

// 100 elements have 7 scales in groups of 16; a number for each row takes 2 of its 200
// bytes.
// CHECK:      @forward keeps for a token, in U = 100 * 2 bytes:
// CHECK-NEXT:   payload and scales consumer storage
// CHECK-NEXT:   level 0.0200 0.0200 nonlinear #tandem.float<f32>
// CHECK-NEXT:   x.saved 0.5000 0.5700 nonlinear #tandem.scaled<#scaled.float<f8E4M3FN>, group = 16, scale = bf16>
// CHECK-NEXT:   total 0.5200 0.5900

// An output can be recomputed from saved tensors and from inputs that the
// backward pass also takes. A sum along a row of 100 takes as many additions for
// its single element. The product needs an input that the backward pass lacks.
// CHECK-NEXT: @softened keeps for a token, in U = 100 * 2 bytes:
// CHECK:        total
// CHECK-NEXT:   computed again instead payload and scales operations of
// CHECK-NEXT:   y - - 2 + exp x.saved, sum, weight
// CHECK-NEXT:   sum 0.0200 0.0200 100 x.saved
// CHECK-NEXT:   twice 0.0200 0.0200 200 + 100 exp x.saved, sum
// CHECK-NEXT: #map
// CHECK:      func.func @forward

// UNKNOWN: error: has no tensor whose columns are known; say how many elements a token has: hidden=N
// EARLY: error: has no storages; run -tandem-apply-strategy first
func.func @forward(%x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
                   %level: tensor<?xf32> {tandem.role = #tandem.role<input "given", per = row>}) {
  tandem.save %x as "x" : tensor<?x?xf32>
  tandem.save %level as "level" per(row) : tensor<?xf32>
  return
}

#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
#matrix = affine_map<(i, j) -> (i, j)>
func.func @softened(
    %x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
    %other: tensor<?x?xf32> {tandem.role = #tandem.role<input "other">},
    %weight: tensor<?xf32> {tandem.role = #tandem.role<input "weight", per = column>},
    %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "y">}) -> tensor<?x?xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x?xf32>
  %by_row = tensor.empty(%rows) : tensor<?xf32>
  %none = linalg.fill ins(%zero : f32) outs(%by_row : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.reduce { arith.addf } ins(%x : tensor<?x?xf32>) outs(%none : tensor<?xf32>) dimensions = [1]
  %new_y, %power = linalg.generic {
      indexing_maps = [#matrix, #row, #column, #matrix, #matrix], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sum, %weight : tensor<?x?xf32>, tensor<?xf32>, tensor<?xf32>)
      outs(%y, %y : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%a: f32, %s: f32, %w: f32, %out0: f32, %out1: f32):
    %quotient = arith.divf %a, %s : f32
    %exp = math.exp %quotient : f32
    %scaled = arith.mulf %exp, %w : f32
    linalg.yield %scaled, %exp : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)
  %twice = linalg.reduce { arith.addf } ins(%power : tensor<?x?xf32>) outs(%none : tensor<?xf32>) dimensions = [1]
  %product = arith.mulf %x, %other : tensor<?x?xf32>
  tandem.save %x as "x" : tensor<?x?xf32>
  tandem.save %product as "product" : tensor<?x?xf32>
  tandem.save %sum as "sum" per(row) : tensor<?xf32>
  tandem.save %twice as "twice" per(row) : tensor<?xf32>
  return %new_y : tensor<?x?xf32>
}

func.func @softened_backward(
    %weight: tensor<?xf32> {tandem.role = #tandem.role<input "weight", per = column>},
    %dx: tensor<?x?xf32> {tandem.role = #tandem.role<output "dx">})
    -> tensor<?x?xf32> attributes {tandem.forward = @softened} {
  %x = tandem.restore "x" : tensor<?x?xf32>
  %product = tandem.restore "product" : tensor<?x?xf32>
  %sum = tandem.restore "sum" : tensor<?xf32>
  %twice = tandem.restore "twice" : tensor<?xf32>
  %new_dx = arith.mulf %x, %product : tensor<?x?xf32>
  return %new_dx : tensor<?x?xf32>
}
