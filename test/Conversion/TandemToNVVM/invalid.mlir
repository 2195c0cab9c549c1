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

// -----

!b = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 256x256, scale = f32>>
tandem.kernel @narrow compute(<f32, f32>) width(4) part(early) reductions(1) matrix block(256) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !b):
  %x = tandem.load_plane %p[0] : !b -> vector<4xi8>
  %y = arith.extui %x : vector<4xi8> to vector<4xi32>
  // expected-error @+1 {{reduces 256 neighbours, more than a warp's 32 threads have with 4 each; run -tandem-widen with at least width=8}}
  tandem.partial max %y[0] over block : vector<4xi32>
  tandem.yield
}

// -----

!g = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 256, scale = f32>>
tandem.kernel @narrow_group compute(<f32, f32>) width(4) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !g):
  %x = tandem.load_plane %p[0] : !g -> vector<4xi8>
  %y = arith.extui %x : vector<4xi8> to vector<4xi32>
  // expected-error @+1 {{reduces 256 neighbours, more than a warp's 32 threads have with 4 each}}
  %0 = tandem.reduce max %y group(256) : vector<4xi32>
  tandem.yield
}

// -----

// expected-error @+1 {{continues a launch, but is behind no phase; leave out 'continues'}}
tandem.kernel @behind_nothing compute(<f32, f32>) width(8) matrix continues tensors [] scalars [] prologue {
  tandem.yield
} body {
  tandem.yield
}
