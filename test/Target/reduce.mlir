// RUN: tandem-reduce %s -reduction-tree='traversal-mode=0 test=%S/Inputs/has-sqrt.sh' \
// RUN:   | FileCheck %s

// The smallest file that still has a root contains one of the functions.

// CHECK-NOT: func.func @sum
// CHECK: func.func @root
// CHECK: math.sqrt
// CHECK-NOT: func.func @sum

func.func @sum(%p: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>, %x: f32, %y: f32) -> f32 {
  %0 = arith.addf %x, %y : f32
  return %0 : f32
}

func.func @root(%x: f32) -> f32 {
  %0 = math.sqrt %x : f32
  return %0 : f32
}
