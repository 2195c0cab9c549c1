// A value of only constants is folded by some pass, so its roundings need not
// be executed. Roundings of elements still count.

// RUN: tandem-translate %s --chip=sm_90 --tandem-to-ptx -o %t.good
// RUN: sed -e '0,/sqrt\.rn\.f32/{/sqrt\.rn\.f32/d;}' %t.good > %t.bad
// RUN: not tandem-translate %s --chip=sm_90 --check-ptx --ptx=%t.bad 2>&1 | FileCheck %s
// CHECK:      the PTX of 'constants' is not the kernel's arithmetic:
// CHECK-NEXT: sqrt f32: a step requires 8, the PTX executes 7
tandem.kernel @constants compute(<f32, f32>) tensors [#tandem.role<grad "g">, #tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%g: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>, %p: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>):
  %x = tandem.load_plane %g[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
  %root_x = math.sqrt %x : f32
  %two = arith.constant 2.0 : f32
  %root = math.sqrt %two : f32
  %folded = arith.truncf %root : f32 to bf16
  %wide = arith.extf %folded : bf16 to f32
  %y = arith.addf %root_x, %wide : f32
  %rounded = arith.truncf %y : f32 to bf16
  %bits = arith.bitcast %rounded : bf16 to i16
  tandem.store_plane %bits, %p[0] : i16, !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
  tandem.yield
}
