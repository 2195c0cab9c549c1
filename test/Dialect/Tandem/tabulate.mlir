// RUN: tandem-opt %s -tandem-split-phases -tandem-tabulate -tandem-simplify | FileCheck %s
// RUN: tandem-opt %s -tandem-split-phases -tandem-tabulate="rows=false lookup-cost=30" -tandem-simplify | FileCheck %s -check-prefix=OPTIONS
// RUN: tandem-opt %s -tandem-split-phases -tandem-tabulate="division-cost=6" -tandem-simplify | FileCheck %s -check-prefix=DIVISION

#p = #tandem.role<param "p">
!root = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.root, group = 32, scale = f32>>
!expanded = !tandem.stored<tensor<?xf32>, #tandem.scaled<#scaled.expanded<f8E4M3FN, range = 28672.0>, group = 32, scale = f32>>

// The table has code / 3 for all bytes: 0, 1/3, 2/3, 1 and so on. Values that
// depend on the scale are computed.
// CHECK-LABEL: tandem.step @quotient
// CHECK:         %[[Q:.+]] = tandem.load_plane %{{.+}}[0] {{.+}} -> i8
// CHECK:         %[[S:.+]] = tandem.load_plane %{{.+}}[1] {{.+}} -> f32
// CHECK-NOT:     arith.divf
// CHECK:         %[[X:.+]] = tandem.lookup[%[[Q]]] in dense<"0x00000000ABAAAA3EABAA2A3F0000803F{{.+}}"> : tensor<256xf32> : i8 -> f32
// CHECK:         arith.mulf %[[X]], %[[S]] : f32
// DIVISION-LABEL: tandem.step @quotient
// DIVISION:         arith.divf
tandem.kernel @quotient compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !root):
  %q = tandem.load_plane %p[0] : !root -> i8
  %s = tandem.load_plane %p[1] : !root -> f32
  %three = arith.constant 3.0 : f32
  %0 = arith.uitofp %q : i8 to f32
  %1 = arith.addf %0, %0 : f32
  %2 = arith.subf %1, %0 : f32
  %3 = arith.divf %2, %three : f32
  %4 = arith.mulf %3, %s : f32
  %5 = arith.fptoui %4 : f32 to i8
  tandem.store_plane %5, %p[0] : i8, !root
  tandem.store_plane %4, %p[1] : f32, !root
  tandem.yield
}

// A byte that a group shares selects the table's row. Values that depend only
// on it stay, once per group, if they have other uses.
// OPTIONS-LABEL: tandem.step @shared
// OPTIONS-NOT:     tandem.lookup
// CHECK-LABEL: tandem.step @shared
// CHECK:         %[[Q:.+]] = tandem.load_plane %{{.+}}[0] {{.+}} -> i8
// CHECK:         %[[J:.+]] = tandem.load_plane %{{.+}}[2] {{.+}} -> i8
// CHECK-NOT:     arith.divf
// CHECK:         tandem.lookup[%[[J]], %[[Q]]] in dense<"0x{{.+}}"> : tensor<256x256xf32> : i8, i8 -> f32
// CHECK-NOT:     arith.divf
tandem.kernel @shared compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !expanded):
  %q = tandem.load_plane %p[0] : !expanded -> i8
  %s = tandem.load_plane %p[1] : !expanded -> f32
  %j = tandem.load_plane %p[2] : !expanded -> i8
  %0 = arith.uitofp %q : i8 to f32
  %1 = arith.uitofp %j : i8 to f32
  %2 = arith.divf %0, %1 : f32
  %3 = math.fma %2, %2, %0 : f32
  %4 = arith.mulf %3, %s : f32
  %5 = arith.fptoui %4 : f32 to i8
  tandem.store_plane %5, %p[0] : i8, !expanded
  tandem.store_plane %4, %p[1] : f32, !expanded
  tandem.store_plane %j, %p[2] : i8, !expanded
  tandem.yield
}

// An intermediate value may have other uses.
// OPTIONS-LABEL: tandem.step @chain
// OPTIONS-COUNT-1: tandem.lookup
// CHECK-LABEL: tandem.step @chain
// CHECK-NOT:     arith.divf
// CHECK:         %[[X:.+]] = tandem.lookup[%{{.+}}] in dense<"0x00000000ABAAAA3E{{.+}}"> : tensor<256xf32> : i8 -> f32
// CHECK:         %[[Y:.+]] = tandem.lookup[%{{.+}}] in dense<"0x00000000398EE33D{{.+}}"> : tensor<256xf32> : i8 -> f32
// CHECK:         arith.mulf %[[X]], %{{.+}} : f32
// CHECK:         arith.mulf %[[Y]], %{{.+}} : f32
tandem.kernel @chain compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !root):
  %q = tandem.load_plane %p[0] : !root -> i8
  %s = tandem.load_plane %p[1] : !root -> f32
  %three = arith.constant 3.0 : f32
  %0 = arith.uitofp %q : i8 to f32
  %1 = arith.divf %0, %three : f32
  %2 = arith.divf %1, %three : f32
  %3 = arith.mulf %1, %s : f32
  %4 = arith.mulf %2, %s : f32
  %5 = arith.addf %3, %4 : f32
  %6 = arith.fptoui %5 : f32 to i8
  tandem.store_plane %6, %p[0] : i8, !root
  tandem.store_plane %5, %p[1] : f32, !root
  tandem.yield
}

// A few operations are cheaper than a lookup.
// CHECK-LABEL: tandem.step @cheap
// CHECK-NOT:     tandem.lookup
tandem.kernel @cheap compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !root):
  %q = tandem.load_plane %p[0] : !root -> i8
  %s = tandem.load_plane %p[1] : !root -> f32
  %0 = arith.uitofp %q : i8 to f32
  %1 = arith.mulf %0, %0 : f32
  %2 = arith.mulf %1, %s : f32
  %3 = arith.fptoui %2 : f32 to i8
  tandem.store_plane %3, %p[0] : i8, !root
  tandem.store_plane %2, %p[1] : f32, !root
  tandem.yield
}

// A conversion by the chip is tabulated like other operations: the codes 0 and
// 1 give 0 and 2^-9, and 0x7F gives NaN.
// CHECK-LABEL: tandem.step @converted
// CHECK-NOT:     scaled.decode_float
// CHECK:         tandem.lookup[%{{.+}}] in dense<"0x00000000ABAA2A3A{{.+}}"> : tensor<256xf32> : i8 -> f32
tandem.kernel @converted compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !root):
  %q = tandem.load_plane %p[0] : !root -> i8
  %s = tandem.load_plane %p[1] : !root -> f32
  %three = arith.constant 3.0 : f32
  %0 = scaled.decode_float f8E4M3FN, %q : i8 -> f32
  %1 = arith.divf %0, %three : f32
  %2 = arith.mulf %1, %s : f32
  %3 = arith.fptoui %2 : f32 to i8
  tandem.store_plane %3, %p[0] : i8, !root
  tandem.store_plane %2, %p[1] : f32, !root
  tandem.yield
}
