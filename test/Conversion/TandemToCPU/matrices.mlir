// RUN: tandem-opt %s -convert-tandem-to-cpu | FileCheck %s

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
!v = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">
#r = #tandem.role<state "r", per = row>

// A chunk is a tile, processed row by row. Its partial result for a row is written
// to the row's entry. Columns are summed on a stack of 7 levels of 2048 entries.
// CHECK-LABEL: llvm.func @tandem_sums_phase0
// CHECK:         %[[ENTRIES:.+]] = arith.constant 14336 : i64
// CHECK:         %[[STACK:.+]] = llvm.alloca %[[ENTRIES]] x i32
// CHECK:         %[[C56:.+]] = arith.constant 56 : i64
// CHECK:         arith.muli %{{.+}}, %[[C56]]
// CHECK:         scf.for %[[ROW:.+]] = %{{.+}} to %{{.+}} step
// CHECK:           scf.for %[[COLUMN:.+]] = %{{.+}} to %{{.+}} step
// CHECK:             scf.if
// CHECK:               scf.while {{.*}} : (i64, i64, f32)
// CHECK:             scf.while {{.*}} : (i64, i64, vector<4xf32>)
// CHECK:           scf.if
// CHECK:             scf.while {{.*}} : (i64, i64, f32)
// CHECK:           %[[SUM:.+]]:3 = scf.while {{.*}} : (i64, i64, f32)
// CHECK:           arith.addi %{{.+}}, %[[ROW]] : i64
// CHECK:           llvm.store %[[SUM]]#2, %{{.+}} : f32, !llvm.ptr
// Then the columns' parts are reduced, in which the last block may be partial.
// CHECK:         scf.for
// CHECK:           %[[TOTAL:.+]]:3 = scf.while {{.*}} : (i64, i64, vector<4xf32>)
// CHECK:           llvm.store %[[TOTAL]]#2, %[[SCRATCH:.+]] {alignment = 4 : i64} : vector<4xf32>
// CHECK:           "llvm.intr.memcpy"(%{{.+}}, %[[SCRATCH]], %{{.+}})
// Entries that a row's elements share are loaded before the elements.
// CHECK-LABEL: llvm.func @tandem_sums(
// CHECK:         scf.for %[[ROW:.+]] = %{{.+}} to %{{.+}} step
// CHECK:           %[[KEPT:.+]] = llvm.load %{{.+}} : !llvm.ptr -> f32
// CHECK:           %[[SUM:.+]] = llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK:           scf.for
// CHECK:             arith.addf %[[KEPT]], %[[SUM]] : f32
// A launch over rows treats rows as other launches treat elements.
// CHECK-LABEL: llvm.func @tandem_sums_commit_rows
// CHECK:         %[[C32:.+]] = arith.constant 32 : i64
// CHECK:         arith.muli %{{.+}}, %[[C32]]
// CHECK:         %[[SUM:.+]] = llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK:         llvm.store %[[SUM]], %{{.+}} : vector<4xf32>, !llvm.ptr
tandem.step @sums compute(<f32, f32>) reductions(2) tensors [#p, #r] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction width(4) body {
  ^bb0(%p: !m, %r: !v):
    %x = tandem.load_plane %p[0] : !m -> vector<4xf32>
    tandem.partial sum %x[0] over row : vector<4xf32>
    tandem.partial sum %x[1] over column : vector<4xf32>
    tandem.yield
  }
  tandem.launch main width(4) body {
  ^bb0(%p: !m, %r: !v):
    %kept = tandem.load_plane %r[0] : !v -> f32
    %sum = tandem.load_reduction_result[0] over row : f32
    %new = arith.addf %kept, %sum : f32
    %all = vector.broadcast %new : f32 to vector<4xf32>
    tandem.store_plane %all, %p[0] : vector<4xf32>, !m
    tandem.yield
  }
  tandem.launch epilogue per(row) width(4) body {
  ^bb0(%p: !m, %r: !v):
    %sum = tandem.load_reduction_result[0] over row : vector<4xf32>
    tandem.store_plane %sum, %r[0] : vector<4xf32>, !v
    tandem.yield
  }
}

!b = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = 64x64, scale = f32>>

// The maximum is taken over each column of a 64-row tile, and then over each
// group of 64 columns, and is written to the block's entry.
// CHECK-LABEL: llvm.func @tandem_blocks_phase0
// CHECK:         %[[ENTRIES:.+]] = arith.constant 2048 : i64
// CHECK:         llvm.alloca %[[ENTRIES]] x i32
// CHECK:         scf.for
// CHECK:           %[[BELOW:.+]] = arith.cmpi slt, %{{.+}}, %{{.+}} : vector<16xi32>
// CHECK:           %[[OWN:.+]] = arith.select %[[BELOW]], %{{.+}} : vector<16xi1>, vector<16xi32>
// CHECK:           %[[BOTH:.+]] = arith.maxui %{{.+}}, %[[OWN]] : vector<16xi32>
// CHECK:           llvm.store %[[BOTH]], %{{.+}} {alignment = 4 : i64}
// CHECK:         %[[B:.+]] = arith.constant 64 : i64
// CHECK:         scf.for %[[FIRST:.+]] = %{{.+}} to %{{.+}} step %[[B]]
// CHECK:           %[[ALL:.+]] = scf.for {{.*}} -> (vector<16xi32>)
// CHECK:           %[[LARGEST:.+]] = vector.reduction <maxui>, %[[ALL]]
// CHECK:           %[[SIX:.+]] = arith.constant 6 : i64
// CHECK:           arith.shrui %[[FIRST]], %{{.+}} : i64
// CHECK:           llvm.store %[[LARGEST]], %{{.+}} : i32, !llvm.ptr
// The elements of a block read the block's entry.
// CHECK-LABEL: llvm.func @tandem_blocks(
// CHECK:         %[[ENTRY:.+]] = llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr -> i32
// CHECK:         arith.trunci %[[ENTRY]] : i32 to i8
// A phase over blocks treats blocks as other kernels treat elements.
// CHECK-LABEL: llvm.func @tandem_blocks_commit_blocks
// CHECK:         %[[ENTRIES:.+]] = llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr -> vector<16xi32>
// CHECK:         llvm.store %[[ENTRIES]], %{{.+}} : vector<16xi32>, !llvm.ptr
tandem.step @blocks compute(<f32, f32>) reductions(1) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction width(16) body {
  ^bb0(%p: !b):
    %x = tandem.load_plane %p[0] : !b -> vector<16xi8>
    %y = arith.extui %x : vector<16xi8> to vector<16xi32>
    tandem.partial max %y[0] over block : vector<16xi32>
    tandem.yield
  }
  tandem.launch main width(16) body {
  ^bb0(%p: !b):
    %0 = tandem.load_reduction_result[0] over block : i32
    %1 = arith.trunci %0 : i32 to i8
    %2 = vector.broadcast %1 : i8 to vector<16xi8>
    tandem.store_plane %2, %p[0] : vector<16xi8>, !b
    tandem.yield
  }
  tandem.launch epilogue per(block) width(16) body {
  ^bb0(%p: !b):
    %0 = tandem.load_reduction_result[0] over block : vector<16xi32>
    tandem.store_plane %0, %p[1] : vector<16xi32>, !b
    tandem.yield
  }
}

!t = !tandem.stored<tensor<?x?xf32>, #tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, scale = f32, transposed = true>>

// A row is a column of the transpose: the row's index offsets the plane's
// pointer, and a column's stride is the number of rows. The codes of a block
// are stored one by one, except for elements beyond the last column.
// CHECK-LABEL: llvm.func @tandem_transposed(
// CHECK:         %[[SCRATCH:.+]] = llvm.alloca %{{.+}} x vector<4xi8>
// CHECK:         scf.for
// CHECK:           scf.for %[[ROW:.+]] = %{{.+}} to %{{.+}} step
// CHECK:             arith.muli %[[ROW]], %{{.+}} : i64
// CHECK:             scf.for %[[COLUMN:.+]] = %{{.+}} to %{{.+}} step
// CHECK:             llvm.store %{{.+}}, %[[SCRATCH]] {alignment = 1 : i64} : vector<4xi8>
// CHECK:             %[[COUNT:.+]] = arith.minsi
// CHECK:             scf.for %[[LANE:.+]] = %{{.+}} to %[[COUNT]] step
// CHECK:               %[[PLACE:.+]] = arith.addi %[[COLUMN]], %[[LANE]] : i64
// CHECK:               arith.muli %[[PLACE]], %{{.+}} : i64
// CHECK:               llvm.store %{{.+}}, %{{.+}} : i8, !llvm.ptr
tandem.step @transposed compute(<f32, f32>) tensors [#tandem.role<input "x">, #tandem.role<output "y">] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(4) body {
  ^bb0(%x: !m, %y: !t):
    %0 = tandem.load_plane %x[0] : !m -> vector<4xi32>
    %1 = arith.trunci %0 : vector<4xi32> to vector<4xi8>
    tandem.store_plane %1, %y[2] : vector<4xi8>, !t
    tandem.yield
  }
}
