// Opposite conditions select both: neither of two quotients may be missing.

// RUN: tandem-translate %s --strategy=fp32 --chip=sm_90 --tandem-to-ptx -o %t.good
// RUN: sed -e '0,/div\.rn\.f32/{/div\.rn\.f32/d;}' %t.good > %t.bad
// RUN: not tandem-translate %s --strategy=fp32 --chip=sm_90 --check-ptx --ptx=%t.bad 2>&1 | FileCheck %s
// CHECK:      the PTX of 'opposites' is not the kernel's arithmetic:
// CHECK-NEXT: div f32: a step requires 16, the PTX executes 15

#id = affine_map<(i) -> (i)>
func.func @opposites(%x: tensor<?xf32> {tandem.role = #tandem.role<grad "x">},
                     %y: tensor<?xf32> {tandem.role = #tandem.role<param "y">}) -> tensor<?xf32> {
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%y : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %is_less = arith.cmpf olt, %a, %b : f32
    %is_not_less = arith.cmpf ule, %b, %a : f32
    %l = arith.select %is_less, %a, %b : f32
    %m = arith.select %is_not_less, %a, %b : f32
    %s = arith.divf %l, %a : f32
    %t = arith.divf %m, %a : f32
    %c = arith.maximumf %s, %t : f32
    linalg.yield %c : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
