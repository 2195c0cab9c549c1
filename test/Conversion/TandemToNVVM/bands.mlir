// RUN: tandem-opt %s -convert-tandem-to-nvvm -canonicalize | FileCheck %s

!m = !tandem.stored<tensor<?x?xf32>, #tandem.float<f32>>
#p = #tandem.role<param "p">

// A block processes a band in both phases: first all of its tiles, with 8 columns
// per thread, then one thread per row combines the partial results, then the tiles
// again.
// CHECK-LABEL: llvm.func @tandem_scale_phase0_bands(
// CHECK-SAME:    attributes {nvvm.kernel, nvvm.maxntid = array<i32: 256>}
// CHECK:         scf.for %[[BAND:.+]] = %{{.+}} to %{{.+}} step %{{.+}} : i64 {
// CHECK:           %[[COLUMNS:.+]] = arith.muli %{{.+}}, %c8_i64 : i64
// CHECK:           scf.for %[[TILE:.+]] = %c0_i64 to %{{.+}} step %c1_i64 : i64 {
// CHECK:             %[[FIRST:.+]] = arith.muli %[[TILE]], %[[COLUMNS]] : i64
// CHECK:             %[[BEHIND:.+]] = arith.addi %[[FIRST]], %[[COLUMNS]] : i64
// CHECK:             arith.minsi %{{.+}}, %[[BEHIND]] : i64
// CHECK:             scf.for
// CHECK:               nvvm.shfl.sync bfly
// CHECK:           scf.while
// CHECK:               arith.addf
// CHECK:           nvvm.barrier
// CHECK:           scf.for %{{.+}} = %c0_i64 to
// CHECK:             arith.divf %{{.+}}, %{{.+}} : vector<8xf32>
// CHECK-NOT:       nvvm.barrier
// CHECK:         llvm.return

// If rows are too long for that, each phase is a separate launch.
// CHECK-LABEL: llvm.func @tandem_scale_phase0_row_totals(
// CHECK-LABEL: llvm.func @tandem_scale_phase0(
// CHECK-NOT:   @tandem_scale_bands
// CHECK-LABEL: llvm.func @tandem_scale(
tandem.step @scale compute(<f32, f32>) reductions(1) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch reduction width(8) body {
  ^bb0(%p: !m):
    %x = tandem.load_plane %p[0] : !m -> vector<8xf32>
    tandem.partial sum %x[0] over row : vector<8xf32>
    tandem.yield
  }
  tandem.launch main width(8) fused_with_previous body {
  ^bb0(%p: !m):
    %x = tandem.load_plane %p[0] : !m -> vector<8xf32>
    %sum = tandem.load_reduction_result[0] over row : f32
    %all = vector.broadcast %sum : f32 to vector<8xf32>
    %y = arith.divf %x, %all : vector<8xf32>
    tandem.store_plane %y, %p[0] : vector<8xf32>, !m
    tandem.yield
  }
}
