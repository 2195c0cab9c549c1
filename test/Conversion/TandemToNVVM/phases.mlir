// RUN: tandem-opt %s -convert-tandem-to-nvvm | FileCheck %s

!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
!scaled = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32>>
#p = #tandem.role<param "p">

// After a phase, one block per tensor reduces the parts of its chunks...
// CHECK-LABEL: llvm.func @tandem_norm_phase0_totals
// CHECK-SAME:    %[[BEGIN:[^:]+]]: i64, %[[END:[^:]+]]: i64) attributes {nvvm.kernel
// CHECK:         %[[LAST:.+]] = arith.select %{{.+}}, %[[END]], %[[BEGIN]]
// CHECK:         %[[BLOCK:.+]] = nvvm.read.ptx.sreg.ctaid.x
// CHECK:         scf.for %{{.+}} = %{{.+}} to %[[LAST]] step
// CHECK:           scf.for {{.+}} iter_args(%[[STEP:.+]] = %{{.+}}, %[[MAX:.+]] = %{{.+}}) -> (i64, i32)
// CHECK:             %[[NEXT:.+]] = arith.maxui %[[MAX]],
// CHECK:             nvvm.barrier0
// CHECK:             scf.yield %{{.+}}, %[[NEXT]] : i64, i32
// CHECK:           scf.if
// CHECK:             llvm.store %{{.+}}, %{{.+}} : f32
// CHECK:             llvm.store %{{.+}}, %{{.+}} : i32

// ... and one block reduces those over the model: its first thread writes to
// the first tensor, if there is one, from which all threads copy to the others.
// CHECK-LABEL: llvm.func @tandem_norm_phase0_model
// CHECK-SAME:    %[[BEGIN:[^:]+]]: i64, %[[END:[^:]+]]: i64) attributes {nvvm.kernel
// CHECK:         %[[LAST:.+]] = arith.select %{{.+}}, %[[END]], %[[BEGIN]]
// CHECK:         scf.for %{{.+}} = %[[BEGIN]] to %[[LAST]] step %{{.+}} iter_args(%{{.+}} = %{{.+}}) -> (i64)
// CHECK:         %[[EXISTS:.+]] = arith.cmpi slt, %[[BEGIN]], %[[LAST]]
// CHECK:         scf.if %[[EXISTS]] {
// CHECK:           llvm.store %{{.+}}, %{{.+}} : f32
// CHECK:         nvvm.barrier0
// CHECK:         %[[SECOND:.+]] = arith.addi %[[BEGIN]], %{{.+}}
// CHECK:         %[[MINE:.+]] = arith.addi %[[SECOND]], %{{.+}}
// CHECK:         scf.for %{{.+}} = %[[MINE]] to %[[LAST]] step
// CHECK:           llvm.load
// CHECK:           llvm.store %{{.+}}, %{{.+}} : f32

// A thread accumulates its maximum until the chunk ends; sums are combined in each
// step.
// CHECK-LABEL: llvm.func @tandem_norm_phase0(
// CHECK:         scf.for {{.+}} -> (i64, i32)
// CHECK:           nvvm.shfl.sync bfly
// CHECK:           nvvm.barrier0
// CHECK-NOT:   tandem_norm_phase0_prologue
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
    tandem.yield
  }
}

// One thread per tensor writes the entries that its elements share.
// CHECK-LABEL: llvm.func @tandem_scale_commit
// CHECK:         nvvm.read.ptx.sreg.ctaid.x
// CHECK:         scf.for
// CHECK:           %[[AMAX:.+]] = llvm.load %{{.+}} : !llvm.ptr -> i32
// CHECK:           scf.if
// CHECK:             %[[SCALE:.+]] = llvm.addrspacecast %{{.+}} : !llvm.ptr to !llvm.ptr<1>
// CHECK:             llvm.store %[[AMAX]], %[[SCALE]] : i32
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
  tandem.launch main width(4) body {
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
