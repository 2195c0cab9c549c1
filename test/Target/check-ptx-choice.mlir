// Both products of a selection have other uses, so neither may be missing.

// RUN: tandem-translate %s --strategy=fp32 --chip=sm_90 --tandem-to-ptx -o %t.good
// RUN: sed -e '0,/mul\.rn\.f32/{/mul\.rn\.f32/d;}' %t.good > %t.bad
// RUN: not tandem-translate %s --strategy=fp32 --chip=sm_90 --check-ptx --ptx=%t.bad 2>&1 | FileCheck %s
// CHECK:      the PTX of 'choice' is not the kernel's arithmetic:
// CHECK-NEXT: mul f32: a step requires 16, the PTX executes 15

#id = affine_map<(i) -> (i)>
func.func @choice(%first: f64 {tandem.role = #tandem.role<hyper "first">},
                  %second: f64 {tandem.role = #tandem.role<hyper "second">},
                  %x: tensor<?xf32> {tandem.role = #tandem.role<grad "x">},
                  %y: tensor<?xf32> {tandem.role = #tandem.role<param "y">}) -> tensor<?xf32> {
  %h = arith.truncf %first : f64 to f32
  %k = arith.truncf %second : f64 to f32
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<?xf32>) outs(%y : tensor<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %is_less = arith.cmpf olt, %a, %b : f32
    %is_more = arith.cmpf ogt, %a, %b : f32
    %l = arith.mulf %a, %h : f32
    %m = arith.mulf %a, %k : f32
    %s = arith.select %is_less, %l, %m : f32
    %t = arith.select %is_more, %m, %l : f32
    %c = arith.maximumf %s, %t : f32
    linalg.yield %c : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}
