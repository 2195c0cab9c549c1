// RUN: tandem-opt %s -convert-tandem-to-cpu -verify-diagnostics

tandem.kernel @not_lowered compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  // expected-error @+1 {{'tandem.load' is not lowered; run -tandem-apply-policy and -tandem-lower-storage first}}
  %0 = tandem.load %p : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
  tandem.yield
}
