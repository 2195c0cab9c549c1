// RUN: tandem-opt %s -split-input-file -verify-diagnostics

// Reductions, and the rows and columns along which they run.

func.func @reduce_c1_power(%x: i32) {
  // expected-error @+1 {{'tandem.reduce' op a group is a power of two from 2 to 256, got 24}}
  %0 = tandem.reduce max %x group(24) : i32
  return
}

// -----

func.func @reduce_c1_range(%x: i32) {
  // expected-error @+1 {{'tandem.reduce' op a group is a power of two from 2 to 256, got 512}}
  %0 = tandem.reduce min %x group(512) : i32
  return
}

// -----

func.func @reduce_c2(%x: i32) {
  // expected-error @+1 {{'tandem.reduce' op over a tensor has no group; leave out 'group(16)'}}
  %0 = tandem.reduce max %x group(16) over tensor : i32
  return
}

// -----

func.func @reduce_c5_block(%x: f32) {
  // expected-error @+1 {{'tandem.reduce' op counts elements, rows or columns, not blocks}}
  %0 = tandem.reduce sum %x over tensor per block : f32
  return
}

// -----

func.func @reduce_c5(%x: f32) {
  // expected-error @+1 {{'tandem.reduce' op over a column is of elements; leave out 'per row'}}
  %0 = tandem.reduce sum %x over column per row : f32
  return
}

// -----

func.func @reduce_c3_sum(%x: i32) {
  // expected-error @+1 {{'tandem.reduce' op sums up f32, got 'i32'}}
  %0 = tandem.reduce sum %x over model : i32
  return
}

// -----

func.func @reduce_c3_max(%x: f32) {
  // expected-error @+1 {{'tandem.reduce' op compares i32 within a group, a block or a launch, got 'f32'; -tandem-split-phases makes i32 of f32}}
  %0 = tandem.reduce max %x group(16) : f32
  return
}

// -----

func.func @reduce_c3_group(%x: f32) {
  // expected-error @+1 {{'tandem.reduce' op sums are over a tensor or the model; a group has its max and min}}
  %0 = tandem.reduce sum %x group(16) : f32
  return
}

// -----

#p = #tandem.role<param "p">
!m = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

tandem.kernel @flat compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  %x = tandem.load %p : !m -> f32
  // expected-error @+1 {{has rows and columns in a kernel of flat tensors; give a tensor two dimensions}}
  %0 = tandem.reduce sum %x over row : f32
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!m = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

tandem.kernel @flat_per_row compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  %x = tandem.load %p : !m -> f32
  // expected-error @+1 {{has rows and columns in a kernel of flat tensors; give a tensor two dimensions}}
  %0 = tandem.reduce sum %x over tensor per row : f32
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>

tandem.kernel @measured compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  %x = arith.constant 1.0 : f64
  // expected-error @+1 {{measures a kernel of matrices, which has no metrics; compile it without}}
  tandem.metric %x[0] : f64
  tandem.yield
}

// -----

func.func @size_c1() {
  // expected-error @+1 {{'tandem.size' op counts elements, rows or columns, not blocks}}
  %0 = tandem.size per block : i64
  return
}

// -----

func.func @reduce_c3_block(%x: f32) {
  // expected-error @+1 {{'tandem.reduce' op sums are over rows, columns, a tensor or the model; a block has its max and min}}
  %0 = tandem.reduce sum %x over block : f32
  return
}

// -----

!m = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
tandem.kernel @reduce_c4_block compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  %0 = arith.constant 0 : i32
  // expected-error @+1 {{'tandem.reduce' op is over a block of a kernel that has none; store a tensor in blocks, such as group = 64x64}}
  %1 = tandem.reduce max %0 over block : i32
  tandem.yield
}

// -----

!wide = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 64x64, scale = f32>>
!narrow = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 32x32, scale = f32>>
// expected-error @+1 {{'tandem.kernel' op stores "s" in blocks of 32 rows, but another tensor in blocks of 64; the blocks of a kernel are of one size}}
tandem.kernel @kernel_c7 compute(<f32, f32>) tensors [#tandem.role<param "p">, #tandem.role<state "s">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !wide, %s: !narrow):
  tandem.yield
}

// -----

!m = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = row, scale = f32>>
// expected-error @+1 {{'tandem.kernel' op stores "r" as #tandem.scaled<#scaled.root, group = row, scale = f32>, whose scales are those of a matrix's rows or blocks; give it an entry per element}}
tandem.kernel @kernel_c6_scales compute(<f32, f32>) tensors [#tandem.role<state "r", per = row>] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  tandem.yield
}

// -----

!t = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>>
// expected-error @+1 {{'tandem.kernel' op stores "y" as #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>, which has a matrix's transpose; give it an entry per element}}
tandem.kernel @kernel_c6_transposed compute(<f32, f32>) tensors [#tandem.role<output "y", per = row>] scalars [] prologue {
  tandem.yield
} body {
^bb0(%y: !t):
  tandem.yield
}
