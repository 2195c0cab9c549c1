// RUN: my-tandem-opt %s -count-roundings -split-input-file -verify-diagnostics

#p = #tandem.role<param "p">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
tandem.kernel @real compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16):
  // expected-error @+1 {{the roundings of 'tandem.load' are not spelled out yet; run -tandem-to-kernel on the graph of kernel 'real' before -count-roundings}}
  %x = tandem.load %p : !bf16 -> f32
  tandem.store %x, %p : f32, !bf16
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!pair = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>
tandem.kernel @expansion compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !pair):
  %high = tandem.load_plane %p[0] : !pair -> bf16
  // expected-error @+1 {{the roundings of 'mcf.two_sum' are not spelled out yet}}
  %sum = mcf.two_sum %high, %high : !mcf.expansion<bf16 x 2>
  tandem.yield
}
