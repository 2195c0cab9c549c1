// RUN: tandem-opt %s -split-input-file -convert-tandem-to-cpu -canonicalize | FileCheck %s

#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
!four = !tandem.stored<tensor<?xf32>, #tandem.coded<#scaled.linear<bits = 4>>>

// A byte holds two codes, so that a block of 16 elements has 8 bytes. The codes past the end of a
// partial block are cleared.
// CHECK-LABEL: llvm.func @tandem_copy(
// CHECK:         %[[BYTES:.+]] = llvm.load %{{.+}} {alignment = 1 : i64} : !llvm.ptr -> vector<8xi8>
// CHECK:         %[[WORDS:.+]] = arith.extui %[[BYTES]] : vector<8xi8> to vector<8xi16>
// CHECK:         %[[MOVED:.+]] = arith.shli %[[WORDS]]
// CHECK:         %[[SPREAD:.+]] = arith.ori %[[WORDS]], %[[MOVED]]
// CHECK:         %[[MASKED:.+]] = arith.andi %[[SPREAD]]
// CHECK:         %[[CODES:.+]] = vector.bitcast %[[MASKED]] : vector<8xi16> to vector<16xi8>
// CHECK:         %[[SUM:.+]] = arith.addi %[[CODES]], %[[CODES]]
// CHECK:         %[[BACK:.+]] = vector.bitcast %[[SUM]] : vector<16xi8> to vector<8xi16>
// CHECK:         %[[UPPER:.+]] = arith.shrui %[[BACK]]
// CHECK:         %[[JOINED:.+]] = arith.ori %[[BACK]], %[[UPPER]]
// CHECK:         %[[PACKED:.+]] = arith.trunci %[[JOINED]] : vector<8xi16> to vector<8xi8>
// CHECK:         llvm.store %[[PACKED]], %{{.+}} {alignment = 1 : i64}
// CHECK:         llvm.load %{{.+}} : !llvm.ptr -> i8
// CHECK:         "llvm.intr.memcpy"
tandem.step @copy compute(<f32, f32>) tensors [#p, #g] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(16) body {
  ^bb0(%p: !four, %g: !four):
    %x = tandem.load_plane %g[0] : !four -> vector<16xi8>
    %y = arith.addi %x, %x : vector<16xi8>
    tandem.store_plane %y, %p[0] : vector<16xi8>, !four
    tandem.yield
  }
}
