// RUN: tandem-opt %s -convert-tandem-to-cpu -canonicalize | FileCheck %s
// RUN: not tandem-opt %s -convert-tandem-to-nvvm 2>&1 | FileCheck %s -check-prefix=GPU

#p = #tandem.role<param "p">
!expanded = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 28672.0>, group = 32, scale = f32>>

// GPU: error: 'tandem.lookup' of two bytes is for CPUs, whose caches hold the table; run -tandem-tabulate=rows=false

// Equal tables are merged. The row is computed once for a group's elements.
// CHECK:       llvm.mlir.global internal constant @tandem_table_0(dense<2.000000e+00> : tensor<65536xf32>) {{.*}}: !llvm.array<65536 x f32>
// CHECK-NOT:   llvm.mlir.global
// CHECK-LABEL: llvm.func @tandem_lookup(
// CHECK-DAG:     %[[SHIFT:.+]] = arith.constant 8 : i32
// CHECK-DAG:     %[[ALL:.+]] = arith.constant dense<true> : vector<8xi1>
// CHECK-DAG:     %[[NONE:.+]] = llvm.mlir.poison : vector<8xf32>
// CHECK-DAG:     %[[TABLE_AT:.+]] = llvm.mlir.addressof @tandem_table_0
// CHECK-DAG:     %[[CODES:.+]] = llvm.load {{.+}} -> vector<8xi8>
// CHECK-DAG:     %[[J:.+]] = llvm.load {{.+}} -> i8
// CHECK-DAG:     %[[INDEX:.+]] = arith.extui %[[CODES]] : vector<8xi8> to vector<8xi32>
// CHECK-DAG:     %[[WIDE:.+]] = arith.extui %[[J]] : i8 to i32
// CHECK-DAG:     %[[FIRST:.+]] = arith.shli %[[WIDE]], %[[SHIFT]] : i32
// CHECK-DAG:     %[[ROW:.+]] = llvm.getelementptr %[[TABLE_AT]][%[[FIRST]]] : (!llvm.ptr, i32) -> !llvm.ptr, f32
// CHECK:         %[[AT:.+]] = llvm.getelementptr %[[ROW]][%[[INDEX]]] : (!llvm.ptr, vector<8xi32>) -> vector<8x!llvm.ptr>, f32
// CHECK:         llvm.intr.masked.gather %[[AT]], %[[ALL]], %[[NONE]] {alignment = 4 : i32}
// CHECK:         llvm.intr.masked.gather
tandem.step @lookup compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !expanded):
    %q = tandem.load_plane %p[0] : !expanded -> vector<8xi8>
    %s = tandem.load_plane %p[1] : !expanded -> f32
    %j = tandem.load_plane %p[2] : !expanded -> i8
    %row = vector.broadcast %j : i8 to vector<8xi8>
    %x = tandem.lookup[%row, %q] in dense<2.0> : tensor<256x256xf32> : vector<8xi8>, vector<8xi8> -> vector<8xf32>
    %y = tandem.lookup[%q, %row] in dense<2.0> : tensor<256x256xf32> : vector<8xi8>, vector<8xi8> -> vector<8xf32>
    %sum = arith.addf %x, %y : vector<8xf32>
    %code = arith.fptoui %sum : vector<8xf32> to vector<8xi8>
    tandem.store_plane %code, %p[0] : vector<8xi8>, !expanded
    tandem.store_plane %s, %p[1] : f32, !expanded
    tandem.store_plane %j, %p[2] : i8, !expanded
    tandem.yield
  }
}
