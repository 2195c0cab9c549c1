// RUN: tandem-opt %s -tandem-add-metrics -split-input-file -verify-diagnostics

#p = #tandem.role<param "p">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

tandem.kernel @no_update compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16):
  %0 = tandem.load %p : !bf16 -> f32
  %1 = arith.mulf %0, %0 : f32
  // expected-error @+1 {{its value is not made of s + d, b * s + x and b * s, so there is no intended update to measure}}
  tandem.store %1, %p : f32, !bf16
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

tandem.kernel @factor_per_element compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16):
  %0 = tandem.load %p : !bf16 -> f32
  // expected-error @+1 {{the factor must be uniform: made only of hyperparameters and literals}}
  %1 = tandem.decay %0 by %0 : f32
  tandem.store %1, %p : f32, !bf16
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
#s = #tandem.role<state "s">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

// The update belongs to a different tensor.
tandem.kernel @another_tensor compute(<component, bf16>) tensors [#p, #s] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16, %s: !bf16):
  %0 = tandem.load %s : !bf16 -> f32
  %1 = tandem.accumulate %0, %0 : f32
  // expected-error @+1 {{so there is no intended update to measure}}
  tandem.store %1, %p : f32, !bf16
  tandem.yield
}
