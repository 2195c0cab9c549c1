// RUN: tandem-opt %s -split-input-file -verify-diagnostics -tandem-split-phases

// expected-error @+1 {{an external step receives without sending, or sends what depends on what it receives}}
tandem.kernel @cycle compute(<f32, f32>) tensors [#tandem.role<param "p">, #tandem.role<sent "x", external = "f", format = f32>, #tandem.role<received "y", external = "f", format = f32>] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>, %x: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>, %y: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  %0 = tandem.load_plane %y[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> i32
  tandem.store_plane %0, %x[0] : i32, !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
  tandem.store_plane %0, %p[0] : i32, !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
  tandem.yield
}

// -----

// expected-error @+1 {{an external step receives without sending, or sends what depends on what it receives}}
tandem.kernel @nothing_sent compute(<f32, f32>) tensors [#tandem.role<param "p">, #tandem.role<received "y", external = "f", format = f32>] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>, %y: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  %0 = tandem.load_plane %y[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> i32
  tandem.store_plane %0, %p[0] : i32, !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
  tandem.yield
}

// -----

tandem.step @main_has_externals compute(<f32, f32>) tensors [#tandem.role<param "p">, #tandem.role<sent "x", external = "f", format = f32>] scalars [] prologue {
  tandem.yield
} launches {
  // expected-error @+1 {{'tandem.launch' op has externals, which come after a reduction; a main launch is followed by none}}
  tandem.launch main externals ["f"] body {
  ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>, %x: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
    tandem.yield
  }
}

// -----

tandem.step @unknown compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} launches {
  // expected-error @+1 {{'tandem.launch' op is followed by the external step "f", to which no tensor of the step is sent}}
  tandem.launch reduction externals ["f"] body {
  ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
    tandem.yield
  }
  tandem.launch main body {
  ^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
    tandem.yield
  }
}
