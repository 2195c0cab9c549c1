// RUN: tandem-opt %s -tandem-simplify | FileCheck %s

// Folds are exact and dead operations disappear; x + 0.0 is not x for x = -0.0.

// CHECK-LABEL: func.func @exact
// CHECK-SAME: (%[[X:.+]]: bf16)
func.func @exact(%x: bf16) -> (bf16, bf16, bf16) {
  %two = arith.constant 2.0 : bf16
  %zero = arith.constant 0.0 : bf16
  %dead = arith.mulf %x, %x : bf16
  // CHECK-DAG: %[[FOUR:.+]] = arith.constant 4.000000e+00 : bf16
  %four = arith.addf %two, %two : bf16
  // CHECK-DAG: %[[SUM:.+]] = arith.addf %[[X]], %{{.+}} : bf16
  %sum = arith.addf %x, %zero : bf16
  %wide = arith.extf %x : bf16 to f32
  // CHECK-NOT: arith.truncf
  // CHECK-NOT: arith.mulf
  %same = arith.truncf %wide : f32 to bf16
  // CHECK: return %[[FOUR]], %[[SUM]], %[[X]]
  return %four, %sum, %same : bf16, bf16, bf16
}

// Factors are ordered by their definitions.

// CHECK-LABEL: func.func @factors
// CHECK-SAME: (%[[X:.+]]: f32, %[[Y:.+]]: f32)
func.func @factors(%x: f32, %y: f32) -> (f32, f32) {
  // CHECK: %[[S:.+]] = arith.addf
  %s = arith.addf %x, %y : f32
  // CHECK: math.fma %[[X]], %[[Y]], %[[S]]
  %0 = math.fma %y, %x, %s : f32
  // CHECK: math.fma %[[Y]], %[[S]], %[[X]]
  %1 = math.fma %s, %y, %x : f32
  return %0, %1 : f32, f32
}

// Numbers and NaNs are never less than themselves, and only numbers are equal to
// themselves.

// CHECK-LABEL: func.func @with_itself
// CHECK-SAME: (%[[X:.+]]: f32, %[[Y:.+]]: f32, %[[V:.+]]: vector<4xf32>)
func.func @with_itself(%x: f32, %y: f32, %v: vector<4xf32>) -> (f32, f32, f32, vector<4xi1>) {
  // CHECK-DAG: %[[ALL:.+]] = arith.constant dense<true> : vector<4xi1>
  // CHECK-DAG: %[[PRODUCT:.+]] = arith.mulf %[[X]], %[[Y]]
  // CHECK-NOT: arith.addf
  // CHECK: %[[EQUAL:.+]] = arith.cmpf oeq, %[[X]], %[[X]]
  // CHECK-NEXT: %[[NUMBER:.+]] = arith.select %[[EQUAL]], %[[X]], %[[Y]]
  // CHECK-NEXT: return %[[PRODUCT]], %[[PRODUCT]], %[[NUMBER]], %[[ALL]]
  %product = arith.mulf %x, %y : f32
  %sum = arith.addf %x, %y : f32
  %less = arith.cmpf olt, %x, %x : f32
  %0 = arith.select %less, %sum, %product : f32
  %at_least = arith.cmpf uge, %x, %x : f32
  %1 = arith.select %at_least, %product, %sum : f32
  %equal = arith.cmpf oeq, %x, %x : f32
  %2 = arith.select %equal, %x, %y : f32
  %3 = arith.cmpf ueq, %v, %v : vector<4xf32>
  return %0, %1, %2, %3 : f32, f32, f32, vector<4xi1>
}
