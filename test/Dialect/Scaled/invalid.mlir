// RUN: tandem-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{a float code is f8E4M3FN, f8E5M2 or f16, got 'bf16'; #scaled.minifloat writes other formats}}
func.func private @float_c1() attributes {c = #scaled.float<bf16>}

// -----

// expected-error @+1 {{a pair's codes are f8E4M3FN or f8E5M2, got 'f16'}}
func.func private @pair_c1() attributes {c = #scaled.pair<f16>}

// -----

// expected-error @+1 {{an expanded code is f8E4M3FN, f8E5M2 or #scaled.dynamic, got #scaled.float<f16>}}
func.func private @expanded_c1() attributes {c = #scaled.expanded<f16, range = 4.0>}

// -----

// expected-error @+1 {{an expanded code is f8E4M3FN, f8E5M2 or #scaled.dynamic, got #scaled.softsign}}
func.func private @expanded_c1_integer() attributes {c = #scaled.expanded<#scaled.softsign, range = 4.0>}

// -----

// expected-error @+1 {{a float code is f8E4M3FN, f8E5M2 or f16, got 'f32'}}
func.func private @expanded_format() attributes {c = #scaled.expanded<f32, range = 4.0>}

// -----

// expected-error @+2 {{expected ::tandem::scaled::Signedness to be one of: signed, unsigned}}
// expected-error @+1 {{failed to parse Scaled_DynamicCodeAttr parameter 'signedness'}}
func.func private @dynamic_signedness() attributes {c = #scaled.dynamic<both>}

// -----

// expected-error @+1 {{a minifloat has 1 to 8 exponent bits, 0 to 10 mantissa bits and 2 to 15 of both, or 8 exponent bits and up to 23 mantissa bits, got 0 and 3}}
func.func private @minifloat_c1_exponent() attributes {c = #scaled.minifloat<exponent = 0, mantissa = 3>}

// -----

// expected-error @+1 {{a minifloat has 1 to 8 exponent bits, 0 to 10 mantissa bits and 2 to 15 of both, or 8 exponent bits and up to 23 mantissa bits, got 9 and 3}}
func.func private @minifloat_c1_wide() attributes {c = #scaled.minifloat<exponent = 9, mantissa = 3>}

// -----

// expected-error @+1 {{2 to 15 of both, or 8 exponent bits and up to 23 mantissa bits, got 4 and 11}}
func.func private @minifloat_c1_mantissa() attributes {c = #scaled.minifloat<exponent = 4, mantissa = 11>}

// -----

// expected-error @+1 {{2 to 15 of both, or 8 exponent bits and up to 23 mantissa bits, got 1 and 0}}
func.func private @minifloat_c1_narrow() attributes {c = #scaled.minifloat<exponent = 1, mantissa = 0>}

// -----

// expected-error @+1 {{2 to 15 of both, or 8 exponent bits and up to 23 mantissa bits, got 6 and 10}}
func.func private @minifloat_c1_both() attributes {c = #scaled.minifloat<exponent = 6, mantissa = 10>}

// -----

// expected-error @+1 {{or 8 exponent bits and up to 23 mantissa bits, got 8 and 24}}
func.func private @minifloat_c1_f32() attributes {c = #scaled.minifloat<exponent = 8, mantissa = 24, specials = ieee>}

// -----

// expected-error @+1 {{specials = ieee takes 2 exponent bits and 1 mantissa bit at least, got 1 and 3}}
func.func private @minifloat_c2_exponent() attributes {c = #scaled.minifloat<exponent = 1, mantissa = 3, specials = ieee>}

// -----

// expected-error @+1 {{specials = ieee takes 2 exponent bits and 1 mantissa bit at least, got 4 and 0}}
func.func private @minifloat_c2_mantissa() attributes {c = #scaled.minifloat<exponent = 4, mantissa = 0, specials = ieee>}

// -----

// expected-error @+1 {{8 exponent bits take specials = ieee, as f32 does; without mantissa bits they take specials = nan}}
func.func private @minifloat_c2_wide() attributes {c = #scaled.minifloat<exponent = 8, mantissa = 3, bias = 128>}

// -----

// expected-error @+1 {{the numbers of a minifloat are numbers of f32, for which the bias is -112 to 147, got 148}}
func.func private @minifloat_c3_small() attributes {c = #scaled.minifloat<exponent = 4, mantissa = 3, bias = 148>}

// -----

// expected-error @+1 {{the numbers of a minifloat are numbers of f32, for which the bias is -113 to 147, got -114}}
func.func private @minifloat_c3_large() attributes {c = #scaled.minifloat<exponent = 4, mantissa = 3, bias = -114, specials = ieee>}

// -----

// expected-error @+1 {{exponents are a range within [-6, 8], got [-7, 8]}}
func.func private @minifloat_c4_low() attributes {c = #scaled.minifloat<exponent = 4, mantissa = 3, exponents = [-7, 8]>}

// -----

// expected-error @+1 {{exponents are a range within [-6, 8], got [0, 9]}}
func.func private @minifloat_c4_high() attributes {c = #scaled.minifloat<exponent = 4, mantissa = 3, exponents = [0, 9]>}

// -----

// expected-error @+1 {{exponents are a range within [-6, 8], got [3, 2]}}
func.func private @minifloat_c4_order() attributes {c = #scaled.minifloat<exponent = 4, mantissa = 3, exponents = [3, 2]>}

// -----

// expected-error @+1 {{a minifloat needs exponent and mantissa}}
func.func private @minifloat_missing() attributes {c = #scaled.minifloat<exponent = 4>}

// -----

// expected-error @+1 {{'mantissa' stands twice}}
func.func private @minifloat_twice() attributes {c = #scaled.minifloat<mantissa = 4, mantissa = 4>}

// -----

// expected-error @+1 {{a minifloat has no parameter 'sign'; expected exponent, mantissa, bias, specials, rounding or exponents}}
func.func private @minifloat_unknown() attributes {c = #scaled.minifloat<sign = 4>}

// -----

// expected-error @+1 {{expected one of ieee, nan, negative_zero, none, got 'inf'}}
func.func private @minifloat_specials() attributes {c = #scaled.minifloat<exponent = 4, mantissa = 3, specials = inf>}

// -----

// expected-error @+1 {{expected one of nearest, stochastic, toward_zero, dither, got 'up'}}
func.func private @minifloat_rounding() attributes {c = #scaled.minifloat<exponent = 4, mantissa = 3, rounding = up>}

// -----

func.func @quantize_c3_missing(%x: f32, %s: f32) {
  // expected-error @+1 {{'scaled.quantize' op #scaled.minifloat<exponent = 4, mantissa = 3, rounding = stochastic> needs random bits}}
  %0 = scaled.quantize #scaled.minifloat<exponent = 4, mantissa = 3, rounding = stochastic>, %x by %s : f32, f32 -> i8
  return
}

// -----

func.func @quantize_c3_unused(%x: f32, %s: f32, %r: i32) {
  // expected-error @+1 {{'scaled.quantize' op #scaled.minifloat<exponent = 4, mantissa = 3> draws no random bits}}
  %0 = scaled.quantize #scaled.minifloat<exponent = 4, mantissa = 3>, %x by %s random %r : f32, f32, i32 -> i8
  return
}

// -----

func.func @quantize_c3_shape(%x: vector<4xf32>, %s: f32, %r: i32) {
  // expected-error @+1 {{'scaled.quantize' op the random bits of 'vector<4xf32>' have its shape, got 'i32'}}
  %0 = scaled.quantize #scaled.minifloat<exponent = 4, mantissa = 3, rounding = stochastic>, %x by %s random %r : vector<4xf32>, f32, i32 -> vector<4xi8>
  return
}

// -----

func.func @quantize_minifloat_type(%x: f32, %s: f32) {
  // expected-error @+1 {{'scaled.quantize' op a code of #scaled.minifloat<exponent = 4, mantissa = 4> is 'i16', got 'i8'}}
  %0 = scaled.quantize #scaled.minifloat<exponent = 4, mantissa = 4>, %x by %s : f32, f32 -> i8
  return
}

// -----

// expected-error @+1 {{a range is at least 2 and at most 2^64, got 1.5}}
func.func private @expanded_c2_low() attributes {c = #scaled.expanded<f8E5M2, range = 1.5>}

// -----

// expected-error @+1 {{a range is at least 2 and at most 2^64, got}}
func.func private @expanded_c2_high() attributes {c = #scaled.expanded<f8E5M2, range = 1.0e20>}

// -----

func.func @exponent_c1(%s: f32, %least: i32) {
  // expected-error @+1 {{'scaled.exponent' op #scaled.float<f8E5M2> has no range to fill}}
  %0 = scaled.exponent #scaled.float<f8E5M2>, %s, %least : f32
  return
}

// -----

func.func @quantize_c2_missing(%x: f32, %s: f32) {
  // expected-error @+1 {{'scaled.quantize' op #scaled.expanded<f8E5M2, range = 4.000000e+00> needs the group's exponent}}
  %0 = scaled.quantize #scaled.expanded<f8E5M2, range = 4.0>, %x by %s : f32, f32 -> f8E5M2
  return
}

// -----

func.func @quantize_c2_unused(%x: f32, %s: f32, %j: i8) {
  // expected-error @+1 {{'scaled.quantize' op #scaled.root takes no exponent}}
  %0 = scaled.quantize #scaled.root, %x by %s, %j : f32, f32 -> i8
  return
}

// -----

func.func @dequantize_c2_missing(%q: f8E5M2, %s: f32) {
  // expected-error @+1 {{'scaled.dequantize' op #scaled.expanded<f8E5M2, range = 4.000000e+00> needs the group's exponent}}
  %0 = scaled.dequantize #scaled.expanded<f8E5M2, range = 4.0>, %q by %s : (f8E5M2), f32 -> f32
  return
}

// -----

func.func @dequantize_c2_unused(%q: i8, %s: f32, %j: i8) {
  // expected-error @+1 {{'scaled.dequantize' op #scaled.root takes no exponent}}
  %0 = scaled.dequantize #scaled.root, %q by %s, %j : (i8), f32 -> f32
  return
}

// -----

func.func @least_shape(%x: vector<4xf32>) {
  // expected-error @+1 {{'scaled.least' op requires the same shape for all operands and results}}
  %0 = scaled.least %x : vector<4xf32> -> i32
  return
}

// -----

func.func @magnitude_shape(%x: vector<4xf32>) {
  // expected-error @+1 {{'scaled.magnitude' op requires the same shape for all operands and results}}
  %0 = scaled.magnitude #scaled.root, %x : vector<4xf32> -> i32
  return
}

// -----

func.func @scale_c1(%amax: i32) {
  // expected-error @+1 {{'scaled.scale' op an f8E8M0FNU scale is a power of two; use the recipe pow2 or mx_floor}}
  %0 = scaled.scale #scaled.softsign, %amax by current : f8E8M0FNU
  return
}

// -----

func.func @scale_c2(%amax: i32) {
  // expected-error @+1 {{'scaled.scale' op makes a scale, but one by 'given' is there already; use scaled.given_scale}}
  %0 = scaled.scale #scaled.softsign, %amax by given : f32
  return
}

// -----

func.func @scale_c3(%amax: i32) {
  // expected-error @+1 {{'scaled.scale' op the margin is 0 to 16, got 17}}
  %0 = scaled.scale #scaled.softsign, %amax by current margin 17 : f32
  return
}

// -----

func.func @scale_c3_negative(%amax: i32) {
  // expected-error @+1 {{'scaled.scale' op the margin is 0 to 16, got -1}}
  %0 = scaled.scale #scaled.softsign, %amax by current margin -1 : f32
  return
}

// -----

func.func @scale_type(%amax: i32) {
  // expected-error @+1 {{'scaled.scale' op result #0 must be f32, bf16, f16 or f8E8M0FNU, but got 'f64'}}
  %0 = scaled.scale #scaled.softsign, %amax by current : f64
  return
}

// -----

func.func @quantize_c1_count(%x: f32, %s: f32) {
  // expected-error @+1 {{'scaled.quantize' op #scaled.pair<f8E4M3FN> has 2 codes a value, got 1}}
  %0 = scaled.quantize #scaled.pair<f8E4M3FN>, %x by %s : f32, f32 -> f8E4M3FN
  return
}

// -----

func.func @quantize_c1_type(%x: f32, %s: f32) {
  // expected-error @+1 {{'scaled.quantize' op a code of #scaled.softsign is 'i8', got 'f8E4M3FN'}}
  %0 = scaled.quantize #scaled.softsign, %x by %s : f32, f32 -> f8E4M3FN
  return
}

// -----

func.func @quantize_c1_shape(%x: vector<4xf32>, %s: f32) {
  // expected-error @+1 {{'scaled.quantize' op a code of #scaled.softsign is 'vector<4xi8>', got 'i8'}}
  %0 = scaled.quantize #scaled.softsign, %x by %s : vector<4xf32>, f32 -> i8
  return
}

// -----

func.func @dequantize_c1_count(%q: f8E5M2, %s: f32) {
  // expected-error @+1 {{'scaled.dequantize' op #scaled.float<f8E5M2> has 1 codes a value, got 2}}
  %0 = scaled.dequantize #scaled.float<f8E5M2>, %q, %q by %s : (f8E5M2, f8E5M2), f32 -> f32
  return
}

// -----

func.func @dequantize_c1_type(%q: i16, %s: f32) {
  // expected-error @+1 {{'scaled.dequantize' op a code of #scaled.root is 'i8', got 'i16'}}
  %0 = scaled.dequantize #scaled.root, %q by %s : (i16), f32 -> f32
  return
}

// -----

func.func @dequantize_c1_shape(%q: i8, %s: f32) {
  // expected-error @+1 {{'scaled.dequantize' op a code of #scaled.root is 'vector<2xi8>', got 'i8'}}
  %0 = scaled.dequantize #scaled.root, %q by %s : (i8), f32 -> vector<2xf32>
  return
}

// -----

func.func @encode_float_c1(%x: f32) {
  // expected-error @+1 {{'scaled.encode_float' op a float code is f8E4M3FN, f8E5M2 or f16, got 'bf16'}}
  %0 = scaled.encode_float bf16, %x : f32 -> i16
  return
}

// -----

func.func @encode_float_c2(%x: f32) {
  // expected-error @+1 {{'scaled.encode_float' op a code of 'f8E5M2' has 8 bits, got 'i16'}}
  %0 = scaled.encode_float f8E5M2, %x : f32 -> i16
  return
}

// -----

func.func @encode_float_c3(%x: f32, %finite: i1) {
  // expected-error @+1 {{'scaled.encode_float' op an exact code does not saturate; drop 'exact' or 'where'}}
  %0 = scaled.encode_float f8E5M2, exact %x where %finite : f32, i1 -> i8
  return
}

// -----

func.func @encode_float_shape(%x: vector<4xf32>) {
  // expected-error @+1 {{'scaled.encode_float' op requires the same shape for all operands and results}}
  %0 = scaled.encode_float f8E5M2, %x : vector<4xf32> -> vector<2xi8>
  return
}

// -----

func.func @decode_float_c1(%q: i8) {
  // expected-error @+1 {{'scaled.decode_float' op a float code is f8E4M3FN, f8E5M2 or f16, got 'f8E4M3B11FNUZ'}}
  %0 = scaled.decode_float f8E4M3B11FNUZ, %q : i8 -> f32
  return
}

// -----

func.func @decode_float_c2(%q: i8) {
  // expected-error @+1 {{'scaled.decode_float' op a code of 'f16' has 16 bits, got 'i8'}}
  %0 = scaled.decode_float f16, %q : i8 -> f32
  return
}

// -----

// expected-error @+1 {{a float code rounds to nearest, stochastically or by dither; toward_zero is for #scaled.minifloat}}
func.func private @rounding() attributes {c = #scaled.float<f8E4M3FN, toward_zero>}

// -----

// expected-error @+1 {{a pair rounds to nearest, stochastically or by dither; toward_zero is for #scaled.minifloat}}
func.func private @rounding() attributes {c = #scaled.pair<f8E4M3FN, toward_zero>}

// -----

// expected-error @+1 {{a softsign code rounds to nearest, stochastically or by dither; toward_zero is for #scaled.minifloat}}
func.func private @rounding() attributes {c = #scaled.softsign<toward_zero>}

// -----

// expected-error @+1 {{a mu-law code rounds to nearest, stochastically or by dither; toward_zero is for #scaled.minifloat}}
func.func private @mulaw_rounding() attributes {c = #scaled.mulaw<signed, toward_zero>}

// -----

// expected-error @+1 {{a mu-law code has 4 or 8 bits, got 3}}
func.func private @mulaw_bits() attributes {c = #scaled.mulaw<signed, dither, bits = 3>}

// -----

// expected-error @+1 {{expected 'bits'}}
func.func private @mulaw_parameter() attributes {c = #scaled.mulaw<signed, dither, 4>}

// -----

// expected-error @+1 {{a linear code has 4 or 8 bits, got 6}}
func.func private @linear_bits() attributes {c = #scaled.linear<bits = 6>}

// -----

// expected-error @+1 {{a linear code rounds to nearest, stochastically or by dither; toward_zero is for #scaled.minifloat}}
func.func private @linear_rounding() attributes {c = #scaled.linear<bits = 4, toward_zero>}

// -----

// expected-error @+1 {{a root code rounds to nearest, stochastically or by dither; toward_zero is for #scaled.minifloat}}
func.func private @rounding() attributes {c = #scaled.root<toward_zero>}

// -----

// expected-error @+1 {{a dynamic code rounds to nearest, stochastically or by dither; toward_zero is for #scaled.minifloat}}
func.func private @rounding() attributes {c = #scaled.dynamic<signed, toward_zero>}
