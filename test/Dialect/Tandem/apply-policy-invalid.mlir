// RUN: tandem-opt %s -tandem-apply-policy -split-input-file -verify-diagnostics

#p = #tandem.role<param "p">
!pair = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>

tandem.kernel @not_an_update compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !pair):
  %0 = tandem.load %p : !pair -> f32
  %1 = arith.mulf %0, %0 : f32
  // expected-error @+1 {{the new value of "p" is not made of s + d, b * s + x and b * s with a uniform b, so #tandem.expansion<bf16 x 2> could keep nothing; give it a plain storage}}
  tandem.store %1, %p : f32, !pair
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!pair = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>

tandem.kernel @not_its_own compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !pair):
  %0 = tandem.load %p : !pair -> f32
  %1 = arith.mulf %0, %0 : f32
  // expected-error @+1 {{updates a value that is not a param's or state's own}}
  %2 = tandem.accumulate %1, %0 : f32
  tandem.store %2, %p : f32, !pair
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!pair = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>

tandem.kernel @factor compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !pair):
  %0 = tandem.load %p : !pair -> f32
  // expected-error @+1 {{the factor must be uniform: made only of hyperparameters and literals}}
  %1 = tandem.decay %0 by %0 : f32
  tandem.store %1, %p : f32, !pair
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!plain = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

tandem.kernel @named_among_planes compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !plain):
  %0 = tandem.load %p : !plain -> f32
  // expected-error @+1 {{means real numbers, but the kernel's body already has planes or components; use mcf operations}}
  %1 = tandem.accumulate %0, %0 : f32
  %2 = arith.truncf %1 : f32 to bf16
  tandem.store_plane %2, %p[0] : bf16, !plain
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!plain = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

tandem.kernel @no_result compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !plain):
  %0 = tandem.load %p : !plain -> f32
  // expected-error @+1 {{cannot stand before -tandem-apply-policy}}
  vector.print %0 : f32
  tandem.yield
}
