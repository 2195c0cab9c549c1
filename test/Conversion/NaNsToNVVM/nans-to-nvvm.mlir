// RUN: tandem-opt %s -convert-nans-to-nvvm -canonicalize -cse | FileCheck %s

// CHECK-LABEL: func.func @nans(
// CHECK:         %[[X:.+]] = arith.bitcast %{{.+}} : vector<2xi32> to vector<2xf32>
// CHECK:         arith.cmpf uno, %[[X]], %[[X]] : vector<2xf32>
func.func @nans(%bits: vector<2xi32>) -> vector<2xi1> {
  %magnitudes = arith.constant dense<0x7FFFFFFF> : vector<2xi32>
  %infinity = arith.constant dense<0x7F800000> : vector<2xi32>
  %magnitude = arith.andi %bits, %magnitudes : vector<2xi32>
  %is_nan = arith.cmpi ugt, %magnitude, %infinity : vector<2xi32>
  return %is_nan : vector<2xi1>
}

// CHECK-LABEL: func.func @sum(
// CHECK:         %[[SUM:.+]] = arith.addf
// CHECK-NEXT:    %[[BITS:.+]] = arith.bitcast %[[SUM]]
// CHECK-NEXT:    return %[[BITS]]
func.func @sum(%x: vector<2xf32>, %y: vector<2xf32>) -> vector<2xi32> {
  %magnitudes = arith.constant dense<0x7FFFFFFF> : vector<2xi32>
  %infinity = arith.constant dense<0x7F800000> : vector<2xi32>
  %nan = arith.constant dense<0x7FFFFFFF> : vector<2xi32>
  %sum = arith.addf %x, %y : vector<2xf32>
  %bits = arith.bitcast %sum : vector<2xf32> to vector<2xi32>
  %magnitude = arith.andi %bits, %magnitudes : vector<2xi32>
  %is_nan = arith.cmpi ugt, %magnitude, %infinity : vector<2xi32>
  %chosen = arith.select %is_nan, %nan, %bits : vector<2xi1>, vector<2xi32>
  return %chosen : vector<2xi32>
}

// CHECK-LABEL: func.func @rounded(
// CHECK:         math.fma
// CHECK-NEXT:    arith.truncf
// CHECK-NEXT:    %[[BITS:.+]] = arith.bitcast
// CHECK-NEXT:    return %[[BITS]]
func.func @rounded(%x: vector<2xf32>, %y: vector<2xf32>) -> vector<2xi16> {
  %magnitudes = arith.constant dense<0x7FFF> : vector<2xi16>
  %infinity = arith.constant dense<0x7F80> : vector<2xi16>
  %nan = arith.constant dense<0x7FFF> : vector<2xi16>
  %fma = math.fma %x, %y, %y : vector<2xf32>
  %number = arith.truncf %fma : vector<2xf32> to vector<2xbf16>
  %bits = arith.bitcast %number : vector<2xbf16> to vector<2xi16>
  %magnitude = arith.andi %bits, %magnitudes : vector<2xi16>
  %is_nan = arith.cmpi ugt, %magnitude, %infinity : vector<2xi16>
  %chosen = arith.select %is_nan, %nan, %bits : vector<2xi1>, vector<2xi16>
  return %chosen : vector<2xi16>
}

// CHECK-LABEL: func.func @by_bits(
// CHECK-DAG:     %[[NAN:.+]] = arith.constant dense<2147418112> : vector<2xi32>
// CHECK:         %[[BITS:.+]] = arith.bitcast %{{.+}} : vector<2xf32> to vector<2xi32>
// CHECK:         %[[RANDOM:.+]] = arith.shrui
// CHECK:         %[[LIMITED:.+]] = arith.minsi %[[BITS]], %[[NAN]]
// CHECK:         %[[SUM:.+]] = arith.addi %[[LIMITED]], %[[RANDOM]]
// CHECK:         %[[CODE:.+]] = arith.shrui %[[SUM]]
// CHECK:         return %[[CODE]]
func.func @by_bits(%x: vector<2xf32>, %hash: vector<2xi32>) -> vector<2xi32> {
  %magnitudes = arith.constant dense<0x7FFFFFFF> : vector<2xi32>
  %infinity = arith.constant dense<0x7F800000> : vector<2xi32>
  %nan = arith.constant dense<0x7FFF> : vector<2xi32>
  %c16 = arith.constant dense<16> : vector<2xi32>
  %square = arith.mulf %x, %x : vector<2xf32>
  %bits = arith.bitcast %square : vector<2xf32> to vector<2xi32>
  %random = arith.shrui %hash, %c16 : vector<2xi32>
  %sum = arith.addi %bits, %random : vector<2xi32>
  %code = arith.shrui %sum, %c16 : vector<2xi32>
  %magnitude = arith.andi %bits, %magnitudes : vector<2xi32>
  %is_nan = arith.cmpi ugt, %magnitude, %infinity : vector<2xi32>
  %chosen = arith.select %is_nan, %nan, %code : vector<2xi1>, vector<2xi32>
  return %chosen : vector<2xi32>
}

// Any bits may be added here: they might carry into the sign.
// CHECK-LABEL: func.func @by_other_bits(
// CHECK-NOT:     arith.minsi
// CHECK:         arith.select
func.func @by_other_bits(%x: vector<2xf32>, %random: vector<2xi32>) -> vector<2xi32> {
  %magnitudes = arith.constant dense<0x7FFFFFFF> : vector<2xi32>
  %infinity = arith.constant dense<0x7F800000> : vector<2xi32>
  %nan = arith.constant dense<0x7FFF> : vector<2xi32>
  %c16 = arith.constant dense<16> : vector<2xi32>
  %square = arith.mulf %x, %x : vector<2xf32>
  %bits = arith.bitcast %square : vector<2xf32> to vector<2xi32>
  %sum = arith.addi %bits, %random : vector<2xi32>
  %code = arith.shrui %sum, %c16 : vector<2xi32>
  %magnitude = arith.andi %bits, %magnitudes : vector<2xi32>
  %is_nan = arith.cmpi ugt, %magnitude, %infinity : vector<2xi32>
  %chosen = arith.select %is_nan, %nan, %code : vector<2xi1>, vector<2xi32>
  return %chosen : vector<2xi32>
}

// A loaded NaN may be any, and so may the NaN of an operation that LLVM drops: a product by 1, a
// sum with 0, a difference of -x, a conversion there and back. Another NaN is chosen on purpose.
// CHECK-LABEL: func.func @stay(
// CHECK-COUNT-6: arith.select
func.func @stay(%x: f32, %half: bf16) -> (i32, i32, i32, i32, i16, i32) {
  %magnitudes = arith.constant 0x7FFFFFFF : i32
  %infinity = arith.constant 0x7F800000 : i32
  %nan = arith.constant 0x7FFFFFFF : i32
  %quiet = arith.constant 0x7FC00000 : i32
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %bits = arith.bitcast %x : f32 to i32
  %magnitude = arith.andi %bits, %magnitudes : i32
  %is_nan = arith.cmpi ugt, %magnitude, %infinity : i32
  %loaded = arith.select %is_nan, %nan, %bits : i32

  %product = math.fma %x, %one, %x : f32
  %bits1 = arith.bitcast %product : f32 to i32
  %magnitude1 = arith.andi %bits1, %magnitudes : i32
  %is_nan1 = arith.cmpi ugt, %magnitude1, %infinity : i32
  %chosen1 = arith.select %is_nan1, %nan, %bits1 : i32

  %sum = arith.addf %x, %zero : f32
  %bits2 = arith.bitcast %sum : f32 to i32
  %magnitude2 = arith.andi %bits2, %magnitudes : i32
  %is_nan2 = arith.cmpi ugt, %magnitude2, %infinity : i32
  %chosen2 = arith.select %is_nan2, %nan, %bits2 : i32

  %negative = arith.negf %x : f32
  %difference = arith.mulf %negative, %x : f32
  %bits3 = arith.bitcast %difference : f32 to i32
  %magnitude3 = arith.andi %bits3, %magnitudes : i32
  %is_nan3 = arith.cmpi ugt, %magnitude3, %infinity : i32
  %chosen3 = arith.select %is_nan3, %nan, %bits3 : i32

  %magnitudes4 = arith.constant 0x7FFF : i16
  %infinity4 = arith.constant 0x7F80 : i16
  %nan4 = arith.constant 0x7FFF : i16
  %wide = arith.extf %half : bf16 to f32
  %narrow = arith.truncf %wide : f32 to bf16
  %bits4 = arith.bitcast %narrow : bf16 to i16
  %magnitude4 = arith.andi %bits4, %magnitudes4 : i16
  %is_nan4 = arith.cmpi ugt, %magnitude4, %infinity4 : i16
  %chosen4 = arith.select %is_nan4, %nan4, %bits4 : i16

  %square = arith.mulf %x, %x : f32
  %bits5 = arith.bitcast %square : f32 to i32
  %magnitude5 = arith.andi %bits5, %magnitudes : i32
  %is_nan5 = arith.cmpi ugt, %magnitude5, %infinity : i32
  %chosen5 = arith.select %is_nan5, %quiet, %bits5 : i32
  return %loaded, %chosen1, %chosen2, %chosen3, %chosen4, %chosen5 : i32, i32, i32, i32, i16, i32
}
