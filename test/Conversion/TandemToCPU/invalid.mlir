// RUN: tandem-opt %s -convert-tandem-to-cpu -split-input-file -verify-diagnostics

// expected-error @+1 {{kernel 'not_split' has no launches yet; run -tandem-split-phases first}}
tandem.kernel @not_split compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} body {
  tandem.yield
}

// -----

tandem.step @not_lowered compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
  ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
    // expected-error @+1 {{'tandem.load' is not lowered; run -tandem-apply-policy and -tandem-lower-storage first}}
    %0 = tandem.load %p : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
    tandem.yield
  }
}

// -----

tandem.step @one_of_eight compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
    // expected-error @+1 {{takes 1 elements at once in a kernel of width 8; write the kernel with width 1 and run -tandem-widen}}
    %0 = tandem.load_plane %p[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
    tandem.yield
  }
}

// -----

tandem.step @eight_of_one compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
  ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
    // expected-error @+1 {{takes 8 elements at once in a kernel of width 1; write the kernel with width 1 and run -tandem-widen}}
    %0 = tandem.load_plane %p[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> vector<8xf32>
    tandem.yield
  }
}

// -----

tandem.step @one_for_all compute(<f32, f32>) tensors [#tandem.role<param "p">]
    scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>, %seed: i32):
    // expected-error @+1 {{takes 1 elements at once in a kernel of width 8}}
    %0 = tandem.reduce min %seed group(256) : i32
    tandem.yield
  }
}
