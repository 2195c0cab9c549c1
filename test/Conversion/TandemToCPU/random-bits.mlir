// RUN: tandem-opt %s -convert-tandem-to-cpu -canonicalize | FileCheck %s

#p = #tandem.role<param "p">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

// Sixteen elements take two counters in 64-bit lanes, with ten rounds of two
// products. If the first element does not begin a group, the following groups
// are computed, too, and the words of both move by 4, 2 and 1 half-words.
// CHECK-LABEL: llvm.func @tandem_wide(
// CHECK-DAG:     %[[SEVEN:.+]] = arith.constant 7 : i64
// CHECK-DAG:     %[[LANES:.+]] = arith.constant dense<[0, 1]> : vector<2xi64>
// CHECK:         scf.for
// CHECK:         scf.for
// CHECK:         %[[START:.+]] = arith.addi %{{.+}}, %{{.+}} : i64
// CHECK:         %[[GROUP:.+]] = arith.shrui %[[START]]
// CHECK:         %[[POSITION:.+]] = arith.andi %[[START]], %[[SEVEN]]
// CHECK:         %[[GROUPS:.+]] = vector.broadcast %[[GROUP]] : i64 to vector<2xi64>
// CHECK:         arith.addi %[[GROUPS]], %[[LANES]]
// CHECK-COUNT-20: arith.muli %{{.+}}, %{{.+}} : vector<2xi64>
// CHECK-NOT:     arith.muli {{.+}} : vector<2xi64>
// CHECK:         %{{.+}}:4 = scf.if
// CHECK-COUNT-20:  arith.muli %{{.+}}, %{{.+}} : vector<2xi64>
// CHECK-NOT:       arith.muli
// CHECK-COUNT-15:  arith.select
// CHECK-NOT:       arith.select
// CHECK:           scf.yield
// CHECK:         %[[ALL:.+]] = vector.interleave %{{.+}}, %{{.+}} : vector<2xi64> -> vector<4xi64>
// CHECK-NEXT:    vector.bitcast %[[ALL]] : vector<4xi64> to vector<8xi32>
tandem.step @wide compute(<f32, f32>) tensors [#p] scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} launches {
  tandem.launch main width(16) body {
  ^bb0(%p: !bf16, %s: i32):
    %0 = tandem.random_bits %p seed(%s, %s) step(%s) : !bf16 -> vector<16xi32>
    %1 = arith.trunci %0 : vector<16xi32> to vector<16xi16>
    tandem.store_plane %1, %p[0] : vector<16xi16>, !bf16
    tandem.yield
  }
}
