// RUN: tandem-opt %s -split-input-file -verify-diagnostics

func.func @fast_two_sum_c1(%a: bf16) {
  // expected-error @+1 {{'mcf.fast_two_sum' op makes two components of one format, but the result is '!mcf.expansion<bf16 x 3>'}}
  %0 = mcf.fast_two_sum %a, %a granted : !mcf.expansion<bf16 x 3>
  return
}

// -----

func.func @two_sum_c1(%a: bf16) {
  // expected-error @+1 {{'mcf.two_sum' op makes two components of one format, but the result is '!mcf.expansion<bf16, f8E5M2>'}}
  %0 = mcf.two_sum %a, %a : !mcf.expansion<bf16, f8E5M2>
  return
}

// -----

func.func @two_prod_c1(%a: vector<4xf16>) {
  // expected-error @+1 {{'mcf.two_prod' op makes two components of one format, but the result is '!mcf.expansion<f16 x 3>'}}
  %0 = mcf.two_prod %a, %a : vector<4x!mcf.expansion<f16 x 3>>
  return
}

// -----

func.func @two_prod_dekker_c1(%a: f32) {
  // expected-error @+1 {{'mcf.two_prod_dekker' op makes two components of one format, but the result is '!mcf.expansion<f32 x 3>'}}
  %0 = mcf.two_prod_dekker %a, %a : !mcf.expansion<f32 x 3>
  return
}

// -----

func.func @split_c1(%a: bf16) {
  // expected-error @+1 {{'mcf.split' op makes two components of one format, but the result is '!mcf.expansion<bf16 x 3>'}}
  %0 = mcf.split %a : !mcf.expansion<bf16 x 3>
  return
}

// -----

func.func @kahan_c1(%s: !mcf.expansion<bf16 x 3>, %a: bf16) {
  // expected-error @+1 {{'mcf.kahan' op makes two components of one format, but the result is '!mcf.expansion<bf16 x 3>'}}
  %0 = mcf.kahan %s, %a : !mcf.expansion<bf16 x 3>
  return
}

// -----

// Operands must be components with the result's format and shape.

func.func @two_sum_operand_format(%a: bf16, %b: f16) {
  // expected-error @+1 {{failed to verify that 'rhs' has the leading component's type of 'result'}}
  %0 = "mcf.two_sum"(%a, %b) : (bf16, f16) -> !mcf.expansion<bf16 x 2>
  return
}

// -----

func.func @grow_operand_shape(%s: vector<8x!mcf.expansion<bf16 x 2>>, %a: bf16) {
  // expected-error @+1 {{failed to verify that 'rhs' has the leading component's type of 'result'}}
  %0 = "mcf.grow"(%s, %a) : (vector<8x!mcf.expansion<bf16 x 2>>, bf16) -> vector<8x!mcf.expansion<bf16 x 2>>
  return
}

// -----

func.func @scale_result_type(%s: !mcf.expansion<bf16 x 2>, %a: bf16) {
  // expected-error @+1 {{failed to verify that all of {lhs, result} have same type}}
  %0 = "mcf.scale"(%s, %a) : (!mcf.expansion<bf16 x 2>, bf16) -> !mcf.expansion<bf16 x 3>
  return
}

// -----

func.func @mul_operand_types(%s: !mcf.expansion<bf16 x 2>, %t: !mcf.expansion<f16 x 2>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "mcf.mul"(%s, %t) : (!mcf.expansion<bf16 x 2>, !mcf.expansion<f16 x 2>) -> !mcf.expansion<bf16 x 2>
  return
}

// -----

func.func @neg_not_an_expansion(%a: bf16) {
  // expected-error @+1 {{must be an expansion, or a vector or tensor of expansions, but got 'bf16'}}
  %0 = mcf.neg %a : bf16
  return
}

// -----

func.func @two_sum_not_a_component(%a: f64) {
  // expected-error @+1 {{must be a bf16, f16, f32, f8E4M3FN or f8E5M2 value, or a vector or tensor of them, but got 'f64'}}
  %0 = "mcf.two_sum"(%a, %a) : (f64, f64) -> !mcf.expansion<f32 x 2>
  return
}

// -----

func.func @pack_c1(%a: bf16) {
  // expected-error @+1 {{'mcf.pack' op has 3 operands, but '!mcf.expansion<bf16 x 2>' has 2 components}}
  %0 = "mcf.pack"(%a, %a, %a) : (bf16, bf16, bf16) -> !mcf.expansion<bf16 x 2>
  return
}

// -----

func.func @pack_c1_in_text(%a: bf16) {
  // expected-error @+1 {{number of operands and types do not match: got 1 operands and 2 types}}
  %0 = mcf.pack %a : !mcf.expansion<bf16 x 2>
  return
}

// -----

func.func @pack_c2(%a: bf16) {
  // expected-error @+1 {{'mcf.pack' op operand 1 must be 'f8E5M2', got 'bf16'}}
  %0 = "mcf.pack"(%a, %a) : (bf16, bf16) -> !mcf.expansion<bf16, f8E5M2>
  return
}

// -----

func.func @components_c1(%s: !mcf.expansion<bf16 x 2>) {
  // expected-error @+1 {{'mcf.components' op must have one result for each component of '!mcf.expansion<bf16 x 2>'}}
  %0 = "mcf.components"(%s) : (!mcf.expansion<bf16 x 2>) -> bf16
  return
}

// -----

func.func @from_float_c1_format(%x: bf16) {
  // expected-error @+1 {{'mcf.from_float' op operand must be f32 or f64 in the result's shape and wider than its components, got 'bf16'}}
  %0 = mcf.from_float %x : bf16 -> !mcf.expansion<f8E5M2 x 2>
  return
}

// -----

func.func @from_float_c1_width(%x: f32) {
  // expected-error @+1 {{wider than its components, got 'f32'}}
  %0 = mcf.from_float %x : f32 -> !mcf.expansion<f32 x 2>
  return
}

// -----

func.func @from_float_c1_shape(%x: f32) {
  // expected-error @+1 {{'mcf.from_float' op if a result is non-scalar, then at least one operand must be non-scalar}}
  %0 = mcf.from_float %x : f32 -> vector<4x!mcf.expansion<bf16 x 2>>
  return
}

// -----

func.func @to_float_c1_format(%s: !mcf.expansion<bf16 x 2>) {
  // expected-error @+1 {{'mcf.to_float' op result must be f32 or f64 in the operand's shape and at least as wide as its components, got 'i32'}}
  %0 = mcf.to_float %s : !mcf.expansion<bf16 x 2> -> i32
  return
}

// -----

func.func @to_float_c1_shape(%s: tensor<4x!mcf.expansion<bf16 x 2>>) {
  // expected-error @+1 {{'mcf.to_float' op all non-scalar operands/results must have the same shape and base type}}
  %0 = mcf.to_float %s : tensor<4x!mcf.expansion<bf16 x 2>> -> tensor<5xf32>
  return
}

// -----

func.func @compare_c1(%s: vector<4x!mcf.expansion<bf16 x 2>>) {
  // expected-error @+1 {{'mcf.compare' op if an operand is non-scalar, then there must be at least one non-scalar result}}
  %0 = "mcf.compare"(%s, %s) <{predicate = 0 : i32}> : (vector<4x!mcf.expansion<bf16 x 2>>, vector<4x!mcf.expansion<bf16 x 2>>) -> i1
  return
}

// -----

func.func @compare_predicate(%s: !mcf.expansion<bf16 x 2>) {
  // expected-error @+1 {{unknown predicate 'ne'; expected eq, lt, le, gt or ge}}
  %0 = mcf.compare ne, %s, %s : !mcf.expansion<bf16 x 2>
  return
}

// -----

func.func @convert_c1_mixed(%s: !mcf.expansion<bf16 x 2>) {
  // expected-error @+1 {{'mcf.convert' op converts between a mixed expansion and two components of its leading format, got '!mcf.expansion<bf16 x 2>' to '!mcf.expansion<bf16 x 2>'}}
  %0 = mcf.convert %s : !mcf.expansion<bf16 x 2> -> !mcf.expansion<bf16 x 2>
  return
}

// -----

func.func @convert_c1_leading(%s: !mcf.expansion<bf16, f8E5M2>) {
  // expected-error @+1 {{'mcf.convert' op converts between a mixed expansion and two components of its leading format, got '!mcf.expansion<bf16, f8E5M2>' to '!mcf.expansion<f16 x 2>'}}
  %0 = mcf.convert %s : !mcf.expansion<bf16, f8E5M2> -> !mcf.expansion<f16 x 2>
  return
}

// -----

func.func @convert_c1_length(%s: !mcf.expansion<bf16, f8E5M2>) {
  // expected-error @+1 {{'mcf.convert' op converts between a mixed expansion and two components of its leading format, got '!mcf.expansion<bf16, f8E5M2>' to '!mcf.expansion<bf16 x 3>'}}
  %0 = mcf.convert %s : !mcf.expansion<bf16, f8E5M2> -> !mcf.expansion<bf16 x 3>
  return
}

// -----

func.func @sqrt_types(%s: !mcf.expansion<bf16 x 2>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "mcf.sqrt"(%s) : (!mcf.expansion<bf16 x 2>) -> !mcf.expansion<bf16 x 3>
  return
}
