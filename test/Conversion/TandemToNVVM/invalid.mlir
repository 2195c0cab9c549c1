// RUN: tandem-opt %s -convert-tandem-to-nvvm -split-input-file -verify-diagnostics

// expected-error @+1 {{a GPU kernel takes at least 2 elements a thread; run -tandem-widen first}}
tandem.kernel @not_widened compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} body {
  tandem.yield
}

// -----

tandem.kernel @not_lowered compute(<f32, f32>) width(8) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  // expected-error @+1 {{'tandem.load' is not lowered; run -tandem-apply-policy and -tandem-lower-storage first}}
  %0 = tandem.load %p : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
  tandem.yield
}

// -----

tandem.kernel @not_split compute(<f32, f32>) width(8) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  %0 = arith.constant 1.0 : f32
  // expected-error @+1 {{a reduction over a model ends a launch; run -tandem-split-phases first}}
  %1 = tandem.reduce sum %0 over model : f32
  tandem.yield
}
