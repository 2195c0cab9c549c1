// RUN: tandem-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{unknown role 'weight'; expected param, grad, state, input, output, saved, restored, sent, received, hyper, step or seed}}
func.func private @role_kind(tensor<?xf32> {tandem.role = #tandem.role<weight "w">})

// -----

// expected-error @+1 {{unknown role field 'moment = third'; expected moment = none|first|second|average|slow, domain = any|nonneg|unit|epsilon, per = element|row|column, consumer = nonlinear|linear|opaque, flow = activation|gradient, external = "<name>", format = <type> or default = <number>}}
func.func private @role_moment(tensor<?xf32> {tandem.role = #tandem.role<state "m", moment = third>})

// -----

// expected-error @+1 {{unknown role field 'domain = positive'}}
func.func private @role_domain(f64 {tandem.role = #tandem.role<hyper "lr", domain = positive>})

// -----

// expected-error @+1 {{unknown role field 'range = unit'}}
func.func private @role_field(f64 {tandem.role = #tandem.role<hyper "lr", range = unit>})

// -----

// expected-error @+1 {{a hyper argument must be f64 or f32, but 'lr' is 'i64'}}
func.func private @role_hyper_type(i64 {tandem.role = #tandem.role<hyper "lr">})

// -----

// expected-error @+1 {{a step argument must be i64, but 't' is 'f64'}}
func.func private @role_step_type(f64 {tandem.role = #tandem.role<step "t">})

// -----

// expected-error @+1 {{a seed argument must be i64, but 's' is 'i32'}}
func.func private @role_seed_type(i32 {tandem.role = #tandem.role<seed "s">})

// -----

// expected-error @+1 {{a param argument must be a tensor of f32 (f32 stands for a real number; the strategy chooses the format), but 'w' is 'tensor<?xbf16>'}}
func.func private @role_param_type(tensor<?xbf16> {tandem.role = #tandem.role<param "w">})

// -----

// expected-error @+1 {{a grad argument must be a tensor of f32 (f32 stands for a real number; the strategy chooses the format), but 'g' is 'f32'}}
func.func private @role_grad_type(f32 {tandem.role = #tandem.role<grad "g">})

// -----

// expected-error @+1 {{a state argument must be a tensor of f32 (f32 stands for a real number; the strategy chooses the format), but 'm' is 'tensor<*xf32>'}}
func.func private @role_state_type(tensor<*xf32> {tandem.role = #tandem.role<state "m">})

// -----

// expected-error @+1 {{'tandem.role' must be a #tandem.role, got "param"}}
func.func private @role_attribute(tensor<?xf32> {tandem.role = "param"})

// -----

// expected-error @+1 {{'tandem.rule' is not an argument attribute of tandem; use 'tandem.role'}}
func.func private @role_name(tensor<?xf32> {tandem.rule = #tandem.role<param "w">})

// -----

// expected-error @+1 {{the f32 policy computes in f32, got 'bf16'}}
func.func private @compute_c1_f32() attributes {c = #tandem.compute<f32, bf16>}

// -----

// expected-error @+1 {{a component policy rounds to bf16, f16 or f32, got 'f8E5M2'}}
func.func private @compute_c1_component() attributes {c = #tandem.compute<component, f8E5M2>}

// -----

// expected-error @+1 {{a stored float is bf16, f16, f32, f8E4M3FN or f8E5M2, got 'f64'}}
func.func private @float_c1() attributes {s = #tandem.float<f64>}

// -----

// expected-error @+1 {{a float that is rounded by bits must be bf16 or f16, got 'f32'}}
func.func private @float_c2() attributes {s = #tandem.float<f32, stochastic>}

// -----

// expected-error @+1 {{a float that is rounded by bits must be bf16 or f16, got 'f8E4M3FN'}}
func.func private @float_c2_dither() attributes {s = #tandem.float<f8E4M3FN, dither>}

// -----

// expected-error @+1 {{a stored float rounds to nearest, stochastically or by dither; toward_zero is for #scaled.minifloat}}
func.func private @float_c3() attributes {s = #tandem.float<bf16, toward_zero>}

// -----

// expected-error @+1 {{a residual rounds to nearest, stochastically or by dither; toward_zero is for #scaled.minifloat}}
func.func private @residual_c3() attributes {s = #tandem.residual<bf16, i8, toward_zero>}

// -----

// expected-error @+1 {{an expansion has 2 or 3 components, got 1}}
func.func private @expansion() attributes {s = #tandem.expansion<bf16>}

// -----

// expected-error @+1 {{a Kahan-compensated float must be bf16 or f16, got 'f32'}}
func.func private @kahan_c1() attributes {s = #tandem.kahan<f32>}

// -----

// expected-error @+1 {{the visible copy of a master weight must be bf16 or f16, got 'f8E4M3FN'}}
func.func private @master_c1() attributes {s = #tandem.master<f8E4M3FN>}

// -----

// expected-error @+1 {{the logical tensor must have f32 elements, got 'tensor<?xbf16>'}}
func.func private @stored_c1(!tandem.stored<tensor<?xbf16>, #tandem.float<bf16>>)

// -----

// expected-error @+1 {{a working copy must be bf16 or f16, got 'f32'}}
func.func private @working_c1() attributes {s = #tandem.working<f32, #tandem.coded<#scaled.root>>}

// -----

// expected-error @+1 {{#tandem.master<bf16> has a plane that frameworks read already; use it without a working copy}}
func.func private @working_c2() attributes {s = #tandem.working<bf16, #tandem.master<bf16>>}

// -----

// expected-error @+1 {{a weight's codes are not read as a transpose; leave out transposed = true}}
func.func private @working_c3() attributes {s = #tandem.working<bf16, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>>}

// -----

// expected-error @+1 {{the visible copy of a residual storage must be bf16 or f16, got 'f32'}}
func.func private @residual_c1() attributes {s = #tandem.residual<f32, i8>}

// -----

// expected-error @+1 {{a residual is i8 or i16, got 'i32'}}
func.func private @residual_c2() attributes {s = #tandem.residual<bf16, i32>}

// -----

// expected-error @+1 {{a residual is i8 or i16, got 'ui8'}}
func.func private @residual_c2_unsigned() attributes {s = #tandem.residual<bf16, ui8>}

// -----

// expected-error @+1 {{a group is a power of two from 16 to 256, a square block of such a size, 'row' or 'tensor', got 8}}
func.func private @scaled_c1_small() attributes {s = #tandem.scaled<#scaled.root, group = 8, scale = f32>}

// -----

// expected-error @+1 {{a group is a power of two from 16 to 256, a square block of such a size, 'row' or 'tensor', got 512}}
func.func private @scaled_c1_large() attributes {s = #tandem.scaled<#scaled.root, group = 512, scale = f32>}

// -----

// expected-error @+1 {{a group is a power of two from 16 to 256, a square block of such a size, 'row' or 'tensor', got 48}}
func.func private @scaled_c1_power() attributes {s = #tandem.scaled<#scaled.root, group = 48, scale = f32>}

// -----

// expected-error @+1 {{a square block of such a size, 'row' or 'tensor', got 64x128}}
func.func private @scaled_c1_oblong() attributes {s = #tandem.scaled<#scaled.root, group = 64x128, scale = f32>}

// -----

// expected-error @+1 {{a square block of such a size, 'row' or 'tensor', got 8x8}}
func.func private @scaled_c1_small_block() attributes {s = #tandem.scaled<#scaled.root, group = 8x8, scale = f32>}

// -----

// expected-error @+1 {{a group is 'tensor', 'row', a number of elements, or a block such as 128x128}}
func.func private @scaled_group_cube() attributes {s = #tandem.scaled<#scaled.root, group = 16x16x16, scale = f32>}

// -----

// expected-error @+1 {{a group is 'tensor', 'row', a number of elements, or a block such as 128x128}}
func.func private @scaled_group_column() attributes {s = #tandem.scaled<#scaled.root, group = column, scale = f32>}

// -----

// expected-error @+1 {{unknown role field 'per = block'}}
func.func private @role_per_block(tensor<?xf32> {tandem.role = #tandem.role<state "m", per = block>})

// -----

// expected-error @+1 {{a history is of a whole tensor; use group = tensor}}
func.func private @scaled_c5_row() attributes {s = #tandem.scaled<#scaled.root, group = row, scale = f32, history = 4>}

// -----

// expected-error @+1 {{a scale is f32, bf16, f16 or f8E8M0FNU, got 'f8E4M3FN'; one of f8E4M3FN is for tensor_scale = true}}
func.func private @scaled_c2() attributes {s = #tandem.scaled<#scaled.root, group = 32, scale = f8E4M3FN>}

// -----

// expected-error @+1 {{tensor_scale = true is for groups of 16 to 256 with scale = f8E4M3FN and recipe = current, of a code that clamps and has no range of its own, got scale = 'f32' of #scaled.root}}
func.func private @scaled_c11() attributes {s = #tandem.scaled<#scaled.root, group = 32, scale = f32, tensor_scale = true>}

// -----

// expected-error @+1 {{tensor_scale = true is for groups of 16 to 256 with scale = f8E4M3FN}}
func.func private @scaled_c11_group() attributes {s = #tandem.scaled<#scaled.root, group = tensor, scale = f8E4M3FN, tensor_scale = true>}

// -----

// expected-error @+1 {{an f8E8M0FNU scale is a power of two; use recipe = pow2 or recipe = mx_floor}}
func.func private @scaled_c3() attributes {s = #tandem.scaled<#scaled.root, group = 32, scale = f8E8M0FNU>}

// -----

// expected-error @+1 {{a transposed copy has its rows' codes under scales other than its columns'; use group = tensor, or leave out transposed = true}}
func.func private @scaled_c9_group() attributes {s = #tandem.scaled<#scaled.float<f8E4M3FN>, group = row, scale = f32, transposed = true>}

// -----

// expected-error @+1 {{#scaled.pair<f8E4M3FN> has 2 planes, and a transposed copy is of one; leave out transposed = true}}
func.func private @scaled_c9_planes() attributes {s = #tandem.scaled<#scaled.pair<f8E4M3FN>, group = tensor, scale = f32, transposed = true>}

// -----

// expected-error @+1 {{#scaled.linear<bits = 4> has several codes in a byte, and a transposed copy has whole bytes; leave out transposed = true}}
func.func private @scaled_c9_packed() attributes {s = #tandem.scaled<#scaled.linear<bits = 4>, group = tensor, scale = f32, transposed = true>}

// -----

// expected-error @+1 {{#scaled.expanded<f8E4M3FN, range = 4.000000e+00> needs groups; use #tandem.scaled}}
func.func private @coded_c1() attributes {s = #tandem.coded<#scaled.expanded<f8E4M3FN, range = 4.0>>}

// -----

// expected-error @+1 {{#scaled.mulaw<signed> has no NaN, so that a group's scale is NaN where one of its elements is not finite, and clamps nothing; use group = 16 to 256, recipe = current or pow2 and a scale that is not f16}}
func.func private @scaled_c10_group() attributes {s = #tandem.scaled<#scaled.mulaw<signed>, group = tensor, scale = f32>}

// -----

// expected-error @+1 {{#scaled.mulaw<unsigned> has no NaN, so that a group's scale is NaN where one of its elements is not finite, and clamps nothing; use group = 16 to 256, recipe = current or pow2 and a scale that is not f16}}
func.func private @scaled_c10_given() attributes {s = #tandem.scaled<#scaled.mulaw<unsigned>, group = 64, scale = f32, recipe = given>}

// -----

// expected-error @+1 {{#scaled.mulaw<unsigned> has no NaN, so that a group's scale is NaN where one of its elements is not finite, and clamps nothing; use group = 16 to 256, recipe = current or pow2 and a scale that is not f16}}
func.func private @scaled_c10_scale() attributes {s = #tandem.scaled<#scaled.mulaw<unsigned>, group = 64, scale = f16>}

// -----

// expected-error @+1 {{#scaled.mulaw<unsigned> needs groups; use #tandem.scaled}}
func.func private @coded_c1_nan() attributes {s = #tandem.coded<#scaled.mulaw<unsigned>>}

// -----

// expected-error @+1 {{#scaled.mulaw<signed> has no NaN but that of a group's scale, and masked floats have no groups; use another code}}
func.func private @masked_c2_nan() attributes {s = #tandem.masked<f32, #scaled.mulaw<signed>>}

// -----

// expected-error @+1 {{a masked float is f32, bf16 or f16, got 'f8E4M3FN'}}
func.func private @masked_c1() attributes {s = #tandem.masked<f8E4M3FN, #scaled.minifloat<exponent = 4, mantissa = 2>>}

// -----

// expected-error @+1 {{#scaled.expanded<f8E4M3FN, range = 4.000000e+00> stretches the range of a group, and masked floats have no groups; use a code without a range}}
func.func private @masked_c2() attributes {s = #tandem.masked<f32, #scaled.expanded<f8E4M3FN, range = 4.0>>}

// -----

// expected-error @+1 {{a history is of 1 to 1024 stores, or 0 for none, got 1025}}
func.func private @scaled_c4_long() attributes {s = #tandem.scaled<#scaled.root, group = tensor, scale = f32, history = 1025>}

// -----

// expected-error @+1 {{a history is of 1 to 1024 stores, or 0 for none, got -1}}
func.func private @scaled_c4_negative() attributes {s = #tandem.scaled<#scaled.root, group = tensor, scale = f32, history = -1>}

// -----

// expected-error @+1 {{a history is of a whole tensor; use group = tensor}}
func.func private @scaled_c5() attributes {s = #tandem.scaled<#scaled.root, group = 128, scale = f32, history = 4>}

// -----

// expected-error @+1 {{a given scale has no history; leave out one of recipe = given and history = 4}}
func.func private @scaled_c6() attributes {s = #tandem.scaled<#scaled.root, group = tensor, scale = f32, recipe = given, history = 4>}

// -----

// expected-error @+1 {{needs the smallest magnitude of the very values that it stores, which a history does not have; leave out history = 4}}
func.func private @scaled_c7() attributes {s = #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 4.0>, group = tensor, scale = f32, history = 4>}

// -----

// expected-error @+1 {{a margin is 0 to 16 and belongs to a history, got 17}}
func.func private @scaled_c8_large() attributes {s = #tandem.scaled<#scaled.root, group = tensor, scale = f32, history = 4, margin = 17>}

// -----

// expected-error @+1 {{a margin is 0 to 16 and belongs to a history, got 1}}
func.func private @scaled_c8_alone() attributes {s = #tandem.scaled<#scaled.root, group = tensor, scale = f32, margin = 1>}

// -----

// expected-error @+1 {{expected a code, got f8E4M3FN; codes are #scaled.float, #scaled.pair, #scaled.minifloat, #scaled.softsign, #scaled.linear, #scaled.root, #scaled.mulaw, #scaled.dynamic and #scaled.expanded, as in #scaled.float<f8E4M3FN>}}
func.func private @scaled_code_format() attributes {s = #tandem.scaled<f8E4M3FN, group = 32, scale = f32>}

// -----

// expected-error @+1 {{expected a code; codes are #scaled.float}}
func.func private @scaled_code_missing() attributes {s = #tandem.scaled<group = 32, scale = f32>}

// -----

// expected-error @+1 {{expected a code, got #tandem.float<bf16>; codes are #scaled.float}}
func.func private @coded_code_storage() attributes {s = #tandem.coded<#tandem.float<bf16>>}
