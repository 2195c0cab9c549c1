// RUN: tandem-opt %s -convert-tandem-to-nvvm -split-input-file -verify-diagnostics

tandem.step @not_widened compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} launches {
  // expected-error @+1 {{a GPU kernel takes at least 2 elements a thread; run -tandem-widen first}}
  tandem.launch main body {
    tandem.yield
  }
}

// -----

tandem.step @not_lowered compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
    // expected-error @+1 {{'tandem.load' is not lowered; run -tandem-apply-policy and -tandem-lower-storage first}}
    %0 = tandem.load %p : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
    tandem.yield
  }
}

// -----

// expected-error @+1 {{kernel 'not_split' has no launches yet; run -tandem-split-phases first}}
tandem.kernel @not_split compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} body {
  tandem.yield
}

// -----

!b = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 256x256, scale = f32>>
tandem.step @narrow compute(<f32, f32>) reductions(1) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction width(4) body {
  ^bb0(%p: !b):
    %x = tandem.load_plane %p[0] : !b -> vector<4xi8>
    %y = arith.extui %x : vector<4xi8> to vector<4xi32>
    // expected-error @+1 {{reduces 256 neighbours, more than a warp's 32 threads have with 4 each; run -tandem-widen with at least width=8}}
    tandem.partial max %y[0] over block : vector<4xi32>
    tandem.yield
  }
  tandem.launch main width(8) body {
  ^bb0(%p: !b):
    tandem.yield
  }
}

// -----

!g = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 256, scale = f32>>
tandem.step @narrow_group compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(4) body {
  ^bb0(%p: !g):
    %x = tandem.load_plane %p[0] : !g -> vector<4xi8>
    %y = arith.extui %x : vector<4xi8> to vector<4xi32>
    // expected-error @+1 {{reduces 256 neighbours, more than a warp's 32 threads have with 4 each}}
    %0 = tandem.reduce max %y group(256) : vector<4xi32>
    tandem.yield
  }
}
