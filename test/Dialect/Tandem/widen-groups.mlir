// RUN: tandem-opt %s -tandem-split-phases -tandem-widen=width=64 | FileCheck %s
// RUN: tandem-opt %s -tandem-split-phases -tandem-widen=width=8 | FileCheck %s -check-prefix=EIGHT

#p = #tandem.role<param "p">
#q = #tandem.role<state "q">
!wide = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 128, scale = bf16>>
!short = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 32, scale = bf16>>

// The width is at most the smallest group, so that an entry of a group is one
// number, and so are all values derived from it.
// CHECK-LABEL: tandem.step @groups
// CHECK:         tandem.launch main width(32) body
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[Q:.+]]: !tandem
// CHECK:         %[[CODE:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> vector<32xi8>
// CHECK:         %[[S:.+]] = tandem.load_plane %[[P]][1] {{.+}} -> i16
// CHECK:         %[[M:.+]] = arith.extui %[[CODE]] : vector<32xi8> to vector<32xi32>
// CHECK:         %[[LARGEST:.+]] = tandem.reduce max %[[M]] group(128) : vector<32xi32>
// CHECK:         %[[LEAST:.+]] = tandem.reduce min %[[M]] group(32) : vector<32xi32>
// CHECK:         %[[SUM:.+]] = arith.addi %[[LARGEST]], %[[LEAST]] : i32
// CHECK:         %[[SPREAD:.+]] = vector.broadcast %[[SUM]] : i32 to vector<32xi32>
// CHECK:         %[[BITS:.+]] = arith.trunci %[[SUM]] : i32 to i16
// CHECK:         arith.addi %[[M]], %[[SPREAD]] : vector<32xi32>
// CHECK:         tandem.store_plane %{{.+}}, %[[P]][0] : vector<32xi8>
// CHECK:         tandem.store_plane %[[BITS]], %[[P]][1] : i16
// CHECK:         tandem.store_plane %[[S]], %[[Q]][1] : i16

// EIGHT-LABEL: tandem.step @groups
// EIGHT:         tandem.launch main width(8) body
tandem.kernel @groups compute(<f32, f32>) tensors [#p, #q] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !wide, %q: !short):
  %0 = tandem.load_plane %p[0] : !wide -> i8
  %1 = tandem.load_plane %p[1] : !wide -> i16
  %2 = arith.extui %0 : i8 to i32
  %3 = tandem.reduce max %2 group(128) : i32
  %4 = tandem.reduce min %2 group(32) : i32
  %5 = arith.addi %3, %4 : i32
  %6 = arith.trunci %5 : i32 to i16
  %7 = arith.addi %2, %5 : i32
  %8 = arith.trunci %7 : i32 to i8
  tandem.store_plane %8, %p[0] : i8, !wide
  tandem.store_plane %6, %p[1] : i16, !wide
  tandem.store_plane %1, %q[1] : i16, !short
  tandem.yield
}
