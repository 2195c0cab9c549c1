// RUN: tandem-opt %s -convert-float-codes-to-arith -tandem-simplify -cse | FileCheck %s
// RUN: tandem-opt %s -convert-float-codes-to-arith=formats=f8E5M2 | FileCheck %s -check-prefix=LISTED
// RUN: tandem-opt %s -convert-float-codes-to-arith=half-conversions -tandem-simplify -cse | FileCheck %s -check-prefix=HALF
// RUN: not tandem-opt %s -convert-float-codes-to-arith=formats=bf16 2>&1 | FileCheck %s -check-prefix=UNKNOWN

// LISTED-NOT: scaled.{{.+}} f8E5M2
// LISTED:     scaled.encode_float f8E4M3FN
// LISTED-NOT: scaled.{{.+}} f8E5M2
// UNKNOWN: error: no float code is 'bf16'; expected f8E4M3FN, f8E5M2 or f16

// Magnitudes are clamped to 57344 = 0x47600000. The exponent, at least that of 2^-14
// (0x38800000), plus 21 gives the anchor. Adding the anchor leaves two mantissa
// bits, the units of the sum, to which the exponent is added. The code of the
// smallest exponent, 113 * 4, is subtracted together with the anchor, modulo 256: 60
// units more. If x is not finite, the code is NaN (0x7F) or infinity (0x7C).
// CHECK-LABEL: func.func @saturating(
// CHECK-SAME:      %[[X:.+]]: f32, %[[FINITE:.+]]: i1)
// CHECK-DAG:     %[[LARGEST:.+]] = arith.constant 1197473792 : i32
// CHECK-DAG:     %[[LEAST:.+]] = arith.constant 947912704 : i32
// CHECK-DAG:     %[[PLUS_21:.+]] = arith.constant 176160828 : i32
// CHECK-DAG:     %[[NAN:.+]] = arith.constant 127 : i32
// CHECK-DAG:     %[[INF:.+]] = arith.constant 124 : i32
// CHECK:         %[[BITS:.+]] = arith.bitcast %[[X]] : f32 to i32
// CHECK:         %[[M:.+]] = arith.minui %{{.+}}, %[[LARGEST]] : i32
// CHECK:         %[[E:.+]] = arith.maxui %{{.+}}, %[[LEAST]] : i32
// CHECK:         %[[LIFTED:.+]] = arith.addi %[[E]], %[[PLUS_21]] : i32
// CHECK:         %[[ANCHOR:.+]] = arith.bitcast %[[LIFTED]] : i32 to f32
// CHECK:         %[[SUM:.+]] = arith.addf %{{.+}}, %[[ANCHOR]] : f32
// CHECK-DAG:     %[[SUM_BITS:.+]] = arith.bitcast %[[SUM]] : f32 to i32
// CHECK-DAG:     %[[FIELD:.+]] = arith.shrui %[[E]], %{{.+}} : i32
// CHECK:         %[[MAGNITUDE:.+]] = arith.addi %[[SUM_BITS]], %[[FIELD]] : i32
// CHECK:         %[[TOP:.+]] = arith.shrui %[[BITS]], %{{.+}} : i32
// CHECK:         %[[DIFFERENCE:.+]] = arith.xori %[[TOP]], %[[MAGNITUDE]] : i32
// CHECK:         %[[BELOW:.+]] = arith.andi %[[DIFFERENCE]], %[[NAN]] : i32
// CHECK:         %[[NUMBER:.+]] = arith.xori %[[TOP]], %[[BELOW]] : i32
// CHECK:         %[[IS_NAN:.+]] = arith.cmpf uno, %[[X]], %[[X]] : f32
// CHECK:         %[[SIGN:.+]] = arith.andi %[[TOP]]
// CHECK:         %[[SIGNED_INF:.+]] = arith.ori %[[SIGN]], %[[INF]] : i32
// CHECK:         %[[SPECIAL:.+]] = arith.select %[[IS_NAN]], %[[NAN]], %[[SIGNED_INF]] : i32
// CHECK:         %[[CODE:.+]] = arith.select %[[FINITE]], %[[NUMBER]], %[[SPECIAL]] : i32
// CHECK:         arith.trunci %[[CODE]] : i32 to i8
func.func @saturating(%x: f32, %finite: i1) -> i8 {
  %q = scaled.encode_float f8E5M2, %x where %finite : f32, i1 -> i8
  return %q : i8
}

// Above 448 = 0x43E00000 there is only NaN, whose code has no sign.
// CHECK-LABEL: func.func @nearest(
// CHECK-DAG:     %[[LARGEST:.+]] = arith.constant dense<1138753536> : vector<4xi32>
// CHECK-DAG:     %[[NAN:.+]] = arith.constant dense<127> : vector<4xi32>
// CHECK:         arith.cmpi ugt, %{{.+}}, %[[LARGEST]] : vector<4xi32>
// CHECK:         %[[SIGNED:.+]] = arith.ori
// CHECK-NEXT:    arith.bitcast %[[SIGNED]] : vector<4xi32> to vector<4xf32>
// CHECK:         %[[NUMBER:.+]] = arith.ori
// CHECK-NEXT:    %[[CODE:.+]] = arith.select %{{.+}}, %[[NAN]], %[[NUMBER]]
// CHECK-NEXT:    arith.trunci %[[CODE]] : vector<4xi32> to vector<4xi8>
func.func @nearest(%x: vector<4xf32>) -> vector<4xi8> {
  %q = scaled.encode_float f8E4M3FN, %x : vector<4xf32> -> vector<4xi8>
  return %q : vector<4xi8>
}

// A number that the format can represent is not rounded.
// CHECK-LABEL: func.func @exact(
// CHECK-COUNT-1: arith.addf
// CHECK-NOT:     arith.subf
// CHECK:         return
func.func @exact(%x: f32) -> i8 {
  %q = scaled.encode_float f8E4M3FN, exact %x : f32 -> i8
  return %q : i8
}

// Decode as if normal, then subtract 2^-6, the bit that a subnormal number lacks.
// CHECK-LABEL: func.func @read(
// CHECK-SAME:      %[[Q:.+]]: i8)
// CHECK-DAG:     %[[HIDDEN:.+]] = arith.constant 1.562500e-02 : f32
// CHECK:         %[[SUBNORMAL:.+]] = arith.cmpi ult
// CHECK:         %[[REST:.+]] = arith.subf %[[WHOLE:.+]], %[[HIDDEN]] : f32
// CHECK:         arith.select %[[SUBNORMAL]], %[[REST]], %[[WHOLE]] : f32
func.func @read(%q: i8) -> f32 {
  %x = scaled.decode_float f8E4M3FN, %q : i8 -> f32
  return %x : f32
}

// The decoded number is the sum minus the anchor, with x's sign.
// CHECK-LABEL: func.func @read_back(
// CHECK-SAME:      %[[X:.+]]: f32, %[[FINITE:.+]]: i1)
// CHECK-DAG:     %[[NAN:.+]] = arith.constant 0x7FC00000 : f32
// CHECK:         %[[SUM:.+]] = arith.addf %{{.+}}, %[[ANCHOR:.+]] : f32
// CHECK:         %[[MAGNITUDE:.+]] = arith.subf %[[SUM]], %[[ANCHOR]] : f32
// CHECK:         %[[NUMBER:.+]] = math.copysign %[[MAGNITUDE]], %[[X]] : f32
// CHECK:         %[[Y:.+]] = arith.select %[[FINITE]], %[[NUMBER]], %[[NAN]] : f32
// CHECK:         return %{{.+}}, %[[Y]]
func.func @read_back(%x: f32, %finite: i1) -> (i8, f32) {
  %q = scaled.encode_float f8E4M3FN, %x where %finite : f32, i1 -> i8
  %y = scaled.decode_float f8E4M3FN, %q : i8 -> f32
  return %q, %y : i8, f32
}

// If a select drops the value for a nonfinite x, nothing replaces it.
// CHECK-LABEL: func.func @read_back_chosen(
// CHECK-SAME:      %[[X:.+]]: f32, %[[FINITE:.+]]: i1)
// CHECK:         %[[NUMBER:.+]] = math.copysign %{{.+}}, %[[X]] : f32
// CHECK:         %[[REST:.+]] = arith.subf %[[X]], %[[NUMBER]] : f32
// CHECK:         %[[CHOSEN:.+]] = arith.select %[[FINITE]], %[[REST]], %[[X]] : f32
// CHECK:         return %{{.+}}, %[[CHOSEN]]
func.func @read_back_chosen(%x: f32, %finite: i1) -> (i8, f32) {
  %q = scaled.encode_float f8E5M2, %x where %finite : f32, i1 -> i8
  %y = scaled.decode_float f8E5M2, %q : i8 -> f32
  %rest = arith.subf %x, %y : f32
  %chosen = arith.select %finite, %rest, %x : f32
  return %q, %chosen : i8, f32
}

// A select does not count if it drops it for other values, or also uses it.
// CHECK-LABEL: func.func @read_back_kept(
// CHECK-SAME:      %[[X:.+]]: f32, %[[FINITE:.+]]: i1)
// CHECK:         %[[NUMBER:.+]] = math.copysign %{{.+}}, %[[X]] : f32
// CHECK:         %[[Y:.+]] = arith.select %[[FINITE]], %[[NUMBER]], %{{.+}} : f32
// CHECK:         arith.select %[[FINITE]], %[[X]], %[[Y]] : f32
func.func @read_back_kept(%x: f32, %finite: i1) -> f32 {
  %q = scaled.encode_float f8E4M3FN, %x where %finite : f32, i1 -> i8
  %y = scaled.decode_float f8E4M3FN, %q : i8 -> f32
  %kept = arith.select %finite, %x, %y : f32
  return %kept : f32
}

// A rounding without an encoding is not converted.
// CHECK-LABEL: func.func @rounded(
// CHECK-NOT:     i8
// CHECK:         return
func.func @rounded(%x: f32) -> f32 {
  %q = scaled.encode_float f8E4M3FN, %x : f32 -> i8
  %y = scaled.decode_float f8E4M3FN, %q : i8 -> f32
  return %y : f32
}

// Bits that are read as a different format are decoded.
// CHECK-LABEL: func.func @other_format(
// CHECK:         %[[CODE:.+]] = arith.trunci
// CHECK:         arith.extui %[[CODE]] : i8 to i32
func.func @other_format(%x: f32) -> f32 {
  %q = scaled.encode_float f8E4M3FN, %x : f32 -> i8
  %y = scaled.decode_float f8E5M2, %q : i8 -> f32
  return %y : f32
}

// A target's f16 has f8E5M2's exponents. f8E4M3FN's numbers times 2^-8 are f16
// numbers with a sign and seven bits below the highest exponent bit.
// HALF-LABEL: func.func @by_half(
// HALF-SAME:      %[[X:.+]]: f32, %[[FINITE:.+]]: i1, %[[Q3:.+]]: i8, %[[Q2:.+]]: i8, %[[H:.+]]: i16)
// HALF-DAG:     %[[EIGHT:.+]] = arith.constant 8 : i16
// HALF-DAG:     %[[SEVEN:.+]] = arith.constant 7 : i16
// HALF-DAG:     %[[LEFT_OUT:.+]] = arith.constant -16385 : i16
// HALF-DAG:     %[[CODE_OF_NAN:.+]] = arith.constant 16256 : i16
// HALF-DAG:     %[[NAN:.+]] = arith.constant 32767 : i16
// HALF-DAG:     %[[SHORT_NAN:.+]] = arith.constant 32256 : i16
// HALF-DAG:     %[[UP:.+]] = arith.constant 2.560000e+02 : f32
// HALF-DAG:     %[[LARGEST:.+]] = arith.constant 1199562752 : i32
// HALF:         arith.minui %{{.+}}, %[[LARGEST]] : i32
// HALF:         %[[NUMBER:.+]] = math.copysign
// HALF:         %[[CHOSEN:.+]] = arith.select %[[FINITE]], %[[NUMBER]], %{{.+}} : f32
// HALF:         %[[HALF:.+]] = arith.truncf %[[CHOSEN]] : f32 to f16
// HALF:         %[[CODE:.+]] = arith.select %{{.+}}, %[[NAN]], %{{.+}} : i16
// HALF:         %[[AGAIN:.+]] = arith.extf %[[HALF]] : f16 to f32
// HALF:         %[[READ_BACK:.+]] = arith.select %[[FINITE]], %[[AGAIN]], %{{.+}} : f32
// HALF:         %[[WORD:.+]] = arith.extsi %[[Q3]] : i8 to i16
// HALF:         %[[PLACED:.+]] = arith.shli %[[WORD]], %[[SEVEN]] : i16
// HALF:         %[[BITS:.+]] = arith.andi %[[PLACED]], %[[LEFT_OUT]] : i16
// HALF:         %[[IS_NAN:.+]] = arith.cmpi eq, %{{.+}}, %[[CODE_OF_NAN]] : i16
// HALF:         %[[SELECTED:.+]] = arith.select %[[IS_NAN]], %[[SHORT_NAN]], %[[BITS]] : i16
// HALF:         %[[SMALL:.+]] = arith.bitcast %[[SELECTED]] : i16 to f16
// HALF:         %[[WIDE:.+]] = arith.extf %[[SMALL]] : f16 to f32
// HALF:         %[[E4M3:.+]] = arith.mulf %[[WIDE]], %[[UP]] : f32
// HALF:         %[[LOW:.+]] = arith.extui %[[Q2]] : i8 to i16
// HALF:         %[[HIGH:.+]] = arith.shli %[[LOW]], %[[EIGHT]] : i16
// HALF:         %[[E5M2_HALF:.+]] = arith.bitcast %[[HIGH]] : i16 to f16
// HALF:         %[[E5M2:.+]] = arith.extf %[[E5M2_HALF]] : f16 to f32
// HALF:         %[[F16_HALF:.+]] = arith.bitcast %[[H]] : i16 to f16
// HALF:         %[[F16:.+]] = arith.extf %[[F16_HALF]] : f16 to f32
// HALF:         return %[[CODE]], %[[READ_BACK]], %[[E4M3]], %[[E5M2]], %[[F16]]
func.func @by_half(%x: f32, %finite: i1, %q3: i8, %q2: i8, %h: i16) -> (i16, f32, f32, f32, f32) {
  %code = scaled.encode_float f16, %x where %finite : f32, i1 -> i16
  %back = scaled.decode_float f16, %code : i16 -> f32
  %e4m3 = scaled.decode_float f8E4M3FN, %q3 : i8 -> f32
  %e5m2 = scaled.decode_float f8E5M2, %q2 : i8 -> f32
  %f16 = scaled.decode_float f16, %h : i16 -> f32
  return %code, %back, %e4m3, %e5m2, %f16 : i16, f32, f32, f32, f32
}
