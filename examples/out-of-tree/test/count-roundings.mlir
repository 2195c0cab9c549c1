// RUN: my-tandem-opt %s -count-roundings | FileCheck %s
// RUN: my-tandem-opt %s -count-roundings=remark -o /dev/null 2>&1 | FileCheck %s -check-prefix=REMARK

#p = #tandem.role<param "p">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

// CHECK-LABEL: tandem.kernel @component compute(<component, bf16>)
// CHECK:       attributes {roundings = {bf16 = 3 : i64, f32 = 1 : i64}}
// REMARK:      [[@LINE+1]]:{{[0-9]+}}: remark: kernel 'component' computes in 'bf16': 3 roundings to it for each element
tandem.kernel @component compute(<component, bf16>) tensors [#p] scalars [#tandem.role<hyper "b">] prologue {
^bb0(%b: f64):
  %0 = arith.truncf %b : f64 to f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !bf16, %b: f32):
  %x = tandem.load_plane %p[0] : !bf16 -> bf16
  %wide = arith.extf %x : bf16 to f32
  %product = arith.mulf %b, %wide : f32
  %y = arith.truncf %product : f32 to bf16
  %root = math.sqrt %y : bf16
  %z = arith.addf %root, %x : bf16
  tandem.store_plane %z, %p[0] : bf16, !bf16
  tandem.yield
}

// Exact operations do not count.
// CHECK-LABEL: tandem.kernel @exact compute(<f32, f32>)
// CHECK:       attributes {roundings = {bf16 = 1 : i64, f32 = 1 : i64}}
// REMARK:      [[@LINE+1]]:{{[0-9]+}}: remark: kernel 'exact' computes in 'f32': 1 roundings to it for each element
tandem.kernel @exact compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16):
  %one = arith.constant 1.0 : f32
  %x = tandem.load_plane %p[0] : !bf16 -> bf16
  %wide = arith.extf %x : bf16 to f32
  %negative = arith.negf %wide : f32
  %large = arith.cmpf ogt, %negative, %one : f32
  %chosen = arith.select %large, %negative, %one : f32
  %sign = math.copysign %chosen, %wide : f32
  %least = arith.minimumf %sign, %one : f32
  %sum = arith.addf %least, %wide : f32
  %y = arith.truncf %sum : f32 to bf16
  %bits = arith.bitcast %y : bf16 to i16
  tandem.store_plane %bits, %p[0] : i16, !bf16
  tandem.yield
}
