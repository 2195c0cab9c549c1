// RUN: tandem-opt %s -tandem-widen=width=8 -verify-diagnostics

#p = #tandem.role<param "p">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

tandem.kernel @no_vector_form compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16):
  %0 = tandem.load_plane %p[0] : !bf16 -> i16
  // expected-error @+1 {{'llvm.intr.ctpop' has no vector form; lower it before -tandem-widen}}
  %1 = llvm.intr.ctpop(%0) : (i16) -> i16
  tandem.yield
}
