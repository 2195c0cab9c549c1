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
