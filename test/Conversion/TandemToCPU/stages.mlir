// RUN: tandem-opt %s -convert-tandem-to-cpu -canonicalize | FileCheck %s
// RUN: sed 's/reduce max/reduce min/' %s | tandem-opt -convert-tandem-to-cpu -canonicalize | FileCheck %s -check-prefix=MIN

#p = #tandem.role<param "p">
!scaled = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 32, scale = f16>>

// A tile has the 32 elements of the largest group. The values between the loops
// are four vectors of widened codes, which the second loop also uses, and the
// group's result.
// CHECK-LABEL: llvm.func @tandem_stages(
// CHECK-DAG:     %[[LANES:.+]] = arith.constant 8 : i64
// CHECK-DAG:     %[[TILE:.+]] = arith.constant 32 : i64
// CHECK-DAG:     %[[BLOCKS:.+]] = arith.constant 4 : i64
// CHECK-DAG:     %[[NOTHING:.+]] = arith.constant dense<0> : vector<8xi32>
// CHECK-DAG:     %[[ZERO:.+]] = arith.constant 0 : i32
// CHECK:         %[[SCRATCH:.+]] = llvm.alloca %{{.+}} x vector<8xi8>
// CHECK:         %[[KEPT:.+]] = llvm.alloca %[[BLOCKS]] x vector<8xi32>
// CHECK:         %[[RESULT:.+]] = llvm.alloca %{{.+}} x i32
// CHECK:         scf.for
// CHECK:           scf.for %[[BASE:.+]] = %{{.+}} to %[[END:.+]] step %[[TILE]]
// CHECK:             %[[NEXT:.+]] = arith.addi %[[BASE]], %[[TILE]]
// CHECK:             %[[TO:.+]] = arith.minsi %[[NEXT]], %[[END]]
// CHECK:             scf.for %[[I:.+]] = %[[BASE]] to %[[TO]] step %[[LANES]]
// CHECK:               %[[X:.+]] = arith.extui %{{.+}} : vector<8xi8> to vector<8xi32>
// CHECK:               llvm.store %[[X]], %{{.+}} : vector<8xi32>
// Lanes beyond the end are masked; the group's first block resets the result.
// CHECK:               %[[PRESENT:.+]] = arith.cmpi sgt
// CHECK:               %[[MEMBERS:.+]] = arith.select %[[PRESENT]], %[[X]], %[[NOTHING]]
// CHECK:               %[[BLOCK:.+]] = vector.reduction <maxui>, %[[MEMBERS]]
// CHECK:               %[[IS_FIRST:.+]] = arith.cmpi eq
// CHECK:               %[[BEFORE:.+]] = llvm.load
// CHECK:               %[[START:.+]] = arith.select %[[IS_FIRST]], %[[ZERO]], %[[BEFORE]]
// CHECK:               arith.maxui %[[START]], %[[BLOCK]]
// CHECK:               llvm.store
// CHECK:             }
// An entry of the scale has two bytes for 32 elements, which are the tile's, so
// it is written once.
// CHECK-DAG:         %[[ENTRY:.+]] = arith.shrui %{{.+}}, %{{.+}} : i64
// CHECK-DAG:         %[[MAX:.+]] = llvm.load %{{.+}} : !llvm.ptr -> i32
// CHECK-DAG:         %[[BITS:.+]] = arith.trunci %[[MAX]] : i32 to i16
// CHECK-DAG:         %[[BYTES:.+]] = arith.muli %[[ENTRY]]
// CHECK-DAG:         %[[AT:.+]] = llvm.getelementptr %{{.+}}[%[[BYTES]]]
// CHECK:             llvm.store %[[BITS]], %[[AT]] {alignment = 2 : i64} : i16
// CHECK-NOT:         i16
// CHECK:             scf.for %[[J:.+]] = %[[BASE]] to %[[TO]] step %[[LANES]]
// CHECK-NOT:           llvm.load %{{.+}} -> i32
// CHECK:               %[[AGAIN:.+]] = llvm.load %{{.+}} : !llvm.ptr -> vector<8xi32>
// CHECK:               arith.subi %{{.+}}, %[[AGAIN]] : vector<8xi32>
// CHECK:               llvm.store %{{.+}} : vector<8xi8>

// MIN-DAG: %[[NOTHING:.+]] = arith.constant dense<-1> : vector<8xi32>
// MIN-DAG: %[[LARGEST:.+]] = arith.constant -1 : i32
// MIN:     arith.select %{{.+}}, %{{.+}}, %[[NOTHING]] : vector<8xi1>, vector<8xi32>
// MIN:     vector.reduction <minui>
// MIN:     arith.select %{{.+}}, %[[LARGEST]], %{{.+}} : i32
// MIN:     arith.minui
tandem.step @stages compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} launches {
  tandem.launch main width(8) body {
  ^bb0(%p: !scaled):
    %0 = tandem.load_plane %p[0] : !scaled -> vector<8xi8>
    %1 = arith.extui %0 : vector<8xi8> to vector<8xi32>
    %2 = tandem.reduce max %1 group(32) : vector<8xi32>
    %3 = vector.broadcast %2 : i32 to vector<8xi32>
    %4 = arith.subi %3, %1 : vector<8xi32>
    %5 = arith.trunci %4 : vector<8xi32> to vector<8xi8>
    %6 = arith.trunci %2 : i32 to i16
    tandem.store_plane %5, %p[0] : vector<8xi8>, !scaled
    tandem.store_plane %6, %p[1] : i16, !scaled
    tandem.yield
  }
}
