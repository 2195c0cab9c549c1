// RUN: tandem-opt %s -convert-tandem-to-nvvm -canonicalize | FileCheck %s

#p = #tandem.role<param "p">
!root = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 32, scale = f32>>

// A block's threads copy each table to shared memory once, before the first
// chunk, for all lookups, and synchronize.
// CHECK-LABEL: llvm.func @tandem_lookup(
// CHECK-DAG:     %[[CONSTANTS:.+]] = llvm.mlir.addressof @tandem_table_0 : !llvm.ptr<1>
// CHECK-DAG:     %[[COPY:.+]] = llvm.mlir.addressof @tandem_table_0_copy : !llvm.ptr<3>
// CHECK-DAG:     %[[END:.+]] = arith.constant 256 : i32
// CHECK:         %[[THREAD:.+]] = nvvm.read.ptx.sreg.tid.x
// CHECK:         %[[THREADS:.+]] = nvvm.read.ptx.sreg.ntid.x
// CHECK:         scf.for %[[I:.+]] = %[[THREAD]] to %[[END]] step %[[THREADS]]
// CHECK:           %[[INDEX:.+]] = arith.extui %[[I]] : i32 to i64
// CHECK:           %[[FROM:.+]] = llvm.getelementptr %[[CONSTANTS]][%[[INDEX]]]
// CHECK:           %[[ENTRY:.+]] = llvm.load %[[FROM]]
// CHECK:           %[[TO:.+]] = llvm.getelementptr %[[COPY]][%{{.+}}]
// CHECK:           llvm.store %[[ENTRY]], %[[TO]]
// CHECK-NOT:       llvm.load
// CHECK:         }
// CHECK-NEXT:    nvvm.barrier
// CHECK:         scf.for
// CHECK-COUNT-16:  llvm.load %{{.+}} : !llvm.ptr<3> -> f32
// CHECK:         llvm.return
// CHECK:       llvm.mlir.global internal constant @tandem_table_0(dense<1073741824> : tensor<256xi32>) {addr_space = 1 : i32, alignment = 4 : i64{{.*}}} : !llvm.array<256 x i32>
// CHECK:       llvm.mlir.global internal @tandem_table_0_copy() {addr_space = 3 : i32, alignment = 4 : i64{{.*}}} : !llvm.array<256 x i32>
// CHECK-NOT:   llvm.mlir.global
tandem.step @lookup compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !root):
    %q = tandem.load_plane %p[0] : !root -> vector<8xi8>
    %s = tandem.load_plane %p[1] : !root -> f32
    %x = tandem.lookup[%q] in dense<2.0> : tensor<256xf32> : vector<8xi8> -> vector<8xf32>
    %code = arith.fptoui %x : vector<8xf32> to vector<8xi8>
    %y = tandem.lookup[%code] in dense<2.0> : tensor<256xf32> : vector<8xi8> -> vector<8xf32>
    %last = arith.fptoui %y : vector<8xf32> to vector<8xi8>
    tandem.store_plane %last, %p[0] : vector<8xi8>, !root
    tandem.store_plane %s, %p[1] : f32, !root
    tandem.yield
  }
}
