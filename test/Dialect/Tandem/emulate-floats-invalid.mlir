// RUN: tandem-opt %s -tandem-emulate-floats=formats=bf16 -verify-diagnostics

!pair = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>

tandem.step @not_lowered compute(<component, bf16>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
  ^bb0(%p: !pair):
    %hi = tandem.load_plane %p[0] : !pair -> bf16
    %lo = tandem.load_plane %p[1] : !pair -> bf16
    // expected-error @+1 {{'mcf.pack' has no form in f32 lanes; lower it before -tandem-emulate-floats}}
    %x = mcf.pack %hi, %lo : !mcf.expansion<bf16 x 2>
    tandem.yield
  }
}
