// RUN: tandem-opt %s -convert-scaled-to-arith -cse | FileCheck %s

// A magnitude stops at 1 (0x3F800000 = 1065353216); 127 * (2|z| / (1 + |z|)) is
// rounded by adding 2^23 and gets its sign afterwards. NaN has a code of its own.
// CHECK-LABEL: func.func @softsign(
// CHECK-SAME:      %[[X:.+]]: f32, %[[S:.+]]: f16)
// CHECK:         %[[WIDE:.+]] = arith.extf %[[S]] : f16 to f32
// CHECK:         %[[R:.+]] = arith.divf %{{.+}}, %[[WIDE]] : f32
// CHECK:         %[[INF:.+]] = arith.constant 2139095040 : i32
// CHECK:         %[[FINITE:.+]] = arith.cmpi ult, %{{.+}}, %[[INF]] : i32
// CHECK:         %[[Y:.+]] = arith.mulf %[[X]], %[[R]] : f32
// CHECK:         %[[ONE:.+]] = arith.constant 1065353216 : i32
// CHECK:         %[[AT_MOST:.+]] = arith.minui %{{.+}}, %[[ONE]] : i32
// CHECK:         %[[Z:.+]] = arith.bitcast %[[AT_MOST]] : i32 to f32
// CHECK-DAG:     %[[DIVISOR:.+]] = arith.addf %{{.+}}, %[[Z]] : f32
// CHECK-DAG:     %[[TWICE:.+]] = arith.addf %[[Z]], %[[Z]] : f32
// CHECK:         %[[COMPANDED:.+]] = arith.divf %[[TWICE]], %[[DIVISOR]] : f32
// CHECK:         %[[LEVELS:.+]] = arith.constant 1.270000e+02 : f32
// CHECK:         %[[SCALED:.+]] = arith.mulf %[[COMPANDED]], %[[LEVELS]] : f32
// CHECK:         %[[SUM:.+]] = arith.addf %[[SCALED]], %{{.+}} : f32
// CHECK:         %[[WHOLE:.+]] = arith.bitcast %[[SUM]] : f32 to i32
// CHECK:         %[[LEVEL:.+]] = arith.andi %[[WHOLE]], %{{.+}} : i32
// CHECK:         %[[NEGATIVE:.+]] = arith.subi %{{.+}}, %[[LEVEL]] : i32
// CHECK:         %[[SIGNED:.+]] = arith.select %{{.+}}, %[[NEGATIVE]], %[[LEVEL]] : i32
// CHECK:         %[[NAN:.+]] = arith.constant 128 : i32
// CHECK:         %[[CODE:.+]] = arith.select %[[FINITE]], %[[SIGNED]], %[[NAN]] : i32
// CHECK:         arith.trunci %[[CODE]] : i32 to i8
func.func @softsign(%x: f32, %s: f16) -> i8 {
  %q = scaled.quantize #scaled.softsign, %x by %s : f32, f16 -> i8
  return %q : i8
}

// The root is what is scaled; one scale is broadcast to all elements.
// CHECK-LABEL: func.func @root(
// CHECK-SAME:      %[[X:.+]]: vector<4xf32>, %[[S:.+]]: f32)
// CHECK:         %[[ROOT:.+]] = math.sqrt %[[X]] : vector<4xf32>
// CHECK:         %[[FINITE:.+]] = arith.cmpi ult
// CHECK:         %[[M:.+]] = arith.select %[[FINITE]]
// CHECK:         %[[R:.+]] = arith.divf %{{.+}}, %[[S]] : f32
// CHECK:         %[[SPREAD:.+]] = vector.broadcast %[[R]] : f32 to vector<4xf32>
// CHECK:         arith.mulf %[[ROOT]], %[[SPREAD]] : vector<4xf32>
// CHECK:         arith.constant dense<2.540000e+02> : vector<4xf32>
// CHECK:         %[[NAN:.+]] = arith.constant dense<255> : vector<4xi32>
// CHECK:         arith.select %[[FINITE]], %{{.+}}, %[[NAN]]
// CHECK:         %[[CODE:.+]] = arith.trunci %{{.+}} : vector<4xi32> to vector<4xi8>
// CHECK:         return %[[M]], %[[CODE]]
func.func @root(%x: vector<4xf32>, %s: f32) -> (vector<4xi32>, vector<4xi8>) {
  %m = scaled.magnitude #scaled.root, %x : vector<4xf32> -> vector<4xi32>
  %q = scaled.quantize #scaled.root, %x by %s : vector<4xf32>, f32 -> vector<4xi8>
  return %m, %q : vector<4xi32>, vector<4xi8>
}

// CHECK-LABEL: func.func @read_root(
// CHECK-SAME:      %[[Q:.+]]: i8, %[[S:.+]]: bf16)
// CHECK:         %[[FRACTION:.+]] = arith.divf
// CHECK:         %[[IS_NAN:.+]] = arith.cmpi eq
// CHECK:         %[[Z:.+]] = arith.select %[[IS_NAN]], %{{.+}}, %[[FRACTION]] : f32
// CHECK:         %[[WIDE:.+]] = arith.extf %[[S]] : bf16 to f32
// CHECK:         %[[ROOT:.+]] = arith.mulf %[[Z]], %[[WIDE]] : f32
// CHECK:         %[[Y:.+]] = arith.mulf %[[ROOT]], %[[ROOT]] : f32
// CHECK:         return %[[Y]]
func.func @read_root(%q: i8, %s: bf16) -> f32 {
  %y = scaled.dequantize #scaled.root, %q by %s : (i8), bf16 -> f32
  return %y : f32
}

// w / (2 - |w|).
// CHECK-LABEL: func.func @read_softsign(
// CHECK:         %[[LEVELS:.+]] = arith.constant 1.270000e+02 : f32
// CHECK:         %[[W:.+]] = arith.divf %{{.+}}, %[[LEVELS]] : f32
// CHECK:         %[[TWO:.+]] = arith.constant 2.000000e+00 : f32
// CHECK:         %[[DIVISOR:.+]] = arith.subf %[[TWO]], %[[W]] : f32
// CHECK:         %[[Z:.+]] = arith.divf %[[W]], %[[DIVISOR]] : f32
// CHECK:         %[[NEGATIVE:.+]] = arith.negf %[[Z]] : f32
func.func @read_softsign(%q: i8, %s: f16) -> f32 {
  %y = scaled.dequantize #scaled.softsign, %q by %s : (i8), f16 -> f32
  return %y : f32
}

// The first code saturates; so what it leaves is y - hi also there, and the second
// always does. It is +0 where x is not finite.
// CHECK-LABEL: func.func @pair(
// CHECK:         %[[FINITE:.+]] = arith.cmpi ult
// CHECK:         %[[Y:.+]] = arith.mulf
// CHECK:         %[[HI_CODE:.+]] = scaled.encode_float f8E5M2, %[[Y]] where %[[FINITE]] : f32, i1 -> i8
// CHECK:         %[[HI:.+]] = scaled.decode_float f8E5M2, %[[HI_CODE]] : i8 -> f32
// CHECK:         %[[LEFT:.+]] = arith.subf %[[Y]], %[[HI]] : f32
// CHECK:         %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
// CHECK:         %[[REST:.+]] = arith.select %[[FINITE]], %[[LEFT]], %[[ZERO]] : f32
// CHECK:         %[[ALWAYS:.+]] = arith.constant true
// CHECK:         %[[LO_CODE:.+]] = scaled.encode_float f8E5M2, %[[REST]] where %[[ALWAYS]] : f32, i1 -> i8
// CHECK:         arith.bitcast %[[HI_CODE]] : i8 to f8E5M2
// CHECK:         arith.bitcast %[[LO_CODE]] : i8 to f8E5M2
func.func @pair(%x: f32, %s: f32) -> (f8E5M2, f8E5M2) {
  %q:2 = scaled.quantize #scaled.pair<f8E5M2>, %x by %s : f32, f32 -> f8E5M2, f8E5M2
  return %q#0, %q#1 : f8E5M2, f8E5M2
}

// E8M0 is an exponent: 0 is the subnormal 2^-127, 255 a NaN.
// CHECK-LABEL: func.func @read_pair(
// CHECK-SAME:      %{{.+}}: f8E5M2, %{{.+}}: f8E5M2, %[[S:.+]]: f8E8M0FNU)
// CHECK:         %[[HI_BITS:.+]] = arith.bitcast %{{.+}} : f8E5M2 to i8
// CHECK:         %[[LO_BITS:.+]] = arith.bitcast %{{.+}} : f8E5M2 to i8
// CHECK-DAG:     %[[HI:.+]] = scaled.decode_float f8E5M2, %[[HI_BITS]] : i8 -> f32
// CHECK-DAG:     %[[LO:.+]] = scaled.decode_float f8E5M2, %[[LO_BITS]] : i8 -> f32
// CHECK:         %[[SUM:.+]] = arith.addf %[[HI]], %[[LO]] : f32
// CHECK:         %[[BITS:.+]] = arith.bitcast %[[S]] : f8E8M0FNU to i8
// CHECK:         arith.shli
// CHECK:         arith.constant 4194304 : i32
// CHECK:         arith.constant 2143289344 : i32
// CHECK:         arith.mulf %[[SUM]], %{{.+}} : f32
func.func @read_pair(%h: f8E5M2, %l: f8E5M2, %s: f8E8M0FNU) -> f32 {
  %y = scaled.dequantize #scaled.pair<f8E5M2>, %h, %l by %s : (f8E5M2, f8E5M2), f8E8M0FNU -> f32
  return %y : f32
}

// Between 2^-126 and 2^119; where rounding to nearest went down, one code up.
// CHECK-LABEL: func.func @current(
// CHECK-SAME:      %[[AMAX:.+]]: i32)
// CHECK:         %[[L:.+]] = arith.constant 4.480000e+02 : f32
// CHECK:         %[[Q:.+]] = arith.divf %{{.+}}, %[[L]] : f32
// CHECK-DAG:     %[[MOST:.+]] = arith.constant 2063597568 : i32
// CHECK-DAG:     %[[LEAST:.+]] = arith.constant 8388608 : i32
// CHECK-DAG:     arith.minui %{{.+}}, %[[MOST]] : i32
// CHECK-DAG:     arith.maxui %{{.+}}, %[[LEAST]] : i32
// CHECK:         %[[NEAR:.+]] = arith.truncf %{{.+}} : f32 to bf16
// CHECK:         %[[LOW:.+]] = arith.cmpf olt
// CHECK:         %[[UP:.+]] = arith.addi
// CHECK:         arith.select %[[LOW]], %[[UP]], %{{.+}} : i16
// CHECK:         %[[ZERO:.+]] = arith.cmpi eq, %[[AMAX]], %{{.+}} : i32
// CHECK:         arith.select %[[ZERO]]
func.func @current(%a: i32) -> bf16 {
  %s = scaled.scale #scaled.float<f8E4M3FN>, %a by current : bf16
  return %s : bf16
}

// Adding all mantissa bits carries into the exponent unless there are none.
// CHECK-LABEL: func.func @pow2(
// CHECK:         %[[MANTISSA:.+]] = arith.constant 8388607 : i32
// CHECK:         %[[CARRIED:.+]] = arith.addi %{{.+}}, %[[MANTISSA]] : i32
// CHECK:         %[[EXPONENT:.+]] = arith.constant 2139095040 : i32
// CHECK:         arith.andi %[[CARRIED]], %[[EXPONENT]] : i32
func.func @pow2(%a: i32) -> f32 {
  %s = scaled.scale #scaled.float<f8E4M3FN>, %a by pow2 : f32
  return %s : f32
}

// No division: exponents are subtracted.
// CHECK-LABEL: func.func @mx_floor(
// CHECK-NOT:     arith.divf
// CHECK:         arith.subi
// CHECK:         arith.trunci %{{.+}} : i32 to i8
// CHECK:         arith.bitcast %{{.+}} : i8 to f8E8M0FNU
func.func @mx_floor(%a: i32) -> f8E8M0FNU {
  %s = scaled.scale #scaled.float<f8E4M3FN>, %a by mx_floor : f8E8M0FNU
  return %s : f8E8M0FNU
}

// |y| stops at 1; the exponent counts eighths; the power is L * 2^(k * log2 |y|).
// log2: bits of sqrt(1/2), 1060439283, are taken off; f * P(f) by Horner's rule.
// exp2: a NaN counts as -100 too; the integer part goes to the exponent field.
// CHECK-LABEL: func.func @expanded(
// CHECK-SAME:      %{{.+}}: f32, %{{.+}}: f32, %[[J:.+]]: i8)
// CHECK:         %[[FINITE:.+]] = arith.cmpi ult
// CHECK:         %[[WORD:.+]] = arith.extui %[[J]] : i8 to i32
// CHECK:         %[[EIGHTHS:.+]] = arith.uitofp %[[WORD]] : i32 to f32
// CHECK:         %[[EIGHTH:.+]] = arith.constant 1.250000e-01 : f32
// CHECK:         %[[K:.+]] = arith.mulf %[[EIGHTHS]], %[[EIGHTH]] : f32
// CHECK:         arith.minui
// CHECK:         %[[HALF:.+]] = arith.constant 1060439283 : i32
// CHECK:         %[[SHIFTED:.+]] = arith.subi %{{.+}}, %[[HALF]] : i32
// CHECK:         %[[E:.+]] = arith.shrsi %[[SHIFTED]], %{{.+}} : i32
// CHECK-COUNT-8:  math.fma
// CHECK:         %[[FP:.+]] = arith.mulf %{{.+}}, %{{.+}} : f32
// CHECK:         %[[LOG:.+]] = arith.addf %{{.+}}, %[[FP]] : f32
// CHECK:         %[[X:.+]] = arith.mulf %[[K]], %[[LOG]] : f32
// CHECK:         %[[LEAST:.+]] = arith.constant -1.000000e+02 : f32
// CHECK:         %[[BELOW:.+]] = arith.cmpf ult, %[[X]], %[[LEAST]] : f32
// CHECK:         %[[AT_LEAST:.+]] = arith.select %[[BELOW]], %[[LEAST]], %[[X]] : f32
// CHECK:         %[[SUM:.+]] = arith.addf %[[AT_LEAST]], %{{.+}} : f32
// CHECK-COUNT-6:  math.fma
// CHECK:         arith.shli
// CHECK:         arith.addi
// CHECK:         %[[L:.+]] = arith.constant 4.480000e+02 : f32
// CHECK:         %[[STRETCHED:.+]] = arith.mulf %{{.+}}, %[[L]] : f32
// CHECK:         %[[SIGNED:.+]] = math.copysign %[[STRETCHED]], %{{.+}} : f32
// CHECK:         scaled.encode_float f8E4M3FN, %[[SIGNED]] where %[[FINITE]]
func.func @expanded(%x: f32, %s: f32, %j: i8) -> f8E4M3FN {
  %q = scaled.quantize #scaled.expanded<f8E4M3FN, range = 28672.0>, %x by %s, %j : f32, f32 -> f8E4M3FN
  return %q : f8E4M3FN
}

// 2^((log2 |q| - log2 L) * (8 / j)), with q's sign; zero and what is not finite,
// whose bits less one are 2139095039 or more, stand for themselves.
// CHECK-LABEL: func.func @read_expanded(
// CHECK:         %[[EIGHT:.+]] = arith.constant 8.000000e+00 : f32
// CHECK:         %[[INVERSE:.+]] = arith.divf %[[EIGHT]], %{{.+}} : f32
// CHECK-COUNT-8:  math.fma
// CHECK:         %[[LOG:.+]] = arith.addf
// CHECK:         %[[LOG_L:.+]] = arith.constant 8.80735
// CHECK:         %[[FRACTION:.+]] = arith.subf %[[LOG]], %[[LOG_L]] : f32
// CHECK:         arith.mulf %[[FRACTION]], %[[INVERSE]] : f32
// CHECK:         %[[POWER:.+]] = math.copysign
// CHECK:         %[[LIMIT:.+]] = arith.constant 2139095039 : i32
// CHECK:         %[[ORDINARY:.+]] = arith.cmpi ult, %{{.+}}, %[[LIMIT]] : i32
// CHECK:         %[[VALUE:.+]] = arith.select %[[ORDINARY]], %[[POWER]], %{{.+}} : f32
// CHECK:         arith.mulf %[[VALUE]], %{{.+}} : f32
func.func @read_expanded(%q: f8E4M3FN, %s: f32, %j: i8) -> f32 {
  %y = scaled.dequantize #scaled.expanded<f8E4M3FN, range = 28672.0>, %q by %s, %j : (f8E4M3FN), f32 -> f32
  return %y : f32
}

// Zero and what is not finite have all ones.
// CHECK-LABEL: func.func @least(
// CHECK:         %[[M:.+]] = arith.andi
// CHECK:         %[[FINITE:.+]] = arith.cmpi ult, %[[M]]
// CHECK:         %[[ZERO:.+]] = arith.cmpi eq, %[[M]]
// CHECK:         %[[ONES:.+]] = arith.constant -1 : i32
// CHECK:         %[[COUNTED:.+]] = arith.select %[[FINITE]], %[[M]], %[[ONES]] : i32
// CHECK:         %[[RESULT:.+]] = arith.select %[[ZERO]], %[[ONES]], %[[COUNTED]] : i32
// CHECK:         return %[[RESULT]]
func.func @least(%x: f32) -> i32 {
  %m = scaled.least %x : f32 -> i32
  return %m : i32
}

// (8 * log2 R) / log2(s / least), between 8 and 128 (1124073472 as f32 bits, of
// which negative numbers have more); 8 for a group without a number.
// CHECK-LABEL: func.func @exponent(
// CHECK-SAME:      %[[S:.+]]: f32, %[[LEAST:.+]]: i32)
// CHECK:         %[[SMALLEST:.+]] = arith.bitcast %[[LEAST]] : i32 to f32
// CHECK:         arith.divf %[[S]], %[[SMALLEST]] : f32
// CHECK:         %[[RANGE:.+]] = arith.constant 118.458
// CHECK:         %[[Q:.+]] = arith.divf %[[RANGE]], %{{.+}} : f32
// CHECK:         %[[BITS:.+]] = arith.bitcast %[[Q]] : f32 to i32
// CHECK:         %[[MOST:.+]] = arith.constant 1124073472 : i32
// CHECK:         arith.minui %[[BITS]], %[[MOST]] : i32
// CHECK:         arith.maxui
// CHECK:         %[[WHOLE:.+]] = arith.fptoui
// CHECK:         %[[EMPTY:.+]] = arith.cmpi eq, %[[LEAST]]
// CHECK:         arith.select %[[EMPTY]], %{{.+}}, %[[WHOLE]] : i32
func.func @exponent(%s: f32, %least: i32) -> i8 {
  %j = scaled.exponent #scaled.expanded<f8E4M3FN, range = 28672.0>, %s, %least : f32
  return %j : i8
}

// Infinity and NaN of E5M2 pass the power.
// CHECK-LABEL: func.func @expanded_infinity(
// CHECK:         %[[FINITE:.+]] = arith.cmpi ult
// CHECK:         %[[Y:.+]] = arith.mulf
// CHECK:         %[[SIGNED:.+]] = math.copysign %{{.+}}, %[[Y]] : f32
// CHECK:         %[[VALUE:.+]] = arith.select %[[FINITE]], %[[SIGNED]], %[[Y]] : f32
// CHECK:         scaled.encode_float f8E5M2, %[[VALUE]] where %[[FINITE]]
func.func @expanded_infinity(%x: f32, %s: f32, %j: i8) -> f8E5M2 {
  %q = scaled.quantize #scaled.expanded<f8E5M2, range = 28672.0>, %x by %s, %j : f32, f32 -> f8E5M2
  return %q : f8E5M2
}
