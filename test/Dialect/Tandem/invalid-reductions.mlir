// RUN: tandem-opt %s -split-input-file -verify-diagnostics

// Reductions, and the rows and columns that they run along.

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

tandem.kernel @reduce_c1_width compute(<f32, f32>) width(8)
    tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  %0 = tandem.load_plane %p[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> vector<8xi32>
  // expected-error @+1 {{'tandem.reduce' op a group of 4 is smaller than the kernel's width of 8; widen to at most the group}}
  %1 = tandem.reduce max %0 group(4) : vector<8xi32>
  tandem.yield
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
  // expected-error @+1 {{'tandem.reduce' op compares i32 within a group or a block, and behind -tandem-split-phases, got 'f32'}}
  %0 = tandem.reduce max %x group(16) : f32
  return
}

// -----

func.func @partial_c1_max(%x: f32) {
  // expected-error @+1 {{'tandem.partial' op compares i32 within a group or a block, and behind -tandem-split-phases, got 'f32'}}
  tandem.partial max %x[0] over tensor : f32
  return
}

// -----

func.func @reduce_c3_group(%x: f32) {
  // expected-error @+1 {{'tandem.reduce' op sums are over a tensor or the model; a group has its max and min}}
  %0 = tandem.reduce sum %x group(16) : f32
  return
}

// -----

func.func @partial_c1(%x: i32) {
  // expected-error @+1 {{'tandem.partial' op sums up f32, got 'i32'}}
  tandem.partial sum %x[0] over tensor : i32
  return
}

// -----

func.func @partial_c2(%x: i32) {
  // expected-error @+1 {{'tandem.partial' op ends with the launch; a group's reduction is a tandem.reduce}}
  tandem.partial max %x[0] over group : i32
  return
}

// -----

tandem.kernel @partial_c3 compute(<f32, f32>) reductions(1) matrix tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  %0 = tandem.load_plane %p[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
  // expected-error @+1 {{'tandem.partial' op over tensor of a matrix's elements; reduce its rows first}}
  tandem.partial sum %0[0] over tensor : f32
  tandem.yield
}

// -----

tandem.kernel @partial_c3_of_rows compute(<f32, f32>) part(early) reductions(1) matrix per(row) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  %0 = arith.constant 1.0 : f32
  // expected-error @+1 {{'tandem.partial' op over row outside of a matrix's elements}}
  tandem.partial sum %0[0] over row : f32
  tandem.yield
}

// -----

tandem.kernel @kernel_c7_partial compute(<f32, f32>) reductions(1)
    tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f32>>):
  %0 = tandem.load_plane %p[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f32>> -> f32
  // expected-error @+1 {{'tandem.partial' op names reduction 1 of a kernel with reductions(1)}}
  tandem.partial sum %0[1] over tensor : f32
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op has reductions(2147483647), and a kernel has at most 4096}}
tandem.kernel @kernel_c7_many compute(<f32, f32>) reductions(2147483647) tensors [] scalars [] prologue {
  tandem.yield
} body {
  tandem.yield
}

// -----

// expected-error @+1 {{'tandem.kernel' op has reductions(-1), and a kernel has at most 4096}}
tandem.kernel @kernel_c7_negative compute(<f32, f32>) reductions(-1) tensors [] scalars [] prologue {
  tandem.yield
} body {
  tandem.yield
}

// -----

tandem.kernel @kernel_c7_total compute(<f32, f32>) tensors [] scalars [] prologue {
  tandem.yield
} body {
  // expected-error @+1 {{'tandem.total' op names reduction 0 of a kernel with reductions(0)}}
  %0 = tandem.total[0] : f32
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>

tandem.kernel @flat compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  %x = tandem.load %p : !m -> f32
  // expected-error @+1 {{has rows and columns in a kernel that knows none; mark the kernel 'matrix'}}
  %0 = tandem.reduce sum %x over row : f32
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>

tandem.kernel @flat_per_row compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  %x = tandem.load %p : !m -> f32
  // expected-error @+1 {{has rows and columns in a kernel that knows none; mark the kernel 'matrix'}}
  %0 = tandem.reduce sum %x over tensor per row : f32
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>

// expected-error @+1 {{continues a launch, which only a phase over the elements of a matrix does; leave out 'continues'}}
tandem.kernel @of_rows compute(<f32, f32>) part(early) matrix per(row) continues tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>

// expected-error @+1 {{runs per row but is no matrix kernel}}
tandem.kernel @flat compute(<f32, f32>) part(early) per(row) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
#r = #tandem.role<state "r", per = row>
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
!v = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

// expected-error @+1 {{has "r" per row but is no matrix kernel}}
tandem.kernel @flat compute(<f32, f32>) tensors [#p, #r] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m, %r: !v):
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>

tandem.kernel @measured compute(<f32, f32>) matrix tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  %x = arith.constant 1.0 : f64
  // expected-error @+1 {{measures a matrix kernel, which has no metrics; compile it without}}
  tandem.metric %x[0] : f64
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>

tandem.kernel @whole compute(<f32, f32>) reductions(1) matrix tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  // expected-error @+1 {{reads a row's, column's or block's result; that of a tensor is a tandem.total}}
  %0 = tandem.load_total[0] over tensor : f32
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>

tandem.kernel @other_axis compute(<f32, f32>) part(early) reductions(1) matrix per(row) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  // expected-error @+1 {{over column in a part per row}}
  %0 = tandem.load_total[0] over column : f32
  tandem.yield
}

// -----

#p = #tandem.role<param "p">
!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>

tandem.kernel @no_such_total compute(<f32, f32>) reductions(1) matrix tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  // expected-error @+1 {{names reduction 1 of a kernel with reductions(1)}}
  %0 = tandem.load_total[1] over column : f32
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
tandem.kernel @reduce_c4_block compute(<f32, f32>) matrix tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  %0 = arith.constant 0 : i32
  // expected-error @+1 {{'tandem.reduce' op is over a block of a kernel that has none; give the kernel 'block(size)'}}
  %1 = tandem.reduce max %0 over block : i32
  tandem.yield
}

// -----

!m = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
// expected-error @+1 {{'tandem.kernel' op a block is a power of two from 16 to 256, in a matrix kernel, got 24}}
tandem.kernel @kernel_c9 compute(<f32, f32>) matrix block(24) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  tandem.yield
}

// -----

!m = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
// expected-error @+1 {{'tandem.kernel' op a block is a power of two from 16 to 256, in a matrix kernel, got 32}}
tandem.kernel @kernel_c9_flat compute(<f32, f32>) block(32) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  tandem.yield
}

// -----

!m = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 64x64, scale = f32>>
// expected-error @+1 {{'tandem.kernel' op stores "p" in blocks of 64, but its blocks are of 32; the blocks of a kernel are of one size}}
tandem.kernel @kernel_c9_storage compute(<f32, f32>) matrix block(32) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  tandem.yield
}

// -----

!m = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = row, scale = f32>>
// expected-error @+1 {{'tandem.kernel' op stores "p" as #tandem.scaled<#scaled.root, group = row, scale = f32>, whose scales are those of a matrix's rows or blocks; mark the kernel 'matrix' and the role per element}}
tandem.kernel @kernel_c8_scales compute(<f32, f32>) tensors [#tandem.role<param "p">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  tandem.yield
}

// -----

!m = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = row, scale = f32>>
// expected-error @+1 {{mark the kernel 'matrix' and the role per element}}
tandem.kernel @kernel_c8_vector compute(<f32, f32>) matrix tensors [#tandem.role<state "r", per = row>] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  tandem.yield
}

// -----

!t = !tandem.stored<tensor<?x?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>>
// expected-error @+1 {{'tandem.kernel' op stores "y" as #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>, which has a matrix's transpose; mark the kernel 'matrix' and the role per element}}
tandem.kernel @kernel_c8_transposed compute(<f32, f32>) tensors [#tandem.role<output "y">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%y: !t):
  tandem.yield
}
