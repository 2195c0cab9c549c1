// RUN: tandem-opt %s -convert-float-codes-to-nvvm -tandem-simplify -cse | FileCheck %s
// RUN: tandem-opt %s -convert-float-codes-to-nvvm=chip=sm_89 | FileCheck %s -check-prefix=SM89
// RUN: tandem-opt %s -convert-float-codes-to-nvvm=chip=sm_80 | FileCheck %s -check-prefix=SM80
// RUN: not tandem-opt %s -convert-float-codes-to-nvvm=chip=hopper 2>&1 | FileCheck %s -check-prefix=NAME

// SM89: nvvm.convert.f32x2.to.f8x2
// SM80-NOT: nvvm.
// NAME: error: chip 'hopper' is not written like sm_90

// Nonfinite values are converted as NaN. The first operand is the upper byte. If the
// magnitude of a byte plus 1 has its top bit set, it is NaN, and its sign is cleared.
// CHECK-LABEL: func.func @saturating(
// CHECK-SAME:      %[[X:.+]]: vector<4xf32>, %[[FINITE:.+]]: vector<4xi1>)
// CHECK-DAG:     %[[ALL:.+]] = arith.constant dense<-1> : vector<1xi32>
// CHECK-DAG:     %[[ONES:.+]] = arith.constant dense<16843009> : vector<1xi32>
// CHECK-DAG:     %[[SIGNS:.+]] = arith.constant dense<-2139062144> : vector<1xi32>
// CHECK-DAG:     %[[REST:.+]] = arith.constant dense<2139062143> : vector<1xi32>
// CHECK-DAG:     %[[NAN:.+]] = arith.constant dense<0x7FC00000> : vector<4xf32>
// CHECK:         %[[Y:.+]] = arith.select %[[FINITE]], %[[X]], %[[NAN]]
// CHECK:         %[[Y0:.+]] = vector.extract %[[Y]][0]
// CHECK:         %[[Y1:.+]] = vector.extract %[[Y]][1]
// CHECK:         %[[LOW:.+]] = nvvm.convert.f32x2.to.f8x2 %[[Y1]], %[[Y0]] {rnd = #nvvm.fp_rnd_mode<rn>, sat = #nvvm.sat_mode<satfinite>} : i16(f8E4M3FN)
// CHECK:         %[[HIGH:.+]] = nvvm.convert.f32x2.to.f8x2
// CHECK:         %[[PAIRS:.+]] = vector.from_elements %[[LOW]], %[[HIGH]] : vector<2xi16>
// CHECK:         %[[WORD:.+]] = vector.bitcast %[[PAIRS]] : vector<2xi16> to vector<1xi32>
// CHECK:         %[[MAGNITUDES:.+]] = arith.andi %[[WORD]], %[[REST]]
// CHECK:         %[[CARRY:.+]] = arith.addi %[[MAGNITUDES]], %[[ONES]]
// CHECK:         %[[IS_NAN:.+]] = arith.andi %[[CARRY]], %[[SIGNS]]
// CHECK:         %[[KEPT:.+]] = arith.xori %[[IS_NAN]], %[[ALL]]
// CHECK:         %[[CANONICAL:.+]] = arith.andi %[[WORD]], %[[KEPT]]
// CHECK:         vector.bitcast %[[CANONICAL]] : vector<1xi32> to vector<4xi8>
func.func @saturating(%x: vector<4xf32>, %finite: vector<4xi1>) -> vector<4xi8> {
  %q = scaled.encode_float f8E4M3FN, %x where %finite : vector<4xf32>, vector<4xi1> -> vector<4xi8>
  return %q : vector<4xi8>
}

// 464 is a tie that rounds to 448; larger values become NaN.
// CHECK-LABEL: func.func @nearest(
// CHECK-SAME:      %[[X:.+]]: vector<2xf32>)
// CHECK-DAG:     %[[TIE:.+]] = arith.constant dense<4.640000e+02> : vector<2xf32>
// CHECK:         %[[ABS:.+]] = math.absf %[[X]]
// CHECK:         %[[BEYOND:.+]] = arith.cmpf ogt, %[[ABS]], %[[TIE]]
// CHECK:         arith.select %[[BEYOND]], %{{.+}}, %[[X]]
// CHECK:         nvvm.convert.f32x2.to.f8x2
func.func @nearest(%x: vector<2xf32>) -> vector<2xi8> {
  %q = scaled.encode_float f8E4M3FN, %x : vector<2xf32> -> vector<2xi8>
  return %q : vector<2xi8>
}

// 61440 is a tie that rounds to infinity, the code after that of the largest
// number.
// CHECK-LABEL: func.func @infinity(
// CHECK-SAME:      %[[X:.+]]: vector<2xf32>)
// CHECK-DAG:     %[[TIE:.+]] = arith.constant dense<6.144000e+04> : vector<2xf32>
// CHECK:         nvvm.convert.f32x2.to.f8x2 {{.+}}(f8E5M2)
// CHECK:         %[[CODES:.+]] = vector.bitcast %{{.+}} : vector<1xi16> to vector<2xi8>
// CHECK:         %[[BEYOND:.+]] = arith.cmpf oge, %{{.+}}, %[[TIE]]
// CHECK:         %[[ONE:.+]] = arith.extui %[[BEYOND]] : vector<2xi1> to vector<2xi8>
// CHECK:         arith.addi %[[CODES]], %[[ONE]]
func.func @infinity(%x: vector<2xf32>) -> vector<2xi8> {
  %q = scaled.encode_float f8E5M2, %x : vector<2xf32> -> vector<2xi8>
  return %q : vector<2xi8>
}

// A scalar uses the lower half of a pair.
// CHECK-LABEL: func.func @saturating_infinity(
// CHECK-SAME:      %[[X:.+]]: f32, %[[FINITE:.+]]: i1)
// CHECK-DAG:     %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
// CHECK-DAG:     %[[NAN:.+]] = arith.constant 127 : i32
// CHECK:         nvvm.convert.f32x2.to.f8x2 %[[ZERO]], %[[X]]
// CHECK:         %[[CODE:.+]] = arith.trunci %{{.+}} : i16 to i8
// CHECK:         %[[IS_NAN:.+]] = arith.cmpf uno, %[[X]], %[[X]]
// CHECK:         %[[CHOSEN:.+]] = arith.select %[[IS_NAN]], %[[NAN]], %{{.+}} : i32
// CHECK:         %[[SPECIAL:.+]] = arith.trunci %[[CHOSEN]] : i32 to i8
// CHECK:         arith.select %[[FINITE]], %[[CODE]], %[[SPECIAL]] : i8
func.func @saturating_infinity(%x: f32, %finite: i1) -> i8 {
  %q = scaled.encode_float f8E5M2, %x where %finite : f32, i1 -> i8
  return %q : i8
}

// CHECK-LABEL: func.func @exact(
// CHECK-SAME:      %[[X:.+]]: f32)
// CHECK-NOT:     arith.cmpf
// CHECK:         nvvm.convert.f32x2.to.f8x2 %{{.+}}, %[[X]]
func.func @exact(%x: f32) -> i8 {
  %q = scaled.encode_float f8E4M3FN, exact %x : f32 -> i8
  return %q : i8
}

// CHECK-LABEL: func.func @read(
// CHECK-SAME:      %[[Q:.+]]: vector<4xi8>)
// CHECK:         %[[PAIRS:.+]] = vector.bitcast %[[Q]] : vector<4xi8> to vector<2xi16>
// CHECK:         %[[LOW:.+]] = vector.extract %[[PAIRS]][0]
// CHECK:         %[[BYTES:.+]] = llvm.bitcast %[[LOW]] : i16 to vector<2xi8>
// CHECK:         %[[HALVES:.+]] = nvvm.convert.f8x2.to.f16x2 %[[BYTES]] : vector<2xi8>(f8E5M2) -> vector<2xf16>
// CHECK:         %[[WIDE:.+]] = arith.extf %[[HALVES]] : vector<2xf16> to vector<2xf32>
// CHECK:         %[[X0:.+]] = vector.extract %[[WIDE]][0]
// CHECK:         %[[X1:.+]] = vector.extract %[[WIDE]][1]
// CHECK:         vector.from_elements %[[X0]], %[[X1]], %{{.+}}, %{{.+}} : vector<4xf32>
func.func @read(%q: vector<4xi8>) -> vector<4xf32> {
  %x = scaled.decode_float f8E5M2, %q : vector<4xi8> -> vector<4xf32>
  return %x : vector<4xf32>
}

// CHECK-LABEL: func.func @read_one(
// CHECK:         %[[WORD:.+]] = arith.extui %{{.+}} : i8 to i16
// CHECK:         %[[WIDE:.+]] = arith.extf %{{.+}} : vector<2xf16> to vector<2xf32>
// CHECK:         vector.extract %[[WIDE]][0]
func.func @read_one(%q: i8) -> f32 {
  %x = scaled.decode_float f8E4M3FN, %q : i8 -> f32
  return %x : f32
}

// CHECK-LABEL: func.func @others(
// CHECK:         scaled.decode_float f16
// CHECK:         scaled.decode_float f8E4M3FN, %{{.+}} : vector<3xi8>
func.func @others(%q: i16, %o: vector<3xi8>) -> (f32, vector<3xf32>) {
  %x = scaled.decode_float f16, %q : i16 -> f32
  %y = scaled.decode_float f8E4M3FN, %o : vector<3xi8> -> vector<3xf32>
  return %x, %y : f32, vector<3xf32>
}

// The code of a value that is always a number needs no canonical NaN.

// CHECK-LABEL: func.func @always_finite(
// CHECK:         %[[CODES:.+]] = nvvm.convert.f32x2.to.f8x2 {{.+}} : i16(f8E4M3FN)
// CHECK-NEXT:    %[[CODE:.+]] = arith.trunci %[[CODES]] : i16 to i8
// CHECK-NEXT:    return %[[CODE]]
func.func @always_finite(%x: f32) -> i8 {
  %finite = arith.constant true
  %q = scaled.encode_float f8E4M3FN, %x where %finite : f32, i1 -> i8
  return %q : i8
}
