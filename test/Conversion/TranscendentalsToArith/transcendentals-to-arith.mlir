// RUN: tandem-opt %s -convert-transcendentals-to-arith -cse | FileCheck %s

// n is the integer nearest to x / log(2), from the low bits of a sum with 1.5 *
// 2^23; the result is multiplied by 2^n in two factors.
// CHECK-LABEL: func.func @exp(
// CHECK-SAME:      %[[X:.+]]: f32)
// CHECK:         arith.cmpf ogt, %[[X]]
// CHECK:         %[[WITHIN:.+]] = arith.select
// CHECK:         %[[SUM:.+]] = math.fma %{{.+}}, %{{.+}}, %{{.+}} : f32
// CHECK:         %[[N:.+]] = arith.subf %[[SUM]]
// CHECK:         %[[R0:.+]] = math.fma %[[N]]
// CHECK:         %[[R:.+]] = math.fma %[[N]], %{{.+}}, %[[R0]] : f32
// CHECK-COUNT-5: math.fma
// CHECK:         arith.addf
// CHECK:         arith.bitcast %[[SUM]] : f32 to i32
// CHECK-COUNT-2: arith.shli
// CHECK:         %[[FIRST:.+]] = arith.mulf
// CHECK:         %[[RESULT:.+]] = arith.mulf %[[FIRST]]
// CHECK:         return %[[RESULT]]
func.func @exp(%x: f32) -> f32 {
  %0 = math.exp %x : f32
  return %0 : f32
}

// Zeros, negative numbers and infinity have separate results.
// CHECK-LABEL: func.func @log(
// CHECK-SAME:      %[[X:.+]]: f32)
// CHECK:         arith.sitofp
// CHECK:         %[[BELOW:.+]] = arith.cmpf olt, %[[X]]
// CHECK:         %[[FINITE:.+]] = arith.select %[[BELOW]], %{{.+}}, %[[X]] : f32
// CHECK:         arith.cmpf oeq, %[[X]]
// CHECK:         %[[OUTSIDE:.+]] = arith.select
// CHECK:         %[[POSITIVE:.+]] = arith.cmpf ogt, %[[X]]
// CHECK:         %[[RESULT:.+]] = arith.select %[[POSITIVE]], %[[FINITE]], %[[OUTSIDE]] : f32
// CHECK:         return %[[RESULT]]
func.func @log(%x: f32) -> f32 {
  %0 = math.log %x : f32
  return %0 : f32
}

// The sign is that of the argument, also of -0.
// CHECK-LABEL: func.func @tanh(
// CHECK-SAME:      %[[X:.+]]: f32)
// CHECK:         %[[A:.+]] = math.absf %[[X]] : f32
// CHECK:         arith.divf
// CHECK:         %[[SMALL:.+]] = arith.cmpf olt, %[[A]]
// CHECK:         %[[BITS:.+]] = arith.bitcast %[[X]] : f32 to i32
// CHECK:         %[[SIGN:.+]] = arith.andi %[[BITS]]
// CHECK:         %[[SIGNED:.+]] = arith.ori %{{.+}}, %[[SIGN]] : i32
// CHECK:         arith.bitcast %[[SIGNED]] : i32 to f32
// CHECK-NOT:     math.tanh
func.func @tanh(%x: f32) -> f32 {
  %0 = math.tanh %x : f32
  return %0 : f32
}

// There are polynomials of the square and for arguments above 39/16; NaN uses the second.
// CHECK-LABEL: func.func @erf(
// CHECK-SAME:      %[[X:.+]]: f32)
// CHECK:         %[[A:.+]] = math.absf %[[X]] : f32
// CHECK:         %[[SQUARE:.+]] = arith.mulf %[[A]], %[[A]] : f32
// CHECK-COUNT-6: math.fma %{{.+}}, %[[SQUARE]], %{{.+}} : f32
// CHECK:         %[[SMALL:.+]] = math.fma %[[A]], %{{.+}}, %[[A]] : f32
// CHECK:         %[[BEYOND:.+]] = arith.cmpf ogt, %[[A]], %[[FOUR:.+]] : f32
// CHECK:         %[[WITHIN:.+]] = arith.select %[[BEYOND]], %[[FOUR]], %[[A]] : f32
// CHECK:         %[[T:.+]] = arith.subf %[[WITHIN]]
// CHECK-COUNT-14: math.fma %{{.+}}, %[[T]], %{{.+}} : f32
// CHECK:         %[[IS_SMALL:.+]] = arith.cmpf olt, %[[A]]
// CHECK:         arith.select %[[IS_SMALL]], %[[SMALL]]
// CHECK:         %[[SIGNED:.+]] = arith.ori
// CHECK:         arith.bitcast %[[SIGNED]] : i32 to f32
// CHECK-NOT:     math.erf
func.func @erf(%x: f32) -> f32 {
  %0 = math.erf %x : f32
  return %0 : f32
}

// Other formats are computed in f32, and vectors element by element.
// CHECK-LABEL: func.func @formats(
// CHECK-SAME:      %[[X:.+]]: vector<8xbf16>)
// CHECK:         arith.extf %[[X]] : vector<8xbf16> to vector<8xf32>
// CHECK:         %[[RESULT:.+]] = arith.truncf %{{.+}} : vector<8xf32> to vector<8xbf16>
// CHECK:         return %[[RESULT]]
func.func @formats(%x: vector<8xbf16>) -> vector<8xbf16> {
  %0 = math.exp %x : vector<8xbf16>
  return %0 : vector<8xbf16>
}
