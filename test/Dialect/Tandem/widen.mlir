// RUN: tandem-opt %s -tandem-split-phases -tandem-widen=width=4 | FileCheck %s
// RUN: tandem-opt %s -tandem-split-phases -tandem-widen=width=1 | FileCheck %s -check-prefix=ONE
// RUN: not tandem-opt %s -tandem-split-phases -tandem-widen=width=6 2>&1 | FileCheck %s -check-prefix=SIX
// RUN: not tandem-opt %s -tandem-split-phases -tandem-widen=width=-8 2>&1 | FileCheck %s -check-prefix=NEGATIVE
// RUN: not tandem-opt %s -tandem-split-phases -tandem-widen=width=512 2>&1 | FileCheck %s -check-prefix=LARGE
// RUN: echo | not tandem-opt -tandem-split-phases -tandem-widen=width=512 2>&1 | FileCheck %s -check-prefix=LARGE

// SIX: error: width must be a power of two up to 256, got 6
// NEGATIVE: error: width must be a power of two up to 256, got -8
// LARGE: error: width must be a power of two up to 256, got 512

#p = #tandem.role<param "p">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

// A value that does not depend on elements stays scalar and is broadcast once.
// CHECK-LABEL: tandem.step @mixed
// CHECK:         arith.truncf %{{.+}} : f64 to f32
// CHECK:         tandem.launch main width(4) body
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[B:.+]]: f32):
// CHECK:         %[[SQUARE:.+]] = arith.mulf %[[B]], %[[B]] : f32
// CHECK-NEXT:    %[[WIDE:.+]] = vector.broadcast %[[SQUARE]] : f32 to vector<4xf32>
// CHECK-NOT:     vector.broadcast
// CHECK:         %[[CODE:.+]] = tandem.load_plane %[[P]][0] {{.+}} -> vector<4xbf16>
// CHECK:         %[[X:.+]] = arith.extf %[[CODE]] : vector<4xbf16> to vector<4xf32>
// CHECK:         %[[Y:.+]] = arith.mulf %[[X]], %[[WIDE]] : vector<4xf32>
// CHECK:         %[[Z:.+]] = arith.addf %[[Y]], %[[WIDE]] : vector<4xf32>
// CHECK:         %[[LESS:.+]] = arith.cmpf olt, %[[Z]], %[[X]] : vector<4xf32>
// CHECK:         %[[CHOSEN:.+]] = arith.select %[[LESS]], %[[X]], %[[Z]] : vector<4xi1>, vector<4xf32>
// CHECK:         %[[ROUNDED:.+]] = arith.truncf %[[CHOSEN]] : vector<4xf32> to vector<4xbf16>
// CHECK:         tandem.store_plane %[[ROUNDED]], %[[P]][0] : vector<4xbf16>

// ONE-LABEL: tandem.step @mixed
// ONE:         tandem.launch main body
// ONE-NOT:     vector
tandem.kernel @mixed compute(<f32, f32>) tensors [#p] scalars [#tandem.role<hyper "b">] prologue {
^bb0(%b: f64):
  %0 = arith.truncf %b : f64 to f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !bf16, %b: f32):
  %0 = arith.mulf %b, %b : f32
  %1 = tandem.load_plane %p[0] : !bf16 -> bf16
  %2 = arith.extf %1 : bf16 to f32
  %3 = arith.mulf %2, %0 : f32
  %4 = arith.addf %3, %0 : f32
  %5 = arith.cmpf olt, %4, %2 : f32
  %6 = arith.select %5, %2, %4 : f32
  %7 = arith.truncf %6 : f32 to bf16
  tandem.store_plane %7, %p[0] : bf16, !bf16
  tandem.yield
}

// The random bits of consecutive elements are derived from uniform numbers. A
// stored uniform value is broadcast.
// CHECK-LABEL: tandem.step @random
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[S:.+]]: i32):
// CHECK-DAG:     %[[BITS:.+]] = tandem.random_bits %[[P]] seed(%[[S]], %[[S]]) step(%[[S]]) : {{.+}} -> vector<4xi32>
// CHECK-DAG:     %[[ALL:.+]] = vector.broadcast %[[S]] : i32 to vector<4xi32>
// CHECK:         %[[SUM:.+]] = arith.addi %[[BITS]], %[[ALL]] : vector<4xi32>
// CHECK:         tandem.store_plane %{{.+}} : vector<4xi16>
// CHECK:         tandem.metric %{{.+}}[0] : vector<4xf64>
// CHECK:         tandem.set_flag %{{.+}}[1] : vector<4xi1>
tandem.kernel @random compute(<f32, f32>) tensors [#p] scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} body {
^bb0(%p: !bf16, %s: i32):
  %0 = tandem.random_bits %p seed(%s, %s) step(%s) : !bf16 -> i32
  %1 = arith.addi %0, %s : i32
  %2 = arith.trunci %1 : i32 to i16
  tandem.store_plane %2, %p[0] : i16, !bf16
  %3 = arith.uitofp %1 : i32 to f64
  tandem.metric %3[0] : f64
  %4 = arith.cmpi sgt, %0, %1 : i32
  tandem.set_flag %4[1] : i1
  tandem.yield
}
