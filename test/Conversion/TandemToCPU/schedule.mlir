// RUN: tandem-opt %s -convert-tandem-to-cpu | FileCheck %s

#p = #tandem.role<param "p">
#s = #tandem.role<state "s">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

// Since a sum waits for the previous sum, independent products are scheduled in
// between, the longest chain first. A load is placed where its value is needed.
// CHECK-LABEL: llvm.func @tandem_chains(
// CHECK:         %[[P:.+]] = llvm.load %{{.+}} {{.*}}: !llvm.ptr -> vector<8xf32>
// CHECK-NEXT:    %[[A:.+]] = arith.addf %[[P]], %[[P]]
// CHECK-NEXT:    %[[S:.+]] = llvm.load %{{.+}} {{.*}}: !llvm.ptr -> vector<8xf32>
// CHECK-NEXT:    %[[X:.+]] = arith.mulf %[[S]], %[[S]]
// CHECK-NEXT:    %[[B:.+]] = arith.addf %[[A]], %[[A]]
// CHECK-NEXT:    %[[Y:.+]] = arith.mulf %[[X]], %[[X]]
// CHECK-NEXT:    llvm.store %[[Y]]
// CHECK-NEXT:    %[[C:.+]] = arith.addf %[[B]], %[[B]]
// CHECK-NEXT:    llvm.store %[[C]]
tandem.step @chains compute(<f32, f32>) tensors [#p, #s] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !f32, %s: !f32):
    %0 = tandem.load_plane %p[0] : !f32 -> vector<8xf32>
    %1 = tandem.load_plane %s[0] : !f32 -> vector<8xf32>
    %2 = arith.addf %0, %0 : vector<8xf32>
    %3 = arith.addf %2, %2 : vector<8xf32>
    %4 = arith.addf %3, %3 : vector<8xf32>
    %5 = arith.mulf %1, %1 : vector<8xf32>
    %6 = arith.mulf %5, %5 : vector<8xf32>
    tandem.store_plane %4, %p[0] : vector<8xf32>, !f32
    tandem.store_plane %6, %s[0] : vector<8xf32>, !f32
    tandem.yield
  }
}

// Accesses to one plane stay in order, whatever their chains' lengths: a loaded
// value is the old one, and the last store determines the result.
// CHECK-LABEL: llvm.func @tandem_swap(
// CHECK:         %[[P:.+]] = llvm.load %[[P_AT:.+]] {{.*}}: !llvm.ptr -> vector<8xf32>
// CHECK:         %[[S:.+]] = llvm.load %[[S_AT:.+]] {{.*}}: !llvm.ptr -> vector<8xf32>
// CHECK-DAG:     %[[ROOT:.+]] = math.sqrt %[[S]]
// CHECK-DAG:     llvm.store %[[P]], %[[S_AT]]
// CHECK:         llvm.store %[[ROOT]], %[[P_AT]]
// CHECK-NEXT:    llvm.store %[[S]], %[[P_AT]]
tandem.step @swap compute(<f32, f32>) tensors [#p, #s] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !f32, %s: !f32):
    %0 = tandem.load_plane %p[0] : !f32 -> vector<8xf32>
    %1 = tandem.load_plane %s[0] : !f32 -> vector<8xf32>
    tandem.store_plane %0, %s[0] : vector<8xf32>, !f32
    %2 = math.sqrt %1 : vector<8xf32>
    tandem.store_plane %2, %p[0] : vector<8xf32>, !f32
    tandem.store_plane %1, %p[0] : vector<8xf32>, !f32
    tandem.yield
  }
}
