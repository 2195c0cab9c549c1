// RUN: tandem-opt %s | tandem-opt | FileCheck %s
// RUN: tandem-opt %s -emit-bytecode | tandem-opt | FileCheck %s
// RUN: tandem-opt %s -mlir-print-op-generic | tandem-opt | FileCheck %s

// CHECK-LABEL: func.func @scalars(
// CHECK-SAME:      %[[X:.+]]: f32, %[[AMAX:.+]]: i32)
func.func @scalars(%x: f32, %amax: i32) -> (f32, f32, i32) {
  // CHECK: %[[M:.+]] = scaled.magnitude #scaled.float<f8E4M3FN>, %[[X]] : f32 -> i32
  %m = scaled.magnitude #scaled.float<f8E4M3FN>, %x : f32 -> i32
  // CHECK: %[[S:.+]] = scaled.scale #scaled.float<f8E4M3FN>, %[[AMAX]] by current : bf16
  %s = scaled.scale #scaled.float<f8E4M3FN>, %amax by current : bf16
  // CHECK: %[[Q:.+]] = scaled.quantize #scaled.float<f8E4M3FN>, %[[X]] by %[[S]] : f32, bf16 -> f8E4M3FN
  %q = scaled.quantize #scaled.float<f8E4M3FN>, %x by %s : f32, bf16 -> f8E4M3FN
  // CHECK: scaled.dequantize #scaled.float<f8E4M3FN>, %[[Q]] by %[[S]] : (f8E4M3FN), bf16 -> f32
  %y = scaled.dequantize #scaled.float<f8E4M3FN>, %q by %s : (f8E4M3FN), bf16 -> f32
  // CHECK: %[[PAIR:.+]]:2 = scaled.quantize #scaled.pair<f8E5M2>, %[[X]] by %[[S]] : f32, bf16 -> f8E5M2, f8E5M2
  %p:2 = scaled.quantize #scaled.pair<f8E5M2>, %x by %s : f32, bf16 -> f8E5M2, f8E5M2
  // CHECK: scaled.dequantize #scaled.pair<f8E5M2>, %[[PAIR]]#0, %[[PAIR]]#1 by %[[S]] : (f8E5M2, f8E5M2), bf16 -> f32
  %z = scaled.dequantize #scaled.pair<f8E5M2>, %p#0, %p#1 by %s : (f8E5M2, f8E5M2), bf16 -> f32
  return %y, %z, %m : f32, f32, i32
}

// CHECK-LABEL: func.func @expanded(
// CHECK-SAME:      %[[X:.+]]: vector<8xf32>, %[[S:.+]]: bf16, %[[LEAST:.+]]: i32)
func.func @expanded(%x: vector<8xf32>, %s: bf16, %least: i32) -> (vector<8xf32>, vector<8xi32>) {
  // CHECK: %[[L:.+]] = scaled.least %[[X]] : vector<8xf32> -> vector<8xi32>
  %l = scaled.least %x : vector<8xf32> -> vector<8xi32>
  // CHECK: %[[J:.+]] = scaled.exponent #scaled.expanded<f8E4M3FN, range = 2.293760e+05>, %[[S]], %[[LEAST]] : bf16
  %j = scaled.exponent #scaled.expanded<f8E4M3FN, range = 229376.0>, %s, %least : bf16
  // CHECK: %[[Q:.+]] = scaled.quantize #scaled.expanded<f8E4M3FN, range = 2.293760e+05>, %[[X]] by %[[S]], %[[J]] : vector<8xf32>, bf16 -> vector<8xf8E4M3FN>
  %q = scaled.quantize #scaled.expanded<f8E4M3FN, range = 229376.0>, %x by %s, %j : vector<8xf32>, bf16 -> vector<8xf8E4M3FN>
  // CHECK: scaled.dequantize #scaled.expanded<f8E4M3FN, range = 2.293760e+05>, %[[Q]] by %[[S]], %[[J]] : (vector<8xf8E4M3FN>), bf16 -> vector<8xf32>
  %y = scaled.dequantize #scaled.expanded<f8E4M3FN, range = 229376.0>, %q by %s, %j : (vector<8xf8E4M3FN>), bf16 -> vector<8xf32>
  return %y, %l : vector<8xf32>, vector<8xi32>
}

// A vector has a single scale.
// CHECK-LABEL: func.func @vectors(
// CHECK-SAME:      %[[X:.+]]: vector<8xf32>, %[[S:.+]]: f16)
func.func @vectors(%x: vector<8xf32>, %s: f16) -> (vector<8xf32>, vector<8xi32>) {
  // CHECK: %[[M:.+]] = scaled.magnitude #scaled.root, %[[X]] : vector<8xf32> -> vector<8xi32>
  %m = scaled.magnitude #scaled.root, %x : vector<8xf32> -> vector<8xi32>
  // CHECK: %[[Q:.+]] = scaled.quantize #scaled.root, %[[X]] by %[[S]] : vector<8xf32>, f16 -> vector<8xi8>
  %q = scaled.quantize #scaled.root, %x by %s : vector<8xf32>, f16 -> vector<8xi8>
  // CHECK: scaled.dequantize #scaled.softsign, %[[Q]] by %[[S]] : (vector<8xi8>), f16 -> vector<8xf32>
  %y = scaled.dequantize #scaled.softsign, %q by %s : (vector<8xi8>), f16 -> vector<8xf32>
  // CHECK: scaled.quantize #scaled.mulaw<unsigned>, %[[X]] by %[[S]] : vector<8xf32>, f16 -> vector<8xi8>
  %l = scaled.quantize #scaled.mulaw<unsigned>, %x by %s : vector<8xf32>, f16 -> vector<8xi8>
  return %y, %m : vector<8xf32>, vector<8xi32>
}

// CHECK-LABEL: func.func @scales(
// CHECK-SAME:      %[[AMAX:.+]]: i32)
func.func @scales(%amax: i32) -> (f8E8M0FNU, f8E8M0FNU, f32, f16) {
  // CHECK: scaled.scale #scaled.float<f16>, %[[AMAX]] by pow2 : f8E8M0FNU
  %0 = scaled.scale #scaled.float<f16>, %amax by pow2 : f8E8M0FNU
  // CHECK: scaled.scale #scaled.pair<f8E4M3FN>, %[[AMAX]] by mx_floor : f8E8M0FNU
  %1 = scaled.scale #scaled.pair<f8E4M3FN>, %amax by mx_floor : f8E8M0FNU
  // CHECK: scaled.scale #scaled.softsign, %[[AMAX]] by pow2 : f32
  %2 = scaled.scale #scaled.softsign, %amax by pow2 : f32
  // CHECK: scaled.scale #scaled.root, %[[AMAX]] by current : f16
  %3 = scaled.scale #scaled.root, %amax by current : f16
  // CHECK: %[[S:.+]] = scaled.scale #scaled.root, %[[AMAX]] by pow2 margin 3 : f16
  %4 = scaled.scale #scaled.root, %amax by pow2 margin 3 : f16
  // CHECK: scaled.given_scale #scaled.root, %[[S]] : f16
  %5 = scaled.given_scale #scaled.root, %4 : f16
  return %0, %1, %2, %3 : f8E8M0FNU, f8E8M0FNU, f32, f16
}

// Parameters with default values are not printed.
// CHECK-LABEL: func.func private @codes
func.func private @codes() attributes {
  // CHECK-SAME: a = #scaled.dynamic<signed>,
  a = #scaled.dynamic<signed>,
  // CHECK-SAME: b = #scaled.expanded<#scaled.dynamic<unsigned>, range = 1.000000e+04>,
  b = #scaled.expanded<#scaled.dynamic<unsigned>, range = 1.0e4>,
  // CHECK-SAME: c = #scaled.expanded<f8E5M2, range = 2.000000e+00>,
  c = #scaled.expanded<#scaled.float<f8E5M2>, range = 2.0>,
  // CHECK-SAME: d = #scaled.minifloat<exponent = 4, mantissa = 2>,
  d = #scaled.minifloat<bias = 7, exponent = 4, mantissa = 2, rounding = nearest, specials = nan>,
  // CHECK-SAME: e = #scaled.minifloat<exponent = 2, mantissa = 1, bias = -3, specials = none>,
  e = #scaled.minifloat<exponent = 2, mantissa = 1, bias = -3, specials = none>,
  // CHECK-SAME: f = #scaled.minifloat<exponent = 3, mantissa = 0, specials = negative_zero, rounding = stochastic>,
  f = #scaled.minifloat<exponent = 3, mantissa = 0, specials = negative_zero, rounding = stochastic>,
  // CHECK-SAME: g = #scaled.minifloat<exponent = 8, mantissa = 3, specials = ieee, rounding = toward_zero, exponents = [-62, 63]>}
  g = #scaled.minifloat<exponent = 8, mantissa = 3, specials = ieee, rounding = toward_zero, exponents = [-62, 63]>}

// CHECK-LABEL: func.func @random(
// CHECK-SAME:      %[[X:.+]]: vector<4xf32>, %[[S:.+]]: f16, %[[R:.+]]: vector<4xi32>)
func.func @random(%x: vector<4xf32>, %s: f16, %r: vector<4xi32>) -> vector<4xi16> {
  // CHECK: scaled.quantize #scaled.minifloat<exponent = 5, mantissa = 10, specials = ieee, rounding = stochastic>, %[[X]] by %[[S]] random %[[R]] : vector<4xf32>, f16, vector<4xi32> -> vector<4xi16>
  %q = scaled.quantize #scaled.minifloat<exponent = 5, mantissa = 10, specials = ieee, rounding = stochastic>, %x by %s random %r : vector<4xf32>, f16, vector<4xi32> -> vector<4xi16>
  return %q : vector<4xi16>
}

// CHECK-LABEL: func.func @float_codes(
// CHECK-SAME:      %[[X:.+]]: f32, %[[XS:.+]]: vector<4xf32>, %[[FINITE:.+]]: vector<4xi1>)
func.func @float_codes(%x: f32, %xs: vector<4xf32>, %finite: vector<4xi1>) -> (f32, vector<4xf32>) {
  // CHECK: %[[Q:.+]] = scaled.encode_float f16, %[[X]] : f32 -> i16
  %q = scaled.encode_float f16, %x : f32 -> i16
  // CHECK: scaled.encode_float f8E5M2, exact %[[X]] : f32 -> i8
  %e = scaled.encode_float f8E5M2, exact %x : f32 -> i8
  // CHECK: scaled.decode_float f16, %[[Q]] : i16 -> f32
  %y = scaled.decode_float f16, %q : i16 -> f32
  // CHECK: %[[QS:.+]] = scaled.encode_float f8E4M3FN, %[[XS]] where %[[FINITE]] : vector<4xf32>, vector<4xi1> -> vector<4xi8>
  %qs = scaled.encode_float f8E4M3FN, %xs where %finite : vector<4xf32>, vector<4xi1> -> vector<4xi8>
  // CHECK: scaled.decode_float f8E4M3FN, %[[QS]] : vector<4xi8> -> vector<4xf32>
  %ys = scaled.decode_float f8E4M3FN, %qs : vector<4xi8> -> vector<4xf32>
  return %y, %ys : f32, vector<4xf32>
}
