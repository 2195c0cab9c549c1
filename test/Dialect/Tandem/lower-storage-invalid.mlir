// RUN: tandem-opt %s -tandem-lower-storage -split-input-file -verify-diagnostics

!w = !tandem.stored<tensor<?xf32>, #tandem.coded<#scaled.root>>

tandem.kernel @nothing_stored compute(<f32, f32>) tensors [#tandem.role<param "w">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%w: !w):
  // expected-error @+1 {{counts what a store before it has made, but there is no tandem.store to its tensor}}
  tandem.saturation %w : !w
  tandem.yield
}

// -----

!w = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>

tandem.kernel @change_of_nothing_stored compute(<f32, f32>) tensors [#tandem.role<param "w">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%w: !w):
  %0 = tandem.load %w : !w -> f32
  %d = arith.constant 0.25 : f64
  // expected-error @+1 {{measures the change between a tandem.load and a tandem.store of its tensor, which has not both}}
  tandem.measure_update %d, %w : f64, !w
  tandem.yield
}

// -----

!w = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>

tandem.kernel @change_of_nothing_loaded compute(<f32, f32>) tensors [#tandem.role<param "w">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%w: !w):
  %0 = arith.constant 1.0 : f32
  tandem.store %0, %w : f32, !w
  %d = arith.constant 0.25 : f64
  // expected-error @+1 {{measures the change between a tandem.load and a tandem.store of its tensor, which has not both}}
  tandem.measure_update %d, %w : f64, !w
  tandem.yield
}
