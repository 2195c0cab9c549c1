// RUN: tandem-opt %s -split-input-file -verify-diagnostics

tandem.strategy @strategy_c1 compute(<f32, f32>) {
  // expected-error @+1 {{'arith.constant' op does not belong in a strategy; it holds only tandem.assign}}
  %0 = arith.constant 1.0 : f32
}

// -----

tandem.strategy @assign_c1 compute(<f32, f32>) {
  // expected-error @+1 {{'tandem.assign' op stores a param, grad, state, input, output or what is saved, sent or received, not a hyper}}
  tandem.assign hyper = #tandem.float<f32>
}

// -----

tandem.strategy @assign_c2 compute(<f32, f32>) {
  // expected-error @+1 {{'tandem.assign' op only a state has a moment}}
  tandem.assign param moment(first) = #tandem.float<f32>
}

// -----

tandem.strategy @assign_c3 compute(<f32, f32>) {
  // expected-error @+1 {{'tandem.assign' op only what is saved, an input or an output has a consumer}}
  tandem.assign param consumer(linear) = #tandem.float<f32>
}

// -----

tandem.strategy @assign_c4 compute(<f32, f32>) {
  // expected-error @+1 {{'tandem.assign' op only an input or an output has a flow}}
  tandem.assign saved flow(gradient) = #tandem.float<f32>
}

// -----

// expected-error @+1 {{'tandem.keep_outputs' op names @missing, which is not a function of this module}}
tandem.keep_outputs @missing

// -----

func.func @decode_c1(%p: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>) {
  // expected-error @+1 {{'tandem.decode' op value must be 'tensor<?xf32>' as stored, got 'tensor<?xbf16>'}}
  %0 = tandem.decode %p : !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> -> tensor<?xbf16>
  return
}

// -----

func.func @encode_c1(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tandem.encode' op value must be 'tensor<?xf32>' as stored, got 'tensor<4xf32>'}}
  %0 = tandem.encode %x : tensor<4xf32> -> !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
  return
}

// -----

func.func @update_types(%s: tensor<?xbf16>) {
  // expected-error @+1 {{must be f32, or a tensor or vector of f32, but got 'tensor<?xbf16>'}}
  %0 = tandem.accumulate %s, %s : tensor<?xbf16>
  return
}

// -----

// expected-error @+1 {{'tandem.kernel' op has 2 tensor roles, but its body has only 1 arguments}}
tandem.kernel @kernel_c1_count compute(<f32, f32>)
    tensors [#tandem.role<param "p">, #tandem.role<grad "g">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op tensor role expected, got #tandem.role<step "t">}}
tandem.kernel @kernel_c1_role compute(<f32, f32>) tensors [#tandem.role<step "t">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op attribute 'tensor_roles' failed to satisfy constraint: array of #tandem.role}}
tandem.kernel @kernel_tensor_roles compute(<f32, f32>) tensors ["p"] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op attribute 'scalar_roles' failed to satisfy constraint: array of #tandem.role}}
tandem.kernel @kernel_scalar_roles compute(<f32, f32>) tensors [] scalars [1.0 : f64] prologue {
^bb0(%lr: f64):
  tandem.yield
} body {
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op body argument 0 must be a stored tensor, got 'f32'}}
tandem.kernel @kernel_c1_stored compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: f32):
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op body arguments after the tensors must be what the prologue yields}}
tandem.kernel @kernel_c1_uniforms compute(<f32, f32>) tensors [] scalars [#tandem.role<hyper "lr">] prologue {
^bb0(%lr: f64):
  %0 = arith.truncf %lr : f64 to f32
  tandem.yield %0 : f32
} body {
^bb0(%neg_lr: bf16):
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op has 1 scalar roles, but its prologue has 0 arguments}}
tandem.kernel @kernel_c2_count compute(<f32, f32>) tensors [] scalars [#tandem.role<hyper "lr">] prologue {
  tandem.yield
} body {
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op scalar role expected, got #tandem.role<grad "g">}}
tandem.kernel @kernel_c2_role compute(<f32, f32>) tensors [] scalars [#tandem.role<grad "g">] prologue {
^bb0(%g: f64):
  tandem.yield
} body {
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op scalar 'lr' must be f64 in the prologue, got 'f32'}}
tandem.kernel @kernel_c2_hyper compute(<f32, f32>) tensors [] scalars [#tandem.role<hyper "lr">] prologue {
^bb0(%lr: f32):
  tandem.yield
} body {
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op scalar 't' must be i64 in the prologue, got 'f64'}}
tandem.kernel @kernel_c2_step compute(<f32, f32>) tensors [] scalars [#tandem.role<step "t">] prologue {
^bb0(%t: f64):
  tandem.yield
} body {
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op a uniform value must be f32, bf16, f16, f8E4M3FN, f8E5M2 or i32, got 'f64'}}
tandem.kernel @kernel_c3 compute(<f32, f32>) tensors [] scalars [#tandem.role<hyper "lr">] prologue {
^bb0(%lr: f64):
  tandem.yield %lr : f64
} body {
^bb0(%wide_lr: f64):
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op stores "p" as #tandem.master<bf16>, which cannot be computed under the component policy of 'bf16'}}
tandem.kernel @kernel_c4 compute(<component, bf16>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.master<bf16>>):
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op its prologue must end with tandem.yield}}
tandem.kernel @kernel_terminator compute(<f32, f32>) tensors [] scalars [] prologue {
  llvm.unreachable
} body {
  tandem.yield
}

// -----

tandem.kernel @load_c1 compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>):
  // expected-error @+1 {{'tandem.load' op value must be f32 or what the storage decodes to under the kernel's policy, got 'bf16'}}
  %0 = tandem.load %p : !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> -> bf16
  tandem.yield
}

// -----

tandem.kernel @store_c1 compute(<component, bf16>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>):
  %0 = arith.constant 0.0 : bf16
  // expected-error @+1 {{'tandem.store' op value must be f32 or what the storage decodes to under the kernel's policy, got 'bf16'}}
  tandem.store %0, %p : bf16, !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>
  tandem.yield
}

// -----

func.func @load_plane_c1(%p: !tandem.stored<tensor<?xf32>, #tandem.kahan<bf16>>) {
  // expected-error @+1 {{'tandem.load_plane' op plane 2 does not exist; '!tandem.stored<tensor<?xf32>, #tandem.kahan<bf16>>' has 2}}
  %0 = tandem.load_plane %p[2] : !tandem.stored<tensor<?xf32>, #tandem.kahan<bf16>> -> bf16
  return
}

// -----

func.func @load_plane_c2(%p: !tandem.stored<tensor<?xf32>, #tandem.master<bf16>>) {
  // expected-error @+1 {{'tandem.load_plane' op plane 1 holds 'f32', got 'bf16'}}
  %0 = tandem.load_plane %p[1] : !tandem.stored<tensor<?xf32>, #tandem.master<bf16>> -> bf16
  return
}

// -----

func.func @store_plane_c1(%x: i16, %p: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>) {
  // expected-error @+1 {{'tandem.store_plane' op plane -1 does not exist; '!tandem.stored<tensor<?xf32>, #tandem.float<bf16>>' has 1}}
  tandem.store_plane %x, %p[-1] : i16, !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
  return
}

// -----

func.func @store_plane_c2(%x: vector<8xf32>, %p: !tandem.stored<tensor<?xf32>, #tandem.remainder>) {
  // expected-error @+1 {{'tandem.store_plane' op plane 1 holds 'i16', got 'vector<8xf32>'}}
  tandem.store_plane %x, %p[1] : vector<8xf32>, !tandem.stored<tensor<?xf32>, #tandem.remainder>
  return
}

// -----

func.func @raise_c1(%c: i1) {
  // expected-error @+1 {{'tandem.set_flag' op attribute 'flag' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative whose maximum value is 31}}
  tandem.set_flag %c[32] : i1
  return
}

// -----

tandem.kernel @store_c2 compute(<f32, f32>) tensors [#tandem.role<grad "g">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%g: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  %0 = tandem.load %g : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
  // expected-error @+1 {{'tandem.store' op writes grad "g"; a kernel writes params, states, outputs and what it saves}}
  tandem.store %0, %g : f32, !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
  tandem.yield
}

// -----

tandem.kernel @store_plane_c3 compute(<f32, f32>) tensors [#tandem.role<grad "g">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%g: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  %0 = tandem.load_plane %g[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
  // expected-error @+1 {{'tandem.store_plane' op writes grad "g"; a kernel writes params, states, outputs and what it saves}}
  tandem.store_plane %0, %g[0] : f32, !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
  tandem.yield
}

// -----

tandem.kernel @kernel_c5 compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  %0 = arith.constant 1.0 : f64
  tandem.metric %0[1] : f64
  // expected-error @+1 {{'tandem.metric' op adds to sum 1, as another does; add their values first}}
  tandem.metric %0[1] : f64
  tandem.yield
}

// -----

tandem.kernel @kernel_c5_many compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} body {
  %0 = arith.constant 1.0 : f64
  // expected-error @+1 {{'tandem.metric' op adds to sum 4096; a kernel has at most 4096, numbered from 0}}
  tandem.metric %0[4096] : f64
  tandem.yield
}

// -----

!delayed = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = tensor, scale = f32, history = 4>>
func.func @load_plane_c4(%p: !delayed) {
  // expected-error @+1 {{'tandem.load_plane' op plane 3 is a history; use tandem.load_history and tandem.push_history}}
  %0 = tandem.load_plane %p[3] : !delayed -> f32
  return
}

// -----

!delayed = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = tensor, scale = f32, history = 4>>
func.func @store_plane_c4(%x: f32, %p: !delayed) {
  // expected-error @+1 {{'tandem.store_plane' op plane 3 is a history; use tandem.load_history and tandem.push_history}}
  tandem.store_plane %x, %p[3] : f32, !delayed
  return
}

// -----

!delayed = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = tensor, scale = f32, history = 4>>
func.func @recall_c1_missing(%p: !delayed) {
  // expected-error @+1 {{'tandem.load_history' op plane 4 does not exist}}
  %0 = tandem.load_history %p[4] : !delayed
  return
}

// -----

func.func @recall_c1(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>) {
  // expected-error @+1 {{'tandem.load_history' op plane 0 of '!tandem.stored<tensor<?xf32>, #tandem.float<f32>>' is not a history; use tandem.load_plane and tandem.store_plane}}
  %0 = tandem.load_history %p[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
  return
}

// -----

func.func @remember_c1(%x: i32, %p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>) {
  // expected-error @+1 {{'tandem.push_history' op plane 0 of '!tandem.stored<tensor<?xf32>, #tandem.float<f32>>' is not a history}}
  tandem.push_history %x, %p[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
  return
}

// -----

!delayed = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = tensor, scale = f32, history = 4>>
tandem.kernel @remember_c2 compute(<f32, f32>) tensors [#tandem.role<grad "g">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%g: !delayed):
  %0 = arith.constant 0 : i32
  // expected-error @+1 {{'tandem.push_history' op writes grad "g"; a kernel writes params, states, outputs and what it saves}}
  tandem.push_history %0, %g[3] : !delayed
  tandem.yield
}

// -----

func.func @saturation_c1(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f8E4M3FN>>) {
  // expected-error @+1 {{'tandem.saturation' op #tandem.float<f8E4M3FN> has no codes that could saturate}}
  tandem.saturation %p : !tandem.stored<tensor<?xf32>, #tandem.float<f8E4M3FN>>
  return
}

// -----

func.func @visible_c1(%x: tensor<?xf32> {tandem.role = #tandem.role<input "x">}) {
  // expected-error @+1 {{'tandem.visible' op is of a param or a state, which a framework reads after the step; name an argument of the graph}}
  %0 = tandem.visible %x of %x : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
  return
}

// -----

!coded = !tandem.stored<tensor<?xf32>, #tandem.coded<#scaled.float<f8E4M3FN>>>

tandem.kernel @visible_c2 compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !coded):
  %0 = tandem.load %p : !coded -> f32
  // expected-error @+1 {{'tandem.visible' op #tandem.coded<#scaled.float<f8E4M3FN>> has no plane of floats that a framework computes with; wrap it in #tandem.working}}
  %1 = tandem.visible %0 of %p : f32, !coded -> f32
  tandem.yield
}

// -----

!plain = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

tandem.kernel @visible_c3 compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !plain):
  %0 = tandem.load %p : !plain -> f32
  // expected-error @+1 {{'tandem.visible' op gives 'f32', got 'bf16'}}
  %1 = tandem.visible %0 of %p : f32, !plain -> bf16
  tandem.yield
}

// -----

!plain = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

tandem.kernel @visible_value compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !plain):
  %0 = tandem.load_plane %p[0] : !plain -> bf16
  // expected-error @+1 {{'tandem.visible' op value must be f32 or what the storage decodes to under the kernel's policy, got 'bf16'}}
  %1 = tandem.visible %0 of %p : bf16, !plain -> f32
  tandem.yield
}

// -----

func.func @lookup_c1(%x: i8) {
  // expected-error @+1 {{'tandem.lookup' op takes one index of 256 entries or two of 256 each, got 1 for 'tensor<16xf32>'}}
  %0 = tandem.lookup[%x] in dense<0.0> : tensor<16xf32> : i8 -> f32
  return
}

// -----

func.func @lookup_c1_shape(%x: i8) {
  // expected-error @+1 {{'tandem.lookup' op takes one index of 256 entries or two of 256 each, got 2 for 'tensor<256xf32>'}}
  %0 = tandem.lookup[%x, %x] in dense<0.0> : tensor<256xf32> : i8, i8 -> f32
  return
}

// -----

func.func @lookup_c2(%x: i8) {
  // expected-error @+1 {{'tandem.lookup' op gives what the table holds, 'bf16', not 'f32'}}
  %0 = tandem.lookup[%x] in dense<0.0> : tensor<256xbf16> : i8 -> f32
  return
}

// -----

func.func @save_per_row(%x: tensor<?x?xf32> {tandem.role = #tandem.role<input "x">}) {
  // expected-error @+1 {{'tandem.save' op has an entry per row; that is row or column, of a tensor with one dimension, got 'tensor<?x?xf32>'}}
  tandem.save %x as "x" per(row) : tensor<?x?xf32>
  return
}

// -----

func.func @save_per_block(%x: tensor<?xf32> {tandem.role = #tandem.role<input "x">}) {
  // expected-error @+1 {{'tandem.save' op has an entry per block; that is row or column, of a tensor with one dimension, got 'tensor<?xf32>'}}
  tandem.save %x as "x" per(block) : tensor<?xf32>
  return
}

// -----

!t = !tandem.stored<tensor<?x?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>>
// expected-error @+1 {{'tandem.kernel' op stores input "x" as #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>, whose transposed copy is written for matrix products; only an output and what is saved have one}}
tandem.kernel @kernel_c8 compute(<f32, f32>) tensors [#tandem.role<input "x">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%x: !t):
  tandem.yield
}

// -----

!t = !tandem.stored<tensor<?x?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>>
tandem.kernel @load_plane_c5 compute(<f32, f32>) tensors [#tandem.role<output "y">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%y: !t):
  // expected-error @+1 {{'tandem.load_plane' op plane 2 is a transposed copy, which nothing reads; load plane 0}}
  %0 = tandem.load_plane %y[2] : !t -> i8
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!f = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

tandem.kernel @load_behind_store compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f):
  %x = tandem.load %p : !f -> f32
  tandem.store %x, %p : f32, !f
  // expected-error @+1 {{'tandem.load' op reads a tensor after it is written, but all elements read the old values; move the read before the write}}
  %y = tandem.load %p : !f -> f32
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!f = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>

tandem.kernel @plane_behind_store compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f):
  %x = tandem.load_plane %p[0] : !f -> bf16
  tandem.store_plane %x, %p[0] : bf16, !f
  %y = tandem.load_plane %p[1] : !f -> bf16
  tandem.store_plane %y, %p[1] : bf16, !f
  // expected-error @+1 {{'tandem.load_plane' op reads a tensor after it is written, but all elements read the old values; move the read before the write}}
  %z = tandem.load_plane %p[1] : !f -> bf16
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!f = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

tandem.kernel @store_in_front_of_plane compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f):
  %x = arith.constant 1.0 : f32
  tandem.store %x, %p : f32, !f
  // expected-error @+1 {{'tandem.load_plane' op reads a tensor after it is written, but all elements read the old values; move the read before the write}}
  %y = tandem.load_plane %p[0] : !f -> f32
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!f = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

tandem.kernel @plane_in_front_of_load compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f):
  %x = arith.constant 1.0 : f32
  tandem.store_plane %x, %p[0] : f32, !f
  // expected-error @+1 {{'tandem.load' op reads a tensor after it is written, but all elements read the old values; move the read before the write}}
  %y = tandem.load %p : !f -> f32
  tandem.yield
}
