// RUN: tandem-opt %s -tandem-split-phases -tandem-widen=width=8 -split-input-file -verify-diagnostics

#p = #tandem.role<param "p">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

tandem.kernel @no_vector_form compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16):
  %0 = tandem.load_plane %p[0] : !bf16 -> i16
  // expected-error @+1 {{'llvm.intr.ctpop' has no vector form; lower it before -tandem-widen}}
  %1 = llvm.intr.ctpop(%0) : (i16) -> i16
  tandem.store_plane %1, %p[0] : i16, !bf16
  tandem.yield
}

// -----

!scaled = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 32, scale = f16>>

tandem.kernel @one_entry_for_many compute(<f32, f32>) tensors [#tandem.role<param "p">]
    scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !scaled):
  %0 = tandem.load_plane %p[0] : !scaled -> i8
  %1 = arith.extui %0 : i8 to i16
  // expected-error @+1 {{'tandem.store_plane' op one entry for a group gets a value that differs between the group's elements}}
  tandem.store_plane %1, %p[1] : i16, !scaled
  tandem.yield
}

// -----

tandem.step @twice compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  // expected-error @+1 {{has width 4 already; run -tandem-widen once}}
  tandem.launch main width(4) body {
  ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>):
    %0 = tandem.load_plane %p[0] : !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> -> vector<4xbf16>
    tandem.yield
  }
}
