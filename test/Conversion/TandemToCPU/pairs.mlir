// RUN: tandem-opt %s -convert-tandem-to-cpu -canonicalize | FileCheck %s
// RUN: tandem-opt %s -convert-tandem-to-cpu="pairs=false" -canonicalize | FileCheck %s -check-prefix=SINGLE

#p = #tandem.role<param "p">
!scaled = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 16, scale = f16>>

// Groups fill blocks, so that two full blocks are computed at a time. Each operation of the first
// is followed by that of the second, and no lane is masked. The blocks that remain are computed
// one at a time.
// CHECK-LABEL: llvm.func @tandem_pairs(
// CHECK-DAG:     %[[LANES:.+]] = arith.constant 16 : i64
// CHECK-DAG:     %[[PAIR:.+]] = arith.constant 32 : i64
// CHECK-DAG:     %[[WHOLE:.+]] = arith.constant -32 : i64
// CHECK:         scf.for
// CHECK:           %[[SIZE:.+]] = arith.subi %[[END:.+]], %[[BEGIN:.+]] : i64
// CHECK:           %[[IN_PAIRS:.+]] = arith.andi %[[SIZE]], %[[WHOLE]] : i64
// CHECK:           %[[REST:.+]] = arith.addi %[[BEGIN]], %[[IN_PAIRS]] : i64
// CHECK:           scf.for %[[I:.+]] = %[[BEGIN]] to %[[REST]] step %[[PAIR]]
// CHECK:             arith.addi %[[I]], %[[LANES]] : i64
// CHECK:             %[[X:.+]] = arith.extui %{{.+}} : vector<16xi8> to vector<16xi32>
// CHECK:             %[[Y:.+]] = arith.extui %{{.+}} : vector<16xi8> to vector<16xi32>
// CHECK:             %[[X_MAX:.+]] = vector.reduction <maxui>, %[[X]]
// CHECK:             %[[Y_MAX:.+]] = vector.reduction <maxui>, %[[Y]]
// CHECK-DAG:         llvm.store %{{.+}}, %{{.+}} : vector<16xi8>
// CHECK-DAG:         llvm.store %{{.+}}, %{{.+}} : vector<16xi8>
// CHECK:           }
// CHECK:           scf.for %{{.+}} = %[[REST]] to %[[END]] step %[[LANES]]
// CHECK:             arith.select %{{.+}}, %{{.+}}, %{{.+}} : vector<16xi1>, vector<16xi32>
// CHECK:             vector.reduction <maxui>

// Without pairs, all blocks are computed one at a time.
// SINGLE-LABEL: llvm.func @tandem_pairs(
// SINGLE:         vector.reduction <maxui>
// SINGLE-NOT:     vector.reduction <maxui>
tandem.step @pairs compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(16) body {
  ^bb0(%p: !scaled):
    %0 = tandem.load_plane %p[0] : !scaled -> vector<16xi8>
    %1 = arith.extui %0 : vector<16xi8> to vector<16xi32>
    %2 = tandem.reduce max %1 group(16) : vector<16xi32>
    %3 = vector.broadcast %2 : i32 to vector<16xi32>
    %4 = arith.subi %3, %1 : vector<16xi32>
    %5 = arith.trunci %4 : vector<16xi32> to vector<16xi8>
    %6 = arith.trunci %2 : i32 to i16
    tandem.store_plane %5, %p[0] : vector<16xi8>, !scaled
    tandem.store_plane %6, %p[1] : i16, !scaled
    tandem.yield
  }
}
