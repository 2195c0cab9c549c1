// RUN: tandem-opt %s -convert-tandem-to-nvvm -canonicalize | FileCheck %s

#p = #tandem.role<param "p">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>

// CHECK-LABEL: llvm.func @tandem_two(
// CHECK-SAME:      %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %[[WORKSPACE:[^:]+]]: !llvm.ptr,
// CHECK-DAG:     %[[NOTHING:.+]] = arith.constant -0.000000e+00 : f64
// CHECK-DAG:     %[[ALL:.+]] = arith.constant -1 : i32
// CHECK-DAG:     %[[LAST:.+]] = arith.constant 31 : i32
// CHECK-DAG:     %[[ONE:.+]] = arith.constant 1 : i32
// CHECK-DAG:     %[[SHARED:.+]] = llvm.mlir.addressof @tandem_two_parts : !llvm.ptr<3>
// CHECK:         scf.for
// Every thread of the block takes as many steps as the first one.
// CHECK:           %[[STEPS:.+]] = scf.for %[[POSITION:.+]] = %[[FROM:[^ ]+]] to %[[TO:[^ ]+]] step %{{[^ ]+}} iter_args(%[[STEP:.+]] = %{{.+}}) -> (i64) : i32
// CHECK:             %[[OFFSET:.+]] = arith.addi %[[POSITION]],
// CHECK:             arith.extui %[[OFFSET]] : i32 to i64
// The thread's two lanes, of which those beyond the end are -0.0.
// CHECK:             arith.select %{{.+}}, %{{.+}}, %{{.+}} : vector<2xi1>, vector<2xf64>
// CHECK:             %[[PAIR:.+]] = arith.addf %{{.+}}, %{{.+}} : vector<1xf64>
// CHECK:             %[[MINE:.+]] = vector.extract %[[PAIR]][0]
// The warp's threads are added, neighbours first, in 32-bit halves.
// CHECK:             %[[BITS:.+]] = arith.bitcast %[[MINE]] : f64 to i64
// CHECK:             %[[LOW:.+]] = arith.trunci %[[BITS]] : i64 to i32
// CHECK:             nvvm.shfl.sync bfly %[[ALL]], %[[LOW]], %[[ONE]], %[[LAST]] : i32 -> i32
// CHECK:             nvvm.shfl.sync bfly
// CHECK:             %[[OTHER:.+]] = arith.bitcast %{{.+}} : i64 to f64
// CHECK:             arith.addf %[[MINE]], %[[OTHER]] : f64
// CHECK-COUNT-18:    nvvm.shfl.sync bfly
// CHECK-NOT:         nvvm.shfl.sync
// The block's warps are added through shared memory; missing ones are -0.0.
// CHECK:             scf.if
// CHECK-COUNT-2:       llvm.store %{{.+}}, %{{.+}} : f64, !llvm.ptr<3>
// CHECK:             nvvm.barrier0
// CHECK:             llvm.load %{{.+}} : !llvm.ptr<3> -> f64
// CHECK:             arith.select %{{.+}}, %{{.+}}, %[[NOTHING]] : f64
// CHECK-COUNT-12:    nvvm.shfl.sync bfly
// CHECK-NOT:         nvvm.shfl.sync
// One thread handles carries.
// CHECK:             scf.if
// CHECK-COUNT-2:       scf.while
// CHECK:             nvvm.barrier0
// CHECK:             %[[NEXT:.+]] = arith.addi %[[STEP]],
// CHECK:             scf.yield %[[NEXT]] : i64
// CHECK:           llvm.addrspacecast %[[WORKSPACE]] : !llvm.ptr to !llvm.ptr<1>
// CHECK:           scf.if
// CHECK:             scf.while ({{.+}} = %[[STEPS]],
// CHECK:             scf.while ({{.+}} = %[[STEPS]],
// CHECK-COUNT-2:     llvm.store %{{.+}}, %{{.+}} : f64, !llvm.ptr<1>
// There are slots for 8 warps and a stack of 64 levels for each of two sums.
// CHECK:       llvm.mlir.global internal @tandem_two_parts() {addr_space = 3 : i32, alignment = 8 : i64} : !llvm.array<144 x f64>
tandem.step @two compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(2) body {
  ^bb0(%p: !f32):
    %0 = tandem.load_plane %p[0] : !f32 -> vector<2xf32>
    %1 = arith.extf %0 : vector<2xf32> to vector<2xf64>
    tandem.metric %1[0] : vector<2xf64>
    %2 = arith.mulf %1, %1 : vector<2xf64>
    tandem.metric %2[1] : vector<2xf64>
    tandem.yield
  }
}
