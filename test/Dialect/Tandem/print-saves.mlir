// RUN: tandem-opt %S/../../../examples/llama/layer.mlir -tandem-connect-saves -tandem-apply-strategy="strategy=eager path=%S/../../../examples/llama" -tandem-print-saves -o /dev/null 2>&1 | FileCheck %s -check-prefix=EAGER
// RUN: tandem-opt %S/../../../examples/llama/layer.mlir -tandem-connect-saves -tandem-apply-strategy=strategy=te-current -tandem-print-saves -o /dev/null 2>&1 | FileCheck %s -check-prefix=TE
// RUN: tandem-opt %S/../../../examples/llama/layer.mlir -tandem-connect-saves -tandem-apply-strategy=strategy=coat -tandem-print-saves -o /dev/null 2>&1 | FileCheck %s -check-prefix=COAT
// RUN: tandem-opt %s -tandem-connect-saves -tandem-apply-strategy=strategy=coat -tandem-print-saves=hidden=100 2>&1 | FileCheck %s
// RUN: not tandem-opt %s -tandem-connect-saves -tandem-apply-strategy=strategy=coat -tandem-print-saves -o /dev/null 2>&1 | FileCheck %s -check-prefix=UNKNOWN
// RUN: not tandem-opt %s -tandem-connect-saves -tandem-print-saves=hidden=100 -o /dev/null 2>&1 | FileCheck %s -check-prefix=EARLY

// The three rows of COAT's table 2, which leaves scales out: 22.66, 18.33 and 13.33 U.
// EAGER:      @llama_layer keeps for a token, in U = 3072 * 2 bytes:
// EAGER-DAG:  attention_norm 2.0000 2.0000 nonlinear #tandem.float<f32>
// EAGER-DAG:  act_gate 2.6667 2.6667 nonlinear #tandem.float<bf16>
// EAGER:      total 22.6667 22.6667
// TE-DAG:     attention_norm 1.0000 1.0000 nonlinear #tandem.float<bf16>
// TE-DAG:     linear_down 1.3333 1.3333 linear #tandem.scaled
// TE:         total 18.3333 18.3333
// COAT-DAG:   attention_norm 0.5000 0.5625 nonlinear #tandem.scaled<#scaled.float<f8E4M3FN>, group = 16, scale = bf16>
// COAT-DAG:   linear_qkv 0.5000 0.5000 linear #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>
// COAT-DAG:   flash_output 1.0000 1.0000 opaque #tandem.float<bf16>
// COAT:       total 13.3333 13.9583

// 100 elements have 7 scales in groups of 16; a number for each row is 2 of its 200 bytes.
// CHECK:      @forward keeps for a token, in U = 100 * 2 bytes:
// CHECK-NEXT:   payload and scales consumer storage
// CHECK-NEXT:   level 0.0200 0.0200 nonlinear #tandem.float<f32>
// CHECK-NEXT:   x.saved 0.5000 0.5700 nonlinear #tandem.scaled<#scaled.float<f8E4M3FN>, group = 16, scale = bf16>
// CHECK-NEXT:   total 0.5200 0.5900
// CHECK:      func.func @forward

// UNKNOWN: error: has no tensor whose columns are known; say how many elements a token has: hidden=N
// EARLY: error: has no storages; run -tandem-apply-strategy first
func.func @forward(%x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">},
                   %level: tensor<?xf32> {tandem.role = #tandem.role<input "given", per = row>}) {
  tandem.save %x as "x" : tensor<?x?xf32>
  tandem.save %level as "level" per(row) : tensor<?xf32>
  return
}
