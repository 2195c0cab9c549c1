// RUN: tandem-opt %s -convert-tandem-to-nvvm | FileCheck %s

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">

// What tiles leave of rows and of columns is brought together by a thread for
// each: neighbours first, then pairs of pairs, in place of the first part.
// CHECK-LABEL: llvm.func @tandem_sums_row_totals
// CHECK:         scf.while
// CHECK:           scf.for
// CHECK:             arith.addf %{{.+}}, %{{.+}} : f32
// CHECK-LABEL: llvm.func @tandem_sums_column_totals
// CHECK:         scf.while
// CHECK:           scf.for
// CHECK:             arith.maxui %{{.+}}, %{{.+}} : i32

// A block goes down the rows of a tile: a thread's columns stay in its registers,
// a row's sum is one over the block.
// CHECK-LABEL: llvm.func @tandem_sums(
// CHECK:         %[[COLUMNS:.+]] = scf.for %{{.+}} iter_args(%[[ABOVE:.+]] = %{{.+}}) -> (vector<4xi32>)
// CHECK:           nvvm.shfl.sync bfly
// CHECK:           nvvm.barrier
// CHECK:           %[[BOTH:.+]] = arith.maxui %[[ABOVE]], %{{.+}} : vector<4xi32>
// CHECK:           scf.yield %[[BOTH]]
// CHECK:         vector.extract %[[COLUMNS]][0]
tandem.kernel @sums compute(<f32, f32>) width(4) reductions(2) matrix tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !m):
  %x = tandem.load_plane %p[0] : !m -> vector<4xf32>
  %bits = arith.bitcast %x : vector<4xf32> to vector<4xi32>
  tandem.partial sum %x[0] over row : vector<4xf32>
  tandem.partial max %bits[1] over column : vector<4xi32>
  tandem.yield
}
