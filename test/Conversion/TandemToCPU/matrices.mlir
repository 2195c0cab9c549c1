// RUN: tandem-opt %s -convert-tandem-to-cpu | FileCheck %s

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
!v = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">
#r = #tandem.role<state "r", per = row>

// A chunk is a tile: row by row, and what it leaves of a row goes to the row's
// entry. Columns add up on a stack of 7 levels of 2048 entries.
// CHECK-LABEL: llvm.func @tandem_sums_phase0
// CHECK:         %[[ENTRIES:.+]] = arith.constant 14336 : i64
// CHECK:         %[[STACK:.+]] = llvm.alloca %[[ENTRIES]] x i32
// CHECK:         %[[C56:.+]] = arith.constant 56 : i64
// CHECK:         arith.muli %{{.+}}, %[[C56]]
// CHECK:         scf.for %[[ROW:.+]] = %{{.+}} to %{{.+}} step
// CHECK:           scf.for %[[COLUMN:.+]] = %{{.+}} to %{{.+}} step
// CHECK:             scf.while {{.*}} : (i64, i64, f32)
// CHECK:             scf.while {{.*}} : (i64, i64, vector<4xf32>)
// CHECK:           %[[SUM:.+]]:3 = scf.while {{.*}} : (i64, i64, f32)
// CHECK:           arith.addi %{{.+}}, %[[ROW]] : i64
// CHECK:           llvm.store %[[SUM]]#2, %{{.+}} : f32, !llvm.ptr
// Then the columns' parts, of which the last block may be short.
// CHECK:         scf.for
// CHECK:           %[[TOTAL:.+]]:3 = scf.while {{.*}} : (i64, i64, vector<4xf32>)
// CHECK:           llvm.store %[[TOTAL]]#2, %[[SCRATCH:.+]] {alignment = 4 : i64} : vector<4xf32>
// CHECK:           "llvm.intr.memcpy"(%{{.+}}, %[[SCRATCH]], %{{.+}})
tandem.kernel @sums_phase0 compute(<f32, f32>) width(4) part(early) reductions(2) matrix tensors [#p, #r] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m, %r: !v):
  %x = tandem.load_plane %p[0] : !m -> vector<4xf32>
  tandem.partial sum %x[0] over row : vector<4xf32>
  tandem.partial sum %x[1] over column : vector<4xf32>
  tandem.yield
}

// A part per row sees rows as other kernels see elements.
// CHECK-LABEL: llvm.func @tandem_sums_commit_rows
// CHECK:         %[[C24:.+]] = arith.constant 24 : i64
// CHECK:         arith.muli %{{.+}}, %[[C24]]
// CHECK:         %[[SUM:.+]] = llvm.load %{{.+}} {alignment = 4 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK:         llvm.store %[[SUM]], %{{.+}} : vector<4xf32>, !llvm.ptr
tandem.kernel @sums_commit_rows compute(<f32, f32>) width(4) part(commit) reductions(2) matrix per(row) tensors [#p, #r] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m, %r: !v):
  %sum = tandem.load_total[0] over row : vector<4xf32>
  tandem.store_plane %sum, %r[0] : vector<4xf32>, !v
  tandem.yield
}
