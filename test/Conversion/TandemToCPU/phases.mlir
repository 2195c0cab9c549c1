// RUN: tandem-opt %s -convert-tandem-to-cpu | FileCheck %s

!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
!scaled = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>>
#p = #tandem.role<param "p">

// A phase of the kernel has no prologue. A record has 104 + 8 bytes, and 8 more
// for each of two reductions; each chunk also has an 8-byte slot for each.
// CHECK-NOT:   tandem_norm_phase0_prologue
// CHECK-LABEL: llvm.func @tandem_norm_phase0
// CHECK-SAME:    %[[TENSORS:[^:]+]]: !llvm.ptr, %[[CHUNKS:[^:]+]]: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %[[WORKSPACE:[^:]+]]: !llvm.ptr
// CHECK:         llvm.alloca %{{.+}} x i64
// CHECK:         %[[C128:.+]] = arith.constant 128 : i64
// CHECK:         arith.muli %{{.+}}, %[[C128]]
// CHECK:         %[[ZERO:.+]] = arith.constant dense<0> : vector<4xi32>
// Lanes accumulate the maximum, while sums are added to their tree batch by batch.
// CHECK:         %[[LANES:.+]] = scf.for {{.+}} iter_args(%[[BEFORE:.+]] = %[[ZERO]]) -> (vector<4xi32>)
// CHECK:           scf.while
// CHECK:           %[[MINE:.+]] = arith.select %{{.+}}, %{{.+}}, %{{.+}} : vector<4xi1>, vector<4xi32>
// CHECK:           arith.maxui %[[BEFORE]], %[[MINE]]
// CHECK:         scf.if
// CHECK:           scf.while
// CHECK:         %[[SUM:.+]]:3 = scf.while
// CHECK:         llvm.store %[[SUM]]#2, %{{.+}} : f32, !llvm.ptr
// CHECK:         %[[MAX:.+]] = vector.reduction <maxui>, %[[LANES]]
// CHECK:         llvm.store %[[MAX]], %{{.+}} : i32, !llvm.ptr
// Totals are read once per chunk, with the tensor's record.
// CHECK-LABEL: llvm.func @tandem_norm(
// CHECK:         %[[TOTALS:.+]] = llvm.load %{{.+}} : !llvm.ptr -> !llvm.ptr
// CHECK:         llvm.load %{{.+}} : !llvm.ptr -> f32
// CHECK:         scf.for
tandem.step @norm compute(<f32, f32>) reductions(2) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction width(4) body {
  ^bb0(%p: !f32):
    %x = tandem.load_plane %p[0] : !f32 -> vector<4xf32>
    tandem.partial sum %x[0] over model : vector<4xf32>
    %bits = arith.bitcast %x : vector<4xf32> to vector<4xi32>
    tandem.partial max %bits[1] over tensor : vector<4xi32>
    tandem.yield
  }
  tandem.launch main width(4) body {
  ^bb0(%p: !f32):
    %x = tandem.load_plane %p[0] : !f32 -> vector<4xf32>
    %norm = tandem.reduction_result[0] : f32
    %splat = vector.broadcast %norm : f32 to vector<4xf32>
    %y = arith.divf %x, %splat : vector<4xf32>
    tandem.store_plane %y, %p[0] : vector<4xf32>, !f32
    tandem.yield
  }
}

// The epilogue of a step runs over tensors, except empty ones.
// CHECK-LABEL: llvm.func @tandem_scale_commit
// CHECK-SAME:    %[[BEGIN:[^:]+]]: i64, %[[END:[^:]+]]: i64)
// CHECK:         scf.for %{{.+}} = %[[BEGIN]] to %[[END]]
// CHECK:           %[[ROWS:.+]] = llvm.load
// CHECK:           %[[COLUMNS:.+]] = llvm.load
// CHECK:           %[[SIZE:.+]] = arith.muli %[[ROWS]], %[[COLUMNS]]
// CHECK:           %[[AMAX:.+]] = llvm.load %{{.+}} : !llvm.ptr -> i32
// CHECK:           arith.cmpi ne, %[[SIZE]],
// CHECK:           scf.if
// CHECK:             llvm.store %[[AMAX]], %{{.+}} : i32
tandem.step @scale compute(<f32, f32>) reductions(1) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction width(4) body {
  ^bb0(%p: !scaled):
    %x = tandem.load_plane %p[0] : !scaled -> vector<4xi8>
    %y = arith.extui %x : vector<4xi8> to vector<4xi32>
    tandem.partial max %y[0] over tensor : vector<4xi32>
    tandem.yield
  }
  tandem.launch main body {
  ^bb0(%p: !scaled):
    tandem.yield
  }
  tandem.launch epilogue per(tensor) body {
  ^bb0(%p: !scaled):
    %0 = tandem.reduction_result[0] : i32
    tandem.store_plane %0, %p[1] : i32, !scaled
    tandem.yield
  }
}

// An entry that all elements share is loaded once per chunk.
// CHECK-LABEL: llvm.func @tandem_shared(
// CHECK:         scf.for
// CHECK:           %[[SCALE:.+]] = llvm.load %{{.+}} : !llvm.ptr -> f32
// CHECK:           scf.for
// CHECK-NOT:         -> f32
// CHECK:             vector.broadcast %[[SCALE]] : f32 to vector<4xf32>
tandem.step @shared compute(<f32, f32>) tensors [#p, #p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(4) body {
  ^bb0(%p: !f32, %q: !scaled):
    %x = tandem.load_plane %p[0] : !f32 -> vector<4xf32>
    %s = tandem.load_plane %q[1] : !scaled -> f32
    %splat = vector.broadcast %s : f32 to vector<4xf32>
    %y = arith.mulf %x, %splat : vector<4xf32>
    tandem.store_plane %y, %p[0] : vector<4xf32>, !f32
    tandem.yield
  }
}

!history = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, history = 16>>

// The maximum covers all of 16 values except the oldest; then each moves by one.
// CHECK-LABEL: llvm.func @tandem_history_commit
// CHECK:         scf.if
// CHECK:           %[[C15:.+]] = arith.constant 15 : i64
// CHECK:           %[[MOST:.+]] = scf.for %{{.+}} = %{{.+}} to %[[C15]] step %{{.+}} iter_args(%[[SO_FAR:.+]] = %{{.+}}) -> (i32)
// CHECK:             %[[VALUE:.+]] = llvm.load %{{.+}} : !llvm.ptr -> i32
// CHECK:             arith.cmpi ult, %[[VALUE]], %{{.+}} : i32
// CHECK:             arith.maxui %[[SO_FAR]], %{{.+}} : i32
// CHECK:           %[[C16:.+]] = arith.constant 16 : i64
// CHECK:           scf.for %{{.+}} = %{{.+}} to %[[C16]] step %{{.+}} iter_args(%[[NEWER:.+]] = %[[MOST]]) -> (i32)
// CHECK:             %[[OLDER:.+]] = llvm.load %[[PLACE:.+]] : !llvm.ptr -> i32
// CHECK:             llvm.store %[[NEWER]], %[[PLACE]] : i32
// CHECK:             scf.yield %[[OLDER]] : i32
tandem.step @history compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main body {
  ^bb0(%p: !history):
    tandem.yield
  }
  tandem.launch epilogue per(tensor) body {
  ^bb0(%p: !history):
    %0 = tandem.load_history %p[3] : !history
    tandem.push_history %0, %p[3] : !history
    tandem.yield
  }
}
