// RUN: tandem-opt %s -tandem-split-phases -split-input-file -verify-diagnostics | FileCheck %s

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
!v = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">
#r = #tandem.role<state "r", per = row>
#c = #tandem.role<state "c", per = column>

// One phase computes sums along rows and columns. Values that differ only
// between rows are summed by a phase that processes each row once, after its
// elements, in a separate launch.
// CHECK:       tandem.step @means compute(<f32, f32>) reductions(3) tensors
// CHECK:       tandem.launch reduction body
// CHECK:         %[[X:.+]] = tandem.load_plane %arg0[0]
// CHECK-NEXT:    tandem.partial sum %[[X]][0] over row : f32
// CHECK-NEXT:    tandem.partial sum %[[X]][1] over column : f32
// CHECK-NEXT:    tandem.yield
// CHECK-NEXT:  }{{$}}

// CHECK:       tandem.launch reduction per(row) body
// CHECK:         %[[R:.+]] = tandem.load_plane %arg1[0]
// CHECK-NEXT:    %[[SUM:.+]] = tandem.load_reduction_result[0] over row : f32
// CHECK-NEXT:    %[[NEW:.+]] = arith.addf %[[R]], %[[SUM]] : f32
// CHECK-NEXT:    tandem.partial sum %[[NEW]][2] over tensor : f32
// CHECK-NEXT:    tandem.yield
// CHECK-NEXT:  }{{$}}

// CHECK:       tandem.launch main body
// CHECK:         %[[TOTAL:.+]] = tandem.reduction_result[2] : f32
// CHECK-NEXT:    %[[Y:.+]] = arith.divf %{{.+}}, %[[TOTAL]] : f32
// CHECK-NEXT:    tandem.store_plane %[[Y]], %arg0[0]
// CHECK-NEXT:    tandem.yield
// CHECK-NEXT:  }{{$}}

// Entries per row and per column are written once no launch reads them.
// CHECK:       tandem.launch epilogue per(row) body
// CHECK:         %[[SUM:.+]] = tandem.load_reduction_result[0] over row : f32
// CHECK:         tandem.store_plane %{{.+}}, %arg1[0]
// CHECK-NEXT:    tandem.yield

// CHECK:       tandem.launch epilogue per(column) body
// CHECK:         %[[SUM:.+]] = tandem.load_reduction_result[1] over column : f32
// CHECK-NEXT:    tandem.store_plane %[[SUM]], %arg2[0]
// CHECK-NEXT:    tandem.yield
tandem.kernel @means compute(<f32, f32>) tensors [#p, #r, #c] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m, %r: !v, %c: !v):
  %x = tandem.load_plane %p[0] : !m -> f32
  %old = tandem.load_plane %r[0] : !v -> f32
  %row = tandem.reduce sum %x over row : f32
  %column = tandem.reduce sum %x over column : f32
  %new = arith.addf %old, %row : f32
  %total = tandem.reduce sum %new over tensor per row : f32
  %y = arith.divf %x, %total : f32
  tandem.store_plane %y, %p[0] : f32, !m
  tandem.store_plane %new, %r[0] : f32, !v
  tandem.store_plane %column, %c[0] : f32, !v
  tandem.yield
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">

// All elements of a matrix are reduced along rows first.
// CHECK:       tandem.step @norm compute(<f32, f32>)
// CHECK:       tandem.launch reduction body
// CHECK:         tandem.partial sum %{{.+}}[0] over row : f32
// CHECK:       tandem.launch reduction per(row) body
// CHECK:         %[[ROW:.+]] = tandem.load_reduction_result[0] over row : f32
// CHECK-NEXT:    tandem.partial sum %[[ROW]][1] over model : f32
// CHECK-NEXT:    tandem.yield
// CHECK-NEXT:  }{{$}}
// CHECK:       tandem.launch main body
// CHECK:         tandem.reduction_result[1] : f32
tandem.kernel @norm compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  %x = tandem.load_plane %p[0] : !m -> f32
  %sum = tandem.reduce sum %x over model : f32
  %y = arith.divf %x, %sum : f32
  tandem.store_plane %y, %p[0] : f32, !m
  tandem.yield
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
!v = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">
#r = #tandem.role<state "r", per = row>

tandem.kernel @elements_per_row compute(<f32, f32>) tensors [#p, #r] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m, %r: !v):
  %x = tandem.load_plane %p[0] : !m -> f32
  // expected-error @+1 {{'tandem.reduce' op counts once per row what differs between its elements; leave out 'per row'}}
  %sum = tandem.reduce sum %x over tensor per row : f32
  tandem.store_plane %sum, %r[0] : f32, !v
  tandem.yield
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
!v = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">
#r = #tandem.role<state "r", per = row>

tandem.kernel @element_in_row compute(<f32, f32>) tensors [#p, #r] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m, %r: !v):
  // expected-error @+1 {{differs between the elements of a row, but an entry that all of them share depends on it}}
  %x = tandem.load_plane %p[0] : !m -> f32
  tandem.store_plane %x, %r[0] : f32, !v
  tandem.yield
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
!v = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">
#c = #tandem.role<state "c", per = column>

// A maximum does not depend on how often an entry counts, but a sum does.
// CHECK:       tandem.step @largest compute(<f32, f32>)
// CHECK:       tandem.launch reduction body
// CHECK:         %[[Y:.+]] = tandem.load_plane %arg1[0]
// CHECK-NEXT:    tandem.partial sum %[[Y]][0] over row : f32
// CHECK-NEXT:    tandem.yield
// CHECK:       tandem.launch reduction per(row) body
// CHECK:         tandem.partial sum %{{.+}}[1] over tensor : f32
// CHECK-NEXT:    tandem.yield
// CHECK:       tandem.launch reduction per(column) body
// CHECK:         tandem.partial max %{{.+}}[2] over tensor : i32
// CHECK-NEXT:    tandem.yield
tandem.kernel @largest compute(<f32, f32>) tensors [#p, #c] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m, %c: !v):
  %x = tandem.load_plane %p[0] : !m -> f32
  %y = tandem.load_plane %c[0] : !v -> f32
  %sum = tandem.reduce sum %y over tensor : f32
  %scaled = arith.mulf %y, %sum : f32
  %max = tandem.reduce max %scaled over tensor : f32
  %z = arith.mulf %x, %max : f32
  tandem.store_plane %z, %p[0] : f32, !m
  tandem.yield
}

// -----

!b = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 64x64, scale = f32>>
!r = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = row, scale = f32>>
#p = #tandem.role<param "p">
#s = #tandem.role<state "s">

// Scales of rows and blocks are written after their elements are read.
// CHECK:       tandem.step @scales compute(<f32, f32>) reductions(2) tensors
// CHECK:       tandem.launch reduction body
// CHECK:         tandem.partial max %{{.+}}[0] over block : i32
// CHECK:         tandem.partial max %{{.+}}[1] over row : i32
// CHECK:       tandem.launch main fused_with_previous body
// CHECK:         %[[BLOCK:.+]] = tandem.load_reduction_result[0] over block : i32
// CHECK-NOT:     tandem.store_plane %{{.+}}, %arg0[1]
// CHECK:         tandem.load_reduction_result[1] over row : i32
// CHECK-NOT:     tandem.store_plane %{{.+}}, %arg1[1]
// CHECK:       tandem.launch epilogue per(row) body
// CHECK:         %[[ROW:.+]] = tandem.load_reduction_result[1] over row : i32
// CHECK-NEXT:    tandem.store_plane %[[ROW]], %arg1[1]
// CHECK-NEXT:    tandem.yield
// CHECK:       tandem.launch epilogue per(block) body
// CHECK:         %[[BLOCK:.+]] = tandem.load_reduction_result[0] over block : i32
// CHECK-NEXT:    tandem.store_plane %[[BLOCK]], %arg0[1]
// CHECK-NEXT:    tandem.yield
tandem.kernel @scales compute(<f32, f32>) tensors [#p, #s] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !b, %s: !r):
  %x = tandem.load_plane %p[0] : !b -> i8
  %y = arith.extui %x : i8 to i32
  %0 = tandem.reduce max %y over block : i32
  tandem.store_plane %0, %p[1] : i32, !b
  %a = arith.trunci %0 : i32 to i8
  tandem.store_plane %a, %p[0] : i8, !b
  %1 = tandem.reduce max %y over row : i32
  tandem.store_plane %1, %s[1] : i32, !r
  %b = arith.trunci %1 : i32 to i8
  tandem.store_plane %b, %s[0] : i8, !r
  tandem.yield
}

// -----

!b = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 64x64, scale = f32>>
!r = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = row, scale = f32>>

tandem.kernel @row_in_block compute(<f32, f32>) tensors [#tandem.role<param "p">, #tandem.role<state "s">] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !b, %s: !r):
  // expected-error @+1 {{differs between the elements of a block, but an entry that all of them share depends on it}}
  %x = tandem.load_plane %s[1] : !r -> i32
  tandem.store_plane %x, %p[1] : i32, !b
  tandem.yield
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
!c = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

// Sums of rows are known after a launch has processed the rows, those of
// columns when it has ended. So the second phase is fused with the first,
// whatever its column sums, the third one begins a new launch, and the last
// one, which reads no more column sums than the third, is fused with it.
// CHECK:       tandem.step @launches compute(<f32, f32>) reductions(4) tensors
// CHECK:       tandem.launch reduction body
// CHECK:         tandem.partial sum %{{.+}}[0] over row : f32
// CHECK-NEXT:    tandem.partial sum %{{.+}}[1] over column : f32
// CHECK-NEXT:    tandem.yield
// CHECK-NEXT:  }{{$}}
// CHECK:       tandem.launch reduction fused_with_previous body
// CHECK:         tandem.partial sum %{{.+}}[2] over column : f32
// CHECK-NEXT:    tandem.yield
// CHECK-NEXT:  }{{$}}
// CHECK:       tandem.launch reduction body
// CHECK:         tandem.load_reduction_result[2] over column : f32
// CHECK:         tandem.partial sum %{{.+}}[3] over row : f32
// CHECK-NEXT:    tandem.yield
// CHECK-NEXT:  }{{$}}
// CHECK:       tandem.launch main fused_with_previous body
// CHECK:         tandem.load_reduction_result[2] over column : f32
// CHECK:         tandem.load_reduction_result[3] over row : f32
// CHECK:         tandem.yield
// CHECK-NEXT:  }{{$}}
tandem.kernel @launches compute(<f32, f32>) tensors [#tandem.role<param "p">, #tandem.role<state "c", per = column>] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m, %c: !c):
  %x = tandem.load_plane %p[0] : !m -> f32
  %row = tandem.reduce sum %x over row : f32
  %column = tandem.reduce sum %x over column : f32
  tandem.store_plane %column, %c[0] : f32, !c
  %y = arith.divf %x, %row : f32
  %next_column = tandem.reduce sum %y over column : f32
  %z = arith.divf %y, %next_column : f32
  %next_row = tandem.reduce sum %z over row : f32
  %new = arith.divf %z, %next_row : f32
  tandem.store_plane %new, %p[0] : f32, !m
  tandem.yield
}

// -----

!m = !tandem.stored<tensor<?x?xf32>, #tandem.scaled<#scaled.root, group = tensor, scale = f32>>
#p = #tandem.role<param "p">

tandem.kernel @row_in_tensor compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  %x = tandem.load_plane %p[0] : !m -> i8
  %y = arith.extui %x : i8 to i32
  // expected-error @+1 {{differs between the elements of a tensor, but an entry that all of them share depends on it}}
  %0 = tandem.reduce max %y over row : i32
  tandem.store_plane %0, %p[1] : i32, !m
  tandem.yield
}
