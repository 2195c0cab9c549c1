// RUN: tandem-reduce %s -take-operands='test=%S/Inputs/has-sqrt.sh' | FileCheck %s
// RUN: not tandem-reduce %s -take-operands=test=/bin/true 2>&1 | FileCheck %s --check-prefix=DULL

// A root of an argument remains, whether or not its result is used.

// CHECK-LABEL: func.func @root
// CHECK-SAME: (%[[X:.*]]: f32, %{{.*}}: f32) -> f32
// CHECK-NEXT: math.sqrt %[[X]]
// CHECK-NEXT: return
// DULL: the test does not find this interesting; it ends with status 1 where it does

func.func @root(%x: f32, %y: f32) -> f32 {
  %0 = arith.addf %x, %y : f32
  %1 = arith.mulf %0, %y : f32
  %2 = math.sqrt %1 : f32
  %3 = arith.divf %2, %0 : f32
  return %3 : f32
}
