// RUN: tandem-opt %s -convert-scaled-to-arith -cse | FileCheck %s

// A magnitude stops at 1 (0x3F800000 = 1065353216); 127 * (2|z| / (1 + |z|)) gets its
// sign, and adding 2^23 + 2^22 rounds it. NaN has a code of its own.
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
// CHECK-DAG:     %[[SIGN:.+]] = arith.andi %{{.+}}, %c-2147483648{{.*}} : i32
// CHECK-DAG:     %[[LEVEL:.+]] = arith.bitcast %[[SCALED]] : f32 to i32
// CHECK:         %[[BITS:.+]] = arith.ori %[[LEVEL]], %[[SIGN]] : i32
// CHECK:         %[[SIGNED:.+]] = arith.bitcast %[[BITS]] : i32 to f32
// CHECK:         %[[SUM:.+]] = arith.addf %[[SIGNED]], %{{.+}} : f32
// CHECK:         %[[WHOLE:.+]] = arith.bitcast %[[SUM]] : f32 to i32
// CHECK:         %[[ROUNDED:.+]] = arith.subi %[[WHOLE]], %{{.+}} : i32
// CHECK:         %[[NAN:.+]] = arith.constant 128 : i32
// CHECK:         %[[CODE:.+]] = arith.select %[[FINITE]], %[[ROUNDED]], %[[NAN]] : i32
// CHECK:         arith.trunci %[[CODE]] : i32 to i8
func.func @softsign(%x: f32, %s: f16) -> i8 {
  %q = scaled.quantize #scaled.softsign, %x by %s : f32, f16 -> i8
  return %q : i8
}

// The root is scaled; one scale is broadcast to all elements.
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
// CHECK:         %[[WIDE:.+]] = arith.extf %[[S]] : bf16 to f32
// CHECK:         %[[REST:.+]] = arith.mulf %[[LEVEL:.+]], %{{.+}} : f32
// CHECK:         %[[FRACTION:.+]] = math.fma %[[LEVEL]], %{{.+}}, %[[REST]] : f32
// CHECK:         %[[IS_NAN:.+]] = arith.cmpi eq
// CHECK:         %[[Z:.+]] = arith.select %[[IS_NAN]], %{{.+}}, %[[FRACTION]] : f32
// CHECK:         %[[ROOT:.+]] = arith.mulf %[[Z]], %[[WIDE]] : f32
// CHECK:         %[[Y:.+]] = arith.mulf %[[ROOT]], %[[ROOT]] : f32
// CHECK:         return %[[Y]]
func.func @read_root(%q: i8, %s: bf16) -> f32 {
  %y = scaled.dequantize #scaled.root, %q by %s : (i8), bf16 -> f32
  return %y : f32
}

// If the scale is NaN, every code is 0.
// CHECK-LABEL: func.func @mulaw(
// CHECK-SAME:      %[[X:.+]]: vector<4xf32>, %[[S:.+]]: f32)
// CHECK:         %[[M:.+]] = arith.andi
// CHECK:         %[[R:.+]] = arith.divf %{{.+}}, %[[S]] : f32
// CHECK:         %[[IS_FINITE:.+]] = arith.cmpi ult
// CHECK:         %[[MAGNITUDE:.+]] = math.absf %[[X]] : vector<4xf32>
// CHECK:         %[[INVERSE:.+]] = vector.broadcast %[[R]] : f32 to vector<4xf32>
// CHECK:         math.fma %[[MAGNITUDE]], %[[INVERSE]], %{{.+}} : vector<4xf32>
// CHECK:         arith.constant dense<85> : vector<4xi32>
// CHECK:         %[[BYTE:.+]] = arith.trunci %{{.+}} : vector<4xi32> to vector<4xi8>
// CHECK:         %[[MASK:.+]] = arith.select %[[IS_FINITE]], %{{.+}}, %{{.+}} : i8
// CHECK:         %[[MASKS:.+]] = vector.broadcast %[[MASK]] : i8 to vector<4xi8>
// CHECK:         %[[CODE:.+]] = arith.andi %[[BYTE]], %[[MASKS]] : vector<4xi8>
// CHECK:         return %[[M]], %[[CODE]]
func.func @mulaw(%x: vector<4xf32>, %s: f32) -> (vector<4xi32>, vector<4xi8>) {
  %m = scaled.magnitude #scaled.mulaw<signed>, %x : vector<4xf32> -> vector<4xi32>
  %q = scaled.quantize #scaled.mulaw<signed>, %x by %s : vector<4xf32>, f32 -> vector<4xi8>
  return %m, %q : vector<4xi32>, vector<4xi8>
}

// A group whose largest magnitude is out of range or not finite gets a NaN in
// its scale's type. The inverse of a power of two is a difference of exponents.
// CHECK-LABEL: func.func @mulaw_scales(
// CHECK:         %[[Q:.+]] = arith.mulf
// CHECK:         %[[BITS:.+]] = arith.bitcast %[[Q]]
// CHECK:         %[[IS_FINITE:.+]] = arith.cmpi ule, %[[BITS]]
// CHECK:         %[[NAN:.+]] = arith.constant 2147483647 : i32
// CHECK:         arith.select %[[IS_FINITE]], %{{.+}}, %[[NAN]] : i32
// CHECK:         %[[BYTE:.+]] = arith.constant -1 : i8
// CHECK:         arith.select %[[IS_FINITE]], %{{.+}}, %[[BYTE]] : i8
// CHECK:         %[[TWICE_ONE:.+]] = arith.constant 2130706432 : i32
// CHECK:         arith.subi %[[TWICE_ONE]], %{{.+}} : i32
func.func @mulaw_scales(%amax: i32, %x: f32) -> (f32, f8E8M0FNU, i8) {
  %0 = scaled.scale #scaled.mulaw<unsigned>, %amax by current : f32
  %1 = scaled.scale #scaled.mulaw<unsigned>, %amax by pow2 : f8E8M0FNU
  %2 = scaled.scale #scaled.mulaw<unsigned>, %amax by pow2 : f32
  %3 = scaled.quantize #scaled.mulaw<unsigned>, %x by %2 : f32, f32 -> i8
  return %0, %1, %3 : f32, f8E8M0FNU, i8
}

// CHECK-LABEL: func.func @read_mulaw(
// CHECK-SAME:      %[[Q:.+]]: i8, %[[S:.+]]: f32)
// CHECK:         %[[WORD:.+]] = arith.extui %[[Q]] : i8 to i32
// CHECK-DAG:     %[[STEP:.+]] = arith.constant 372827 : i32
// CHECK-DAG:     %[[TWO:.+]] = arith.constant 1073741824 : i32
// CHECK:         %[[D:.+]] = arith.muli %[[WORD]], %[[STEP]] : i32
// CHECK:         %[[BITS:.+]] = arith.addi %[[D]], %[[TWO]] : i32
// CHECK:         %[[SUM:.+]] = arith.bitcast %[[BITS]] : i32 to f32
// CHECK:         %[[TWICE:.+]] = arith.mulf %[[S]], %{{.+}} : f32
// CHECK:         %[[VALUE:.+]] = math.fma %[[SUM]], %[[S]], %[[TWICE]] : f32
// CHECK:         return %[[VALUE]]
func.func @read_mulaw(%q: i8, %s: f32) -> f32 {
  %y = scaled.dequantize #scaled.mulaw<unsigned>, %q by %s : (i8), f32 -> f32
  return %y : f32
}

// w / (2 - |w|), where w = q / 127 is the sum of q's products with both parts
// of 1 / 127, rounded like the quotient.
// CHECK-LABEL: func.func @read_softsign(
// CHECK:         %[[LOW:.+]] = arith.constant 3.75462328E-9 : f32
// CHECK:         %[[REST:.+]] = arith.mulf %[[LEVEL:.+]], %[[LOW]] : f32
// CHECK:         %[[HIGH:.+]] = arith.constant 0.00787401199 : f32
// CHECK:         %[[W:.+]] = math.fma %[[LEVEL]], %[[HIGH]], %[[REST]] : f32
// CHECK-DAG:     %[[MAGNITUDE:.+]] = math.absf %[[W]] : f32
// CHECK-DAG:     %[[TWO:.+]] = arith.constant 2.000000e+00 : f32
// CHECK:         %[[DIVISOR:.+]] = arith.subf %[[TWO]], %[[MAGNITUDE]] : f32
// CHECK:         %[[Z:.+]] = arith.divf %[[W]], %[[DIVISOR]] : f32
// CHECK:         %[[IS_NAN:.+]] = arith.cmpi eq
// CHECK:         arith.select %[[IS_NAN]], %{{.+}}, %[[Z]] : f32
func.func @read_softsign(%q: i8, %s: f16) -> f32 {
  %y = scaled.dequantize #scaled.softsign, %q by %s : (i8), f16 -> f32
  return %y : f32
}

// The first code saturates, so y - hi is the remainder in this case, too; the
// second code always saturates. It is +0 if x is not finite.
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

// E8M0 is an exponent: 0 is the subnormal 2^-127, and 255 is NaN.
// CHECK-LABEL: func.func @read_pair(
// CHECK-SAME:      %{{.+}}: f8E5M2, %{{.+}}: f8E5M2, %[[S:.+]]: f8E8M0FNU)
// CHECK:         %[[HI_BITS:.+]] = arith.bitcast %{{.+}} : f8E5M2 to i8
// CHECK:         %[[LO_BITS:.+]] = arith.bitcast %{{.+}} : f8E5M2 to i8
// CHECK:         %[[BITS:.+]] = arith.bitcast %[[S]] : f8E8M0FNU to i8
// CHECK:         arith.shli
// CHECK:         arith.constant 4194304 : i32
// CHECK:         arith.constant 2143289344 : i32
// CHECK-DAG:     %[[HI:.+]] = scaled.decode_float f8E5M2, %[[HI_BITS]] : i8 -> f32
// CHECK-DAG:     %[[LO:.+]] = scaled.decode_float f8E5M2, %[[LO_BITS]] : i8 -> f32
// CHECK:         %[[SUM:.+]] = arith.addf %[[HI]], %[[LO]] : f32
// CHECK:         arith.mulf %[[SUM]], %{{.+}} : f32
func.func @read_pair(%h: f8E5M2, %l: f8E5M2, %s: f8E8M0FNU) -> f32 {
  %y = scaled.dequantize #scaled.pair<f8E5M2>, %h, %l by %s : (f8E5M2, f8E5M2), f8E8M0FNU -> f32
  return %y : f32
}

// Scales are between 2^-126 and 2^119 and rounded to nearest.
// CHECK-LABEL: func.func @current(
// CHECK-SAME:      %[[AMAX:.+]]: i32)
// CHECK:         arith.divf
// CHECK:         %[[SCALE:.+]] = arith.truncf %{{.+}} : f32 to bf16
// CHECK:         %[[HALF:.+]] = arith.bitcast %[[SCALE]] : bf16 to i16
// CHECK:         %[[ZERO:.+]] = arith.cmpi eq, %[[AMAX]], %{{.+}} : i32
// CHECK:         arith.select %[[ZERO]], %{{.+}}, %[[HALF]] : i16
func.func @current(%a: i32) -> bf16 {
  %s = scaled.scale #scaled.float<f8E4M3FN>, %a by current : bf16
  return %s : bf16
}

// For a code that rounds by bits, scales round up: the upper half of the bits,
// plus one unless the rest is 0.
// CHECK-LABEL: func.func @current_up(
// CHECK-SAME:      %[[AMAX:.+]]: i32)
// CHECK:         %[[L:.+]] = arith.constant 4.480000e+02 : f32
// CHECK:         %[[Q:.+]] = arith.divf %{{.+}}, %[[L]] : f32
// CHECK-DAG:     %[[MOST:.+]] = arith.constant 2063597568 : i32
// CHECK-DAG:     %[[LEAST:.+]] = arith.constant 8388608 : i32
// CHECK-DAG:     arith.minui %{{.+}}, %[[MOST]] : i32
// CHECK-DAG:     arith.maxui %{{.+}}, %[[LEAST]] : i32
// CHECK:         %[[REST:.+]] = arith.constant 65535 : i32
// CHECK:         %[[UP:.+]] = arith.addi %{{.+}}, %[[REST]] : i32
// CHECK:         %[[HIGH:.+]] = arith.shrui %[[UP]], %{{.+}} : i32
// CHECK:         %[[HALF:.+]] = arith.trunci %[[HIGH]] : i32 to i16
// CHECK:         %[[ZERO:.+]] = arith.cmpi eq, %[[AMAX]], %{{.+}} : i32
// CHECK:         arith.select %[[ZERO]], %{{.+}}, %[[HALF]] : i16
func.func @current_up(%a: i32) -> bf16 {
  %s = scaled.scale #scaled.float<f8E4M3FN, dither>, %a by current : bf16
  return %s : bf16
}

// If rounding to nearest rounded down, the code is the next larger one.
// CHECK-LABEL: func.func @current_half(
// CHECK:         %[[NEAR:.+]] = arith.truncf %{{.+}} : f32 to f16
// CHECK:         %[[LOW:.+]] = arith.cmpf olt
// CHECK:         %[[CODE:.+]] = arith.bitcast %[[NEAR]] : f16 to i16
// CHECK:         %[[ONE:.+]] = arith.extui %[[LOW]] : i1 to i16
// CHECK:         arith.addi %[[CODE]], %[[ONE]] : i16
func.func @current_half(%a: i32) -> f16 {
  %s = scaled.scale #scaled.float<f8E4M3FN, stochastic>, %a by current : f16
  return %s : f16
}

// Adding all mantissa bits carries into the exponent unless they are zero.
// CHECK-LABEL: func.func @pow2(
// CHECK:         %[[MANTISSA:.+]] = arith.constant 8388607 : i32
// CHECK:         %[[CARRIED:.+]] = arith.addi %{{.+}}, %[[MANTISSA]] : i32
// CHECK:         %[[EXPONENT:.+]] = arith.constant 2139095040 : i32
// CHECK:         arith.andi %[[CARRIED]], %[[EXPONENT]] : i32
func.func @pow2(%a: i32) -> f32 {
  %s = scaled.scale #scaled.float<f8E4M3FN>, %a by pow2 : f32
  return %s : f32
}

// Division by a power of two is emitted as a product, and division by 1 is omitted.
// CHECK-LABEL: func.func @current_power(
// CHECK-NOT:     arith.divf
// CHECK:         %[[SIXTEENTH:.+]] = arith.constant 6.250000e-02 : f32
// CHECK:         arith.mulf %{{.+}}, %[[SIXTEENTH]] : f32
// CHECK-NOT:     arith.divf
// CHECK-NOT:     arith.mulf
// CHECK:         return
func.func @current_power(%a: i32) -> (f32, f32) {
  %s = scaled.scale #scaled.minifloat<exponent = 3, mantissa = 0, specials = none>, %a by current : f32
  %t = scaled.scale #scaled.dynamic<signed>, %a by current : f32
  return %s, %t : f32, f32
}

// There is no division: exponents are subtracted.
// CHECK-LABEL: func.func @mx_floor(
// CHECK-NOT:     arith.divf
// CHECK:         arith.subi
// CHECK:         arith.trunci %{{.+}} : i32 to i8
// CHECK:         arith.bitcast %{{.+}} : i8 to f8E8M0FNU
func.func @mx_floor(%a: i32) -> f8E8M0FNU {
  %s = scaled.scale #scaled.float<f8E4M3FN>, %a by mx_floor : f8E8M0FNU
  return %s : f8E8M0FNU
}

// Scales are 2^2 times as large: the quotient, or for mx_floor the exponent, which is
// 8 - 2 below amax's.
// CHECK-LABEL: func.func @margins(
// CHECK:         %[[Q:.+]] = arith.divf
// CHECK:         %[[FOUR:.+]] = arith.constant 4.000000e+00 : f32
// CHECK:         arith.mulf %[[Q]], %[[FOUR]] : f32
// CHECK:         arith.minui
// CHECK:         %[[SIX:.+]] = arith.constant 6 : i32
// CHECK:         arith.subi %{{.+}}, %[[SIX]] : i32
// The quotient is doubled by adding it to itself, as LLVM prefers.
// CHECK:         arith.addf %[[Q]], %[[Q]] : f32
func.func @margins(%a: i32) -> (f32, f8E8M0FNU, f32) {
  %s = scaled.scale #scaled.float<f8E4M3FN>, %a by current margin 2 : f32
  %t = scaled.scale #scaled.float<f8E4M3FN>, %a by mx_floor margin 2 : f8E8M0FNU
  %u = scaled.scale #scaled.float<f8E4M3FN>, %a by current margin 1 : f32
  return %s, %t, %u : f32, f8E8M0FNU, f32
}

// Scales from 2^-126 (8388608) to 2^119 (2063597568), as unsigned bits, are valid;
// others become 1.
// CHECK-LABEL: func.func @given_scale(
// CHECK-SAME:      %[[S:.+]]: f32)
// CHECK:         %[[BITS:.+]] = arith.bitcast %[[S]] : f32 to i32
// CHECK:         %[[LEAST:.+]] = arith.constant 8388608 : i32
// CHECK:         %[[ENOUGH:.+]] = arith.cmpi uge, %[[BITS]], %[[LEAST]] : i32
// CHECK:         %[[MOST:.+]] = arith.constant 2063597568 : i32
// CHECK:         %[[AT_MOST:.+]] = arith.cmpi ule, %[[BITS]], %[[MOST]] : i32
// CHECK:         %[[IS_SCALE:.+]] = arith.andi %[[ENOUGH]], %[[AT_MOST]] : i1
// CHECK:         %[[CHOSEN:.+]] = arith.select %[[IS_SCALE]], %{{.+}}, %{{.+}} : i32
// CHECK:         arith.bitcast %[[CHOSEN]] : i32 to f32
func.func @given_scale(%s: f32) -> f32 {
  %0 = scaled.given_scale #scaled.float<f8E4M3FN>, %s : f32
  return %0 : f32
}

// If the largest number is below 1/2, here 3/8, subnormal magnitudes have
// separate scales, and no scale exceeds 2^127 (0x7F000000 = 2130706432).
// CHECK-LABEL: func.func @small_numbers(
// CHECK-SAME:      %[[AMAX:.+]]: i32)
// CHECK:         %[[FIELD:.+]] = arith.shrui %[[AMAX]], %{{.+}} : i32
// CHECK:         %[[UP:.+]] = arith.constant 0x4B800000 : f32
// CHECK:         arith.mulf %{{.+}}, %[[UP]] : f32
// CHECK:         %[[LOW:.+]] = arith.subi %{{.+}}, %{{.+}} : i32
// CHECK:         arith.select %{{.+}}, %[[LOW]], %[[FIELD]] : i32
// CHECK:         %[[MOST:.+]] = arith.constant 254 : i32
// CHECK:         arith.minsi %{{.+}}, %[[MOST]] : i32
// CHECK:         arith.divf
// CHECK:         %[[MOST_BITS:.+]] = arith.constant 2130706432 : i32
// CHECK:         arith.minui %{{.+}}, %[[MOST_BITS]] : i32
func.func @small_numbers(%a: i32) -> (f8E8M0FNU, f8E8M0FNU) {
  %s = scaled.scale #scaled.minifloat<exponent = 3, mantissa = 2, bias = 9>, %a by mx_floor : f8E8M0FNU
  %t = scaled.scale #scaled.minifloat<exponent = 3, mantissa = 2, bias = 9>, %a by pow2 : f8E8M0FNU
  return %s, %t : f8E8M0FNU, f8E8M0FNU
}

// |y| is clamped to 1; the exponent counts eighths; the power is L * 2^(k * log2
// |y|). For log2, the bits of sqrt(1/2), 1060439283, are subtracted; f * P(f) uses
// Horner's rule, and the exponent, scaled by 2^23, is added. For exp2, NaN counts
// as -100; the integer part is added to the exponent field. The code handles values
// without a power.
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
// CHECK:         %[[TOP:.+]] = arith.constant -8388608 : i32
// CHECK:         %[[FIELD:.+]] = arith.andi %[[SHIFTED]], %[[TOP]] : i32
// CHECK:         %[[E:.+]] = arith.sitofp %[[FIELD]] : i32 to f32
// CHECK-COUNT-8:  math.fma
// CHECK:         %[[FP:.+]] = arith.mulf %{{.+}}, %{{.+}} : f32
// CHECK:         %[[UNIT:.+]] = arith.constant 1.1920929E-7 : f32
// CHECK:         %[[LOG:.+]] = math.fma %[[E]], %[[UNIT]], %[[FP]] : f32
// CHECK:         %[[X:.+]] = arith.mulf %[[K]], %[[LOG]] : f32
// CHECK:         %[[LEAST:.+]] = arith.constant -1.000000e+02 : f32
// CHECK:         %[[ABOVE:.+]] = arith.cmpf ogt, %[[X]], %[[LEAST]] : f32
// CHECK:         %[[AT_LEAST:.+]] = arith.select %[[ABOVE]], %[[X]], %[[LEAST]] : f32
// CHECK:         %[[SUM:.+]] = arith.addf %[[AT_LEAST]], %{{.+}} : f32
// CHECK-COUNT-6:  math.fma
// CHECK:         arith.shli
// CHECK:         arith.addi
// CHECK:         %[[L:.+]] = arith.constant 4.480000e+02 : f32
// CHECK:         %[[STRETCHED:.+]] = arith.mulf %{{.+}}, %[[L]] : f32
// CHECK:         %[[SIGNED:.+]] = math.copysign %[[STRETCHED]], %[[Y:.+]] : f32
// CHECK-NEXT:    scaled.encode_float f8E4M3FN, %[[SIGNED]] where %[[FINITE]]
func.func @expanded(%x: f32, %s: f32, %j: i8) -> f8E4M3FN {
  %q = scaled.quantize #scaled.expanded<f8E4M3FN, range = 28672.0>, %x by %s, %j : f32, f32 -> f8E4M3FN
  return %q : f8E4M3FN
}

// f8E5M2 has infinities, for which there is no power.
// CHECK-LABEL: func.func @expanded_infinity(
// CHECK:         %[[SIGNED:.+]] = math.copysign %{{.+}}, %[[Y:.+]] : f32
// CHECK:         %[[CHOSEN:.+]] = arith.select %{{.+}}, %[[SIGNED]], %[[Y]] : f32
// CHECK:         scaled.encode_float f8E5M2, %[[CHOSEN]] where
func.func @expanded_infinity(%x: f32, %s: f32, %j: i8) -> f8E5M2 {
  %q = scaled.quantize #scaled.expanded<f8E5M2, range = 28672.0>, %x by %s, %j : f32, f32 -> f8E5M2
  return %q : f8E5M2
}

// 2^((log2 |q| - log2 L) * (8 / j)), with q's sign. Zeros and nonfinite values,
// whose bits minus one are at least 2139095039, are kept.
// CHECK-LABEL: func.func @read_expanded(
// CHECK:         %[[EIGHT:.+]] = arith.constant 8.000000e+00 : f32
// CHECK:         %[[INVERSE:.+]] = arith.divf %[[EIGHT]], %{{.+}} : f32
// CHECK-COUNT-8:  math.fma
// CHECK:         %[[LOG:.+]] = math.fma
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

// Zeros and nonfinite values, whose bits minus one are at least 2139095039, get
// all ones.
// CHECK-LABEL: func.func @least(
// CHECK:         %[[M:.+]] = arith.andi
// CHECK-DAG:     %[[LIMIT:.+]] = arith.constant 2139095039 : i32
// CHECK-DAG:     %[[REST:.+]] = arith.subi %[[M]], %{{.+}} : i32
// CHECK:         %[[COUNTS:.+]] = arith.cmpi ult, %[[REST]], %[[LIMIT]] : i32
// CHECK:         %[[ONES:.+]] = arith.constant -1 : i32
// CHECK:         %[[RESULT:.+]] = arith.select %[[COUNTS]], %[[M]], %[[ONES]] : i32
// CHECK:         return %[[RESULT]]
func.func @least(%x: f32) -> i32 {
  %m = scaled.least %x : f32 -> i32
  return %m : i32
}

// (8 * log2 R) / log2(s / least), clamped to 8 and 128 (1124073472 as f32 bits,
// which those of negative numbers exceed); 8 for a group without a number.
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

// If |y| reaches the end of a decade, the next power of ten and the decade, in
// its low bits, are selected: 10^6 and 0 (1232348160), 10^5 and 1, up to 1 and
// 6. The result is mapped from [0.1, 1] to [1, 2] = [1065353216, 1073741823];
// adding the decade to the exponent gives the rank. Rank 126 of negative numbers
// is NaN's code, 1: from its centre on, rank 127 is nearer, and below it 125.
// CHECK-LABEL: func.func @dynamic(
// CHECK:         %[[FINITE:.+]] = arith.cmpi ult
// CHECK:         %[[Y:.+]] = arith.mulf
// CHECK:         %[[NEGATIVE:.+]] = arith.cmpi slt
// CHECK:         %[[A:.+]] = math.absf %[[Y]] : f32
// CHECK:         %[[P0:.+]] = arith.constant 1232348160 : i32
// CHECK:         %[[T0:.+]] = arith.constant 1.900000e-06 : f32
// CHECK:         %[[AT_T0:.+]] = arith.cmpf oge, %[[A]], %[[T0]] : f32
// CHECK:         %[[P1:.+]] = arith.constant 1203982337 : i32
// CHECK:         arith.select %[[AT_T0]], %[[P1]], %[[P0]] : i32
// CHECK:         arith.constant 1.450000e-05 : f32
// CHECK:         arith.constant 1.225000e-04 : f32
// CHECK:         arith.constant 1.112500e-03 : f32
// CHECK:         arith.constant 1.056250e-02 : f32
// CHECK:         %[[T5:.+]] = arith.constant 0.102812499 : f32
// CHECK:         %[[AT_T5:.+]] = arith.cmpf oge, %[[A]], %[[T5]] : f32
// CHECK:         %[[P6:.+]] = arith.constant 1065353222 : i32
// CHECK:         %[[CHOSEN:.+]] = arith.select %[[AT_T5]], %[[P6]], %{{.+}} : i32
// CHECK:         %[[POWER_BITS:.+]] = arith.andi %[[CHOSEN]], %{{.+}} : i32
// CHECK:         %[[POWER:.+]] = arith.bitcast %[[POWER_BITS]] : i32 to f32
// CHECK:         %[[U:.+]] = arith.mulf %[[A]], %[[POWER]] : f32
// CHECK-DAG:     %[[SLOPE:.+]] = arith.constant 1.11111116 : f32
// CHECK-DAG:     %[[BEGIN:.+]] = arith.constant 0.888888895 : f32
// CHECK:         %[[PLACE:.+]] = math.fma %[[U]], %[[SLOPE]], %[[BEGIN]] : f32
// CHECK:         %[[MOST:.+]] = arith.constant 1073741823 : i32
// CHECK:         arith.minui %{{.+}}, %[[MOST]] : i32
// CHECK:         %[[LEAST:.+]] = arith.constant 1065353216 : i32
// CHECK:         %[[CLAMPED:.+]] = arith.maxui %{{.+}}, %[[LEAST]] : i32
// CHECK:         %[[DECADE:.+]] = arith.shli %[[CHOSEN]], %{{.+}} : i32
// CHECK:         arith.addi %[[CLAMPED]], %[[DECADE]] : i32
// CHECK:         %[[PART:.+]] = arith.fptosi
// CHECK:         %[[FIRST:.+]] = arith.constant 1 : i32
// CHECK:         %[[RANK:.+]] = arith.maxsi %[[PART]], %[[FIRST]] : i32
// CHECK:         %[[T6:.+]] = arith.constant 0.996484398 : f32
// CHECK:         %[[AT_ONE:.+]] = arith.cmpf oge, %[[Y]], %[[T6]] : f32
// CHECK:         %[[ONE:.+]] = arith.constant 128 : i32
// CHECK:         %[[UP_TO_ONE:.+]] = arith.select %[[AT_ONE]], %[[ONE]], %[[RANK]] : i32
// CHECK:         %[[LOST:.+]] = arith.cmpi eq, %[[UP_TO_ONE]], %{{.+}} : i32
// CHECK:         %[[CENTRE:.+]] = arith.constant 0.978906273 : f32
// CHECK:         %[[BEYOND:.+]] = arith.cmpf oge, %[[A]], %[[CENTRE]] : f32
// CHECK:         %[[NEARER:.+]] = arith.select %[[BEYOND]], %{{.+}}, %{{.+}} : i32
// CHECK:         %[[IS_LOST:.+]] = arith.andi %[[NEGATIVE]], %[[LOST]] : i1
// CHECK:         %[[NUMBER:.+]] = arith.select %[[IS_LOST]], %[[NEARER]], %[[UP_TO_ONE]] : i32
// CHECK:         %[[Z:.+]] = arith.constant 2.750000e-07 : f32
// CHECK:         %[[AT_ZERO:.+]] = arith.cmpf olt, %[[A]], %[[Z]] : f32
// CHECK:         arith.select %[[AT_ZERO]], %{{.+}}, %[[NUMBER]] : i32
// CHECK:         %[[CODE:.+]] = arith.select %[[FINITE]], %{{.+}}, %[[FIRST]] : i32
// CHECK:         arith.trunci %[[CODE]] : i32 to i8
func.func @dynamic(%x: f32, %s: f32) -> i8 {
  %q = scaled.quantize #scaled.dynamic<signed>, %x by %s : f32, f32 -> i8
  return %q : i8
}

// Decades have twice as many parts, from [2, 4], and the rank is one less.
// Negative values become NaN, 254, so that rank 253 is the last one before 1.
// CHECK-LABEL: func.func @dynamic_unsigned(
// CHECK:         %[[Y:.+]] = arith.mulf
// CHECK:         %[[NEGATIVE:.+]] = arith.cmpf olt, %[[Y]]
// CHECK:         arith.constant 1.450000e-06 : f32
// CHECK:         math.fma
// CHECK:         arith.constant 1082130431 : i32
// CHECK:         arith.constant 1073741824 : i32
// CHECK:         %[[PART:.+]] = arith.fptosi
// CHECK:         %[[RANK:.+]] = arith.subi %[[PART]], %{{.+}} : i32
// CHECK:         %[[LAST:.+]] = arith.constant 253 : i32
// CHECK:         %[[UP_TO_LAST:.+]] = arith.minsi %[[RANK]], %[[LAST]] : i32
// CHECK:         arith.maxsi %[[UP_TO_LAST]], %{{.+}} : i32
// CHECK:         arith.constant 0.994726538 : f32
// CHECK:         %[[NAN:.+]] = arith.constant 254 : i32
// CHECK:         %[[CODE:.+]] = arith.select %[[NEGATIVE]], %[[NAN]], %{{.+}} : i32
// CHECK:         arith.select %{{.+}}, %[[CODE]], %[[NAN]] : i32
func.func @dynamic_unsigned(%x: f32, %s: f32) -> i8 {
  %q = scaled.quantize #scaled.dynamic<unsigned>, %x by %s : f32, f32 -> i8
  return %q : i8
}

// The fraction of 2 * rank + 1 is the position in the decade, and its exponent the
// decade.
// CHECK-LABEL: func.func @read_dynamic(
// CHECK-SAME:      %[[Q:.+]]: i8, %[[S:.+]]: f32)
// CHECK:         %[[CODE:.+]] = arith.extui %[[Q]] : i8 to i32
// CHECK:         %[[OFFSET:.+]] = arith.subi %[[CODE]], %{{.+}} : i32
// CHECK:         %[[RANK:.+]] = arith.maxsi %[[OFFSET]], %{{.+}} : i32
// CHECK:         arith.shli %[[RANK]]
// CHECK:         %[[WIDE:.+]] = arith.sitofp
// CHECK:         %[[PLACE:.+]] = arith.bitcast %{{.+}} : i32 to f32
// CHECK:         %[[FOUR:.+]] = arith.constant 4.000000e+00 : f32
// CHECK:         arith.cmpf oge, %[[WIDE]], %[[FOUR]] : f32
// CHECK:         %[[MOST:.+]] = arith.constant 1.280000e+02 : f32
// CHECK:         %[[LAST:.+]] = arith.cmpf oge, %[[WIDE]], %[[MOST]] : f32
// CHECK:         %[[POWER:.+]] = arith.select %[[LAST]]
// CHECK:         %[[PART:.+]] = arith.subf %[[PLACE]], %{{.+}} : f32
// CHECK:         %[[CENTRE:.+]] = math.fma %[[PART]], %{{.+}}, %{{.+}} : f32
// CHECK:         arith.mulf %[[CENTRE]], %[[POWER]] : f32
// CHECK:         %[[IS_ONE:.+]] = arith.cmpi eq, %[[RANK]]
// CHECK:         %[[UP_TO_ONE:.+]] = arith.select %[[IS_ONE]]
// CHECK:         %[[IS_ZERO:.+]] = arith.cmpi eq, %[[RANK]]
// CHECK:         %[[MAGNITUDE:.+]] = arith.select %[[IS_ZERO]], %{{.+}}, %[[UP_TO_ONE]] : i32
// CHECK:         %[[SIGN:.+]] = arith.andi %[[OFFSET]], %{{.+}} : i32
// CHECK:         %[[NUMBER:.+]] = arith.ori %[[MAGNITUDE]], %[[SIGN]] : i32
// CHECK:         %[[IS_NAN:.+]] = arith.cmpi eq, %[[CODE]]
// CHECK:         arith.select %[[IS_NAN]], %{{.+}}, %[[NUMBER]] : i32
func.func @read_dynamic(%q: i8, %s: f32) -> f32 {
  %y = scaled.dequantize #scaled.dynamic<signed>, %q by %s : (i8), f32 -> f32
  return %y : f32
}

// There is no product with the largest number, 1, but negative values are multiplied
// by the largest of their sign. Zeros, which have no power, and nonfinite values of y
// select the code.
// CHECK-LABEL: func.func @expanded_dynamic(
// CHECK:         %[[Y:.+]] = arith.mulf
// CHECK-COUNT-14: math.fma
// CHECK:         %[[NEGATIVE:.+]] = arith.cmpi slt
// CHECK:         %[[LARGEST:.+]] = arith.constant 0.992968738 : f32
// CHECK:         %[[LESS:.+]] = arith.mulf %[[POWER:.+]], %[[LARGEST]] : f32
// CHECK:         %[[STRETCHED:.+]] = arith.select %[[NEGATIVE]], %[[LESS]], %[[POWER]] : f32
// CHECK:         %[[SIGNED:.+]] = math.copysign %{{.+}}, %[[Y]] : f32
// CHECK:         %[[LIMIT:.+]] = arith.constant 2139095039 : i32
// CHECK:         %[[ORDINARY:.+]] = arith.cmpi ult, %{{.+}}, %[[LIMIT]] : i32
// CHECK:         %[[CHOSEN:.+]] = arith.select %[[ORDINARY]], %[[SIGNED]], %[[Y]] : f32
// CHECK:         math.absf %[[CHOSEN]] : f32
func.func @expanded_dynamic(%x: f32, %s: f32, %j: i8) -> i8 {
  %q = scaled.quantize #scaled.expanded<#scaled.dynamic<signed>, range = 1.0e4>, %x by %s, %j : f32, f32 -> i8
  return %q : i8
}

// The largest number's logarithm, 0, is not subtracted from that of |code|; the
// largest negative number's is.
// CHECK-LABEL: func.func @read_expanded_dynamic(
// CHECK:         %[[INVERSE:.+]] = arith.divf
// CHECK:         math.absf
// CHECK-COUNT-8:  math.fma
// CHECK:         %[[LOG:.+]] = math.fma
// CHECK:         %[[LESS:.+]] = arith.subf %[[LOG]], %{{.+}} : f32
// CHECK:         %[[FRACTION:.+]] = arith.select %{{.+}}, %[[LESS]], %[[LOG]] : f32
// CHECK:         arith.mulf %[[FRACTION]], %[[INVERSE]] : f32
func.func @read_expanded_dynamic(%q: i8, %s: f32, %j: i8) -> f32 {
  %y = scaled.dequantize #scaled.expanded<#scaled.dynamic<signed>, range = 1.0e4>, %q by %s, %j : (i8), f32 -> f32
  return %y : f32
}

// A number up to the smallest normal one, 2^-6 (0x3C800000), times 2^29 is a
// code with 20 bits below the unit, and the bits of larger numbers continue it.
// The random bits are added to the upper 16 of the 20, and the sign is above
// the code. Magnitudes are clamped to 448.
// CHECK-LABEL: func.func @minifloat_stochastic(
// CHECK-SAME:      %{{.+}}: f32, %{{.+}}: f32, %[[R:.+]]: i32)
// CHECK:         %[[FINITE:.+]] = arith.cmpi ult
// CHECK:         %[[LARGEST:.+]] = arith.constant 1138753536 : i32
// CHECK:         %[[M:.+]] = arith.minui %{{.+}}, %[[LARGEST]] : i32
// CHECK:         %[[LEAST:.+]] = arith.constant 1015021568 : i32
// CHECK:         %[[BELOW:.+]] = arith.minui %[[M]], %[[LEAST]] : i32
// CHECK:         %[[NUMBER:.+]] = arith.bitcast %[[BELOW]] : i32 to f32
// CHECK:         %[[POWER:.+]] = arith.constant 0x4E000000 : f32
// CHECK:         %[[PRODUCT:.+]] = arith.mulf %[[NUMBER]], %[[POWER]] : f32
// CHECK:         %[[UNITS:.+]] = arith.fptosi %[[PRODUCT]] : f32 to i32
// CHECK:         %[[BEYOND:.+]] = arith.subi %[[M]], %[[BELOW]] : i32
// CHECK:         %[[COUNT:.+]] = arith.addi %[[UNITS]], %[[BEYOND]] : i32
// CHECK:         %[[FOUR:.+]] = arith.constant 4 : i32
// CHECK:         %[[ADDEND:.+]] = arith.shli %[[R]], %[[FOUR]] : i32
// CHECK:         %[[SUM:.+]] = arith.addi %[[COUNT]], %[[ADDEND]] : i32
// CHECK:         %[[TWENTY:.+]] = arith.constant 20 : i32
// CHECK:         %[[CODE:.+]] = arith.shrui %[[SUM]], %[[TWENTY]] : i32
// CHECK:         %[[DIFFERENCE:.+]] = arith.xori %[[TOP:.+]], %[[CODE]] : i32
// CHECK:         %[[BELOW:.+]] = arith.andi %[[DIFFERENCE]], %{{.+}} : i32
// CHECK:         %[[SIGNED:.+]] = arith.xori %[[TOP]], %[[BELOW]] : i32
// CHECK:         arith.select %[[FINITE]], %[[SIGNED]], %{{.+}} : i32
func.func @minifloat_stochastic(%x: f32, %s: f32, %r: i32) -> i8 {
  %q = scaled.quantize #scaled.minifloat<exponent = 4, mantissa = 3, rounding = stochastic>, %x by %s random %r : f32, f32, i32 -> i8
  return %q : i8
}

// The mantissa is truncated. Zeros have no sign, whose bit alone (8) is NaN.
// CHECK-LABEL: func.func @minifloat_toward_zero(
// CHECK:         %[[FINITE:.+]] = arith.cmpi ult
// CHECK:         %[[DROPPED:.+]] = arith.constant 22 : i32
// CHECK:         %[[CODE:.+]] = arith.shrui %{{.+}}, %[[DROPPED]] : i32
// CHECK:         %[[MASK:.+]] = arith.constant 7 : i32
// CHECK:         arith.xori %{{.+}}, %[[CODE]] : i32
// CHECK:         %[[SIGNED:.+]] = arith.xori
// CHECK:         %[[MAGNITUDE:.+]] = arith.andi %[[CODE]], %[[MASK]] : i32
// CHECK:         %[[IS_ZERO:.+]] = arith.cmpi eq, %[[MAGNITUDE]], %{{.+}} : i32
// CHECK:         %[[NUMBER:.+]] = arith.select %[[IS_ZERO]], %[[MAGNITUDE]], %[[SIGNED]] : i32
// CHECK:         %[[WORD:.+]] = arith.select %[[FINITE]], %[[NUMBER]], %{{.+}} : i32
// CHECK:         arith.trunci %[[WORD]] : i32 to i8
func.func @minifloat_toward_zero(%x: f32, %s: f32) -> i8 {
  %q = scaled.quantize #scaled.minifloat<exponent = 2, mantissa = 1, specials = negative_zero, rounding = toward_zero>, %x by %s : f32, f32 -> i8
  return %q : i8
}

// A code consists of the upper bits of an f32 of at least 2^-62 (545259520),
// unless it is 0, and at most 15 * 2^60.
// CHECK-LABEL: func.func @minifloat_exponents(
// CHECK:         %[[LARGEST:.+]] = arith.constant 1601175552 : i32
// CHECK:         %[[AT_MOST:.+]] = arith.minui %{{.+}}, %[[LARGEST]] : i32
// CHECK:         %[[SMALLEST:.+]] = arith.constant 545259520 : i32
// CHECK:         %[[RAISED:.+]] = arith.maxui %[[AT_MOST]], %[[SMALLEST]] : i32
// CHECK:         %[[IS_ZERO:.+]] = arith.cmpi eq, %[[AT_MOST]]
// CHECK:         %[[M:.+]] = arith.select %[[IS_ZERO]], %[[AT_MOST]], %[[RAISED]] : i32
// CHECK:         %[[CODE:.+]] = arith.shrui %[[M]], %{{.+}} : i32
// CHECK:         arith.xori %{{.+}}, %[[CODE]] : i32
// CHECK:         arith.trunci %{{.+}} : i32 to i16
func.func @minifloat_exponents(%x: f32, %s: f32) -> i16 {
  %q = scaled.quantize #scaled.minifloat<exponent = 8, mantissa = 3, specials = ieee, rounding = toward_zero, exponents = [-62, 63]>, %x by %s : f32, f32 -> i16
  return %q : i16
}

// Without a mantissa, a tie rounds to the even code, which depends on the
// exponent. NaN has no sign and no code: it becomes the largest number.
// CHECK-LABEL: func.func @minifloat_no_mantissa(
// CHECK:         %[[LARGEST:.+]] = arith.constant 1098907648 : i32
// CHECK:         arith.minui %{{.+}}, %[[LARGEST]] : i32
// CHECK:         %[[BASE:.+]] = arith.shli
// CHECK:         %[[CODE:.+]] = arith.addi %{{.+}}, %[[BASE]] : i32
// CHECK:         %[[ODD:.+]] = arith.andi %[[CODE]], %{{.+}} : i32
// CHECK:         %[[SUM:.+]] = arith.addi %{{.+}}, %[[ODD]] : i32
// CHECK:         %[[UNITS:.+]] = arith.shrui %[[SUM]], %{{.+}} : i32
// CHECK:         %[[ROUNDED:.+]] = arith.addi %[[UNITS]], %[[BASE]] : i32
// CHECK:         %[[IS_NAN:.+]] = arith.cmpf uno
// CHECK:         %[[TOP:.+]] = arith.select %[[IS_NAN]], %{{.+}}, %{{.+}} : i32
// CHECK:         %[[DIFFERENCE:.+]] = arith.xori %[[TOP]], %[[ROUNDED]] : i32
// CHECK:         %[[LOW:.+]] = arith.andi %[[DIFFERENCE]]
// CHECK:         %[[NUMBER:.+]] = arith.xori %[[TOP]], %[[LOW]] : i32
// CHECK-NEXT:    arith.trunci %[[NUMBER]] : i32 to i8
func.func @minifloat_no_mantissa(%x: f32, %s: f32) -> i8 {
  %q = scaled.quantize #scaled.minifloat<exponent = 3, mantissa = 0, specials = none>, %x by %s : f32, f32 -> i8
  return %q : i8
}

// The bias exceeds f32's, so numbers are multiplied exactly by a power of two.
// CHECK-LABEL: func.func @minifloat_small_numbers(
// CHECK:         %[[UP:.+]] = arith.constant 8.192000e+03 : f32
// CHECK:         arith.mulf %{{.+}}, %[[UP]] : f32
// CHECK:         %[[DOWN:.+]] = arith.constant 1.22070313E-4 : f32
// CHECK:         arith.mulf %{{.+}}, %[[DOWN]] : f32
func.func @minifloat_small_numbers(%x: f32, %s: f32) -> f32 {
  %q = scaled.quantize #scaled.minifloat<exponent = 4, mantissa = 3, bias = 140>, %x by %s : f32, f32 -> i8
  %y = scaled.dequantize #scaled.minifloat<exponent = 4, mantissa = 3, bias = 140>, %q by %s : (i8), f32 -> f32
  return %y : f32
}

// Bits outside of the format are shifted out; the code 8 is NaN.
// CHECK-LABEL: func.func @read_minifloat(
// CHECK:         %[[WORD:.+]] = arith.extui
// CHECK:         %[[M:.+]] = arith.andi %[[WORD]], %{{.+}} : i32
// CHECK:         %[[REST:.+]] = arith.xori %[[WORD]], %[[M]] : i32
// CHECK:         %[[SIGN:.+]] = arith.shli %[[REST]], %{{.+}} : i32
// CHECK:         %[[NUMBER:.+]] = arith.ori %{{.+}}, %[[SIGN]] : i32
// CHECK:         %[[IS_NAN:.+]] = arith.cmpi eq, %[[NUMBER]], %{{.+}} : i32
// CHECK:         arith.select %[[IS_NAN]], %{{.+}}, %[[NUMBER]] : i32
func.func @read_minifloat(%q: i8, %s: f32) -> f32 {
  %y = scaled.dequantize #scaled.minifloat<exponent = 2, mantissa = 1, specials = negative_zero>, %q by %s : (i8), f32 -> f32
  return %y : f32
}
