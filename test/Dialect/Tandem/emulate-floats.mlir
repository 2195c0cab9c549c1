// RUN: tandem-opt %s -tandem-split-phases -tandem-emulate-floats=formats=bf16 -canonicalize -cse | FileCheck %s
// RUN: tandem-opt %s -tandem-split-phases -tandem-emulate-floats=formats=bf16,f16,f8E4M3FN,f8E5M2 | FileCheck %s -check-prefix=ALL
// RUN: tandem-opt %s -tandem-split-phases -tandem-emulate-floats="formats=bf16,f16 half-conversions" | FileCheck %s -check-prefix=HALF
// RUN: not tandem-opt %s -tandem-split-phases -tandem-emulate-floats=formats=bf16,f64 2>&1 | FileCheck %s -check-prefix=UNKNOWN
// RUN: echo | not tandem-opt -tandem-split-phases -tandem-emulate-floats=formats=bf16,f64 2>&1 | FileCheck %s -check-prefix=UNKNOWN

// UNKNOWN: error: cannot emulate 'f64'; expected bf16, f16, f8E4M3FN or f8E5M2

#p = #tandem.role<param "p">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
!f8 = !tandem.stored<tensor<?xf32>, #tandem.float<f8E5M2>>

// No type smaller than f32 remains, and no truncation except from f64.
// ALL-NOT: {{: (vector<.*x)?(bf16|f16|f8E4M3FN|f8E5M2)}}
// ALL-NOT: arith.truncf {{.*}} : f32

// A load puts the pattern into the high half of an f32. A product is computed in
// f32 and then rounded by adding half a unit minus one and the last bit that is
// kept.
// CHECK-LABEL: tandem.step @rounding
// CHECK:       ^bb0(%[[P:.+]]: !tandem
// CHECK-DAG:     %[[SIXTEEN:.+]] = arith.constant 16 : i32
// CHECK-DAG:     %[[ONE:.+]] = arith.constant 1 : i32
// CHECK-DAG:     %[[BELOW_HALF:.+]] = arith.constant 32767 : i32
// CHECK-DAG:     %[[KEPT:.+]] = arith.constant -65536 : i32
// CHECK:         %[[CODE:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> i16
// CHECK-NEXT:    %[[WORD:.+]] = arith.extui %[[CODE]] : i16 to i32
// CHECK-NEXT:    %[[SHIFTED:.+]] = arith.shli %[[WORD]], %[[SIXTEEN]]
// CHECK-NEXT:    %[[X:.+]] = arith.bitcast %[[SHIFTED]] : i32 to f32
// CHECK-NEXT:    %[[PRODUCT:.+]] = arith.mulf %[[X]], %[[X]] : f32
// CHECK-NEXT:    %[[BITS:.+]] = arith.bitcast %[[PRODUCT]] : f32 to i32
// CHECK-NEXT:    %[[HIGH:.+]] = arith.shrui %[[BITS]], %[[SIXTEEN]]
// CHECK-NEXT:    %[[ODD:.+]] = arith.andi %[[HIGH]], %[[ONE]]
// CHECK-NEXT:    %[[UP:.+]] = arith.addi %[[BITS]], %[[BELOW_HALF]]
// CHECK-NEXT:    %[[EVEN:.+]] = arith.addi %[[UP]], %[[ODD]]
// CHECK-NEXT:    %[[ROUNDED:.+]] = arith.andi %[[EVEN]], %[[KEPT]]
// CHECK:         tandem.store_plane %{{.+}}, %[[P]][0] : i16
tandem.kernel @rounding compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16):
  %0 = tandem.load_plane %p[0] : !bf16 -> bf16
  %1 = arith.mulf %0, %0 : bf16
  tandem.store_plane %1, %p[0] : bf16, !bf16
  tandem.yield
}

// Negation, absolute value and selection are exact: no rounding.
// CHECK-LABEL: tandem.step @exact
// CHECK:         %[[X:.+]] = arith.bitcast %{{.+}} : i32 to f32
// CHECK-NEXT:    %[[NEGATIVE:.+]] = arith.negf %[[X]] : f32
// CHECK-NEXT:    %[[LESS:.+]] = arith.cmpf olt, %[[X]], %[[NEGATIVE]] : f32
// CHECK-NEXT:    %[[CHOSEN:.+]] = arith.select %[[LESS]], %[[X]], %[[NEGATIVE]] : f32
// CHECK-NEXT:    %[[ABSOLUTE:.+]] = math.absf %[[CHOSEN]] : f32
// CHECK-NEXT:    %[[BITS:.+]] = arith.bitcast %[[ABSOLUTE]] : f32 to i32
// CHECK-NEXT:    %[[HIGH:.+]] = arith.shrui %[[BITS]], %{{.+}} : i32
// CHECK-NEXT:    %[[CODE:.+]] = arith.trunci %[[HIGH]] : i32 to i16
// CHECK-NEXT:    tandem.store_plane %[[CODE]]
tandem.kernel @exact compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16):
  %0 = tandem.load_plane %p[0] : !bf16 -> bf16
  %1 = arith.negf %0 : bf16
  %2 = arith.cmpf olt, %0, %1 : bf16
  %3 = arith.select %2, %0, %1 : bf16
  %4 = math.absf %3 : bf16
  tandem.store_plane %4, %p[0] : bf16, !bf16
  tandem.yield
}

// A product's residual is exact in f32; any other fma is computed in f64.
// CHECK-LABEL: tandem.step @fma
// CHECK:         %[[PRODUCT:.+]] = arith.mulf %[[X:.+]], %[[X]] : f32
// CHECK:         %[[NEGATED:.+]] = arith.negf %[[ROUNDED:.+]] : f32
// CHECK-NEXT:    %[[RESIDUAL:.+]] = math.fma %[[X]], %[[X]], %[[NEGATED]] : f32
// CHECK-NOT:     math.fma
// CHECK:         arith.mulf %{{.+}}, %{{.+}} : f64
// CHECK:         arith.addf %{{.+}}, %{{.+}} : f64
// CHECK:         arith.truncf %{{.+}} : f64 to f32
tandem.kernel @fma compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16):
  %0 = tandem.load_plane %p[0] : !bf16 -> bf16
  %1 = arith.mulf %0, %0 : bf16
  %2 = arith.negf %1 : bf16
  %3 = math.fma %0, %0, %2 : bf16
  %4 = math.fma %0, %0, %3 : bf16
  tandem.store_plane %4, %p[0] : bf16, !bf16
  tandem.yield
}

// A uniform value of the format becomes an f32 slot; rounding it from f64 first
// rounds to f32, to odd.
// CHECK-LABEL: tandem.step @uniform
// CHECK:         arith.truncf %{{.+}} : f64 to f32
// CHECK-NOT:     arith.truncf
// CHECK:         tandem.yield %{{.+}} : f32
// CHECK:       ^bb0(%{{.+}}: !tandem{{.+}}, %[[B:.+]]: f32):
// CHECK:         arith.addf %{{.+}}, %[[B]] : f32
tandem.kernel @uniform compute(<component, bf16>) tensors [#p] scalars [#tandem.role<hyper "b">] prologue {
^bb0(%b: f64):
  %0 = arith.truncf %b : f64 to bf16
  tandem.yield %0 : bf16
} body {
^bb0(%p: !bf16, %b: bf16):
  %0 = tandem.load_plane %p[0] : !bf16 -> bf16
  %1 = arith.addf %0, %b : bf16
  tandem.store_plane %1, %p[0] : bf16, !bf16
  tandem.yield
}

// In a Fast2Sum, the sum and the part of it that comes from the second number are
// rounded, while the error is already a bf16. With a different number, it would not
// be one.
// CHECK-LABEL: tandem.step @sum_error
// CHECK:         %[[SUM:.+]] = arith.addf
// CHECK:         arith.andi
// CHECK:         %[[PART:.+]] = arith.subf
// CHECK:         arith.andi
// CHECK:         %[[ERROR:.+]] = arith.subf %{{.+}}, %{{.+}} : f32
// CHECK-NEXT:    %[[BITS:.+]] = arith.bitcast %[[ERROR]]
// CHECK-NEXT:    %[[HIGH:.+]] = arith.shrui %[[BITS]]
// CHECK-NEXT:    %[[CODE:.+]] = arith.trunci %[[HIGH]]
// CHECK-NEXT:    tandem.store_plane %[[CODE]]
// CHECK:         arith.subf %{{.+}}, %{{.+}} : f32
// CHECK:         arith.andi
// CHECK:         tandem.store_plane
tandem.kernel @sum_error compute(<component, bf16>) tensors [#p, #p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16, %q: !bf16, %r: !bf16):
  %a = tandem.load_plane %p[0] : !bf16 -> bf16
  %b = tandem.load_plane %q[0] : !bf16 -> bf16
  %c = tandem.load_plane %r[0] : !bf16 -> bf16
  %sum = arith.addf %a, %b : bf16
  %part = arith.subf %sum, %a : bf16
  %error = arith.subf %b, %part : bf16
  tandem.store_plane %error, %p[0] : bf16, !bf16
  %other = arith.subf %c, %part : bf16
  tandem.store_plane %other, %q[0] : bf16, !bf16
  tandem.yield
}

// A format that is not listed does not change.
// CHECK-LABEL: tandem.step @other_format
// CHECK:         tandem.load_plane %{{.+}} -> f8E5M2
// CHECK:         arith.mulf %{{.+}}, %{{.+}} : f8E5M2
tandem.kernel @other_format compute(<f32, f32>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f8):
  %0 = tandem.load_plane %p[0] : !f8 -> f8E5M2
  %1 = arith.mulf %0, %0 : f8E5M2
  tandem.store_plane %1, %p[0] : f8E5M2, !f8
  tandem.yield
}

// 8-bit floats are read, rounded and written by separate operations. A number
// keeps the code from its rounding; a negated number gets a new code.
// ALL-LABEL: tandem.step @codes
// ALL:         %[[CODE:.+]] = tandem.load_plane %{{.+}} -> i8
// ALL:         %[[X:.+]] = scaled.decode_float f8E5M2, %[[CODE]] : i8 -> f32
// ALL:         %[[PRODUCT:.+]] = arith.mulf %[[X]], %[[X]] : f32
// ALL:         %[[ROUNDED_CODE:.+]] = scaled.encode_float f8E5M2, %[[PRODUCT]] : f32 -> i8
// ALL:         %[[ROUNDED:.+]] = scaled.decode_float f8E5M2, %[[ROUNDED_CODE]] : i8 -> f32
// ALL:         tandem.store_plane %[[ROUNDED_CODE]]
// ALL:         %[[NEGATED:.+]] = arith.negf %[[ROUNDED]] : f32
// ALL:         %[[NEGATED_CODE:.+]] = scaled.encode_float f8E5M2, exact %[[NEGATED]] : f32 -> i8
// ALL:         tandem.store_plane %[[NEGATED_CODE]]
tandem.kernel @codes compute(<f32, f32>) tensors [#p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !f8, %q: !f8):
  %0 = tandem.load_plane %p[0] : !f8 -> f8E5M2
  %1 = arith.mulf %0, %0 : f8E5M2
  tandem.store_plane %1, %p[0] : f8E5M2, !f8
  %2 = arith.negf %1 : f8E5M2
  tandem.store_plane %2, %q[0] : f8E5M2, !f8
  tandem.yield
}

// A target's conversion rounds to f16 and back. It preserves a NaN's payload,
// which a rounding to bf16 then handles.
// HALF-LABEL: tandem.step @half
// HALF:         %[[CODE:.+]] = tandem.load_plane %{{.+}}[0] {{.+}} -> i16
// HALF-NEXT:    %[[X:.+]] = arith.bitcast %[[CODE]] : i16 to f16
// HALF-NEXT:    %[[WIDE:.+]] = arith.extf %[[X]] : f16 to f32
// HALF-NEXT:    %[[PRODUCT:.+]] = arith.mulf %[[WIDE]], %[[WIDE]] : f32
// HALF-NEXT:    %[[ROUNDED:.+]] = arith.truncf %[[PRODUCT]] : f32 to f16
// HALF-NEXT:    %[[LANE:.+]] = arith.extf %[[ROUNDED]] : f16 to f32
// HALF:         arith.andi %{{.+}}, %{{.+}} : i32
// HALF:         %[[IS_NAN:.+]] = arith.cmpi ugt, %{{.+}}, %{{.+}} : i32
// HALF:         arith.select %[[IS_NAN]]
// HALF:         %[[STORED:.+]] = arith.truncf %[[LANE]] : f32 to f16
// HALF:         %[[BITS:.+]] = arith.bitcast %[[STORED]] : f16 to i16
// HALF:         %[[CANONICAL:.+]] = arith.select %{{.+}}, %{{.+}}, %[[BITS]] : i16
// HALF:         tandem.store_plane %[[CANONICAL]]
tandem.kernel @half compute(<component, f16>) tensors [#p, #p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !tandem.stored<tensor<?xf32>, #tandem.float<f16>>, %q: !bf16):
  %0 = tandem.load_plane %p[0] : !tandem.stored<tensor<?xf32>, #tandem.float<f16>> -> f16
  %1 = arith.mulf %0, %0 : f16
  %2 = arith.extf %1 : f16 to f32
  %3 = arith.truncf %2 : f32 to bf16
  tandem.store_plane %1, %p[0] : f16, !tandem.stored<tensor<?xf32>, #tandem.float<f16>>
  tandem.store_plane %3, %q[0] : bf16, !bf16
  tandem.yield
}
