// RUN: tandem-opt %s -tandem-add-metrics | FileCheck %s

#p = #tandem.role<param "p">
#m = #tandem.role<state "m">
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>

// The intended update is (b - 1) * p for the decay, plus the addend. States are
// not measured.
// CHECK-LABEL: tandem.kernel @decay_and_accumulate
// CHECK:       ^bb0(%[[WIDE:.+]]: f64):
// CHECK-DAG:     %[[ROUNDED:.+]] = arith.truncf %[[WIDE]] : f64 to f32
// CHECK-DAG:     %[[ONE:.+]] = arith.constant 1.000000e+00 : f64
// CHECK-DAG:     %[[LESS:.+]] = arith.subf %[[WIDE]], %[[ONE]] : f64
// CHECK-DAG:     %[[SLOT:.+]] = arith.truncf %[[LESS]] : f64 to f32
// CHECK:         tandem.yield %[[ROUNDED]], %[[SLOT]] : f32, f32
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[M:.+]]: !tandem{{.+}}, %[[B:.+]]: f32, %[[B1:.+]]: f32):
// CHECK-DAG:     %[[X:.+]] = tandem.load %[[P]]
// CHECK-DAG:     %[[D:.+]] = tandem.load %[[M]]
// CHECK:         %[[NEW:.+]] = tandem.accumulate
// CHECK:         tandem.store %[[NEW]], %[[P]]
// CHECK-DAG:     %[[FACTOR:.+]] = arith.extf %[[B1]] : f32 to f64
// CHECK-DAG:     %[[VALUE:.+]] = arith.extf %[[X]] : f32 to f64
// CHECK-DAG:     %[[DECAY:.+]] = arith.mulf %[[FACTOR]], %[[VALUE]] : f64
// CHECK-DAG:     %[[ADDEND:.+]] = arith.extf %[[D]] : f32 to f64
// CHECK:         %[[INTENDED:.+]] = arith.addf %[[DECAY]], %[[ADDEND]] : f64
// CHECK:         tandem.store %[[D]], %[[M]]
// CHECK-NEXT:    tandem.measure_update %[[INTENDED]], %[[P]] : f64
// CHECK-NOT:     tandem.measure_update
tandem.kernel @decay_and_accumulate compute(<component, bf16>) tensors [#p, #m]
    scalars [#tandem.role<hyper "b">] prologue {
^bb0(%b: f64):
  %0 = arith.truncf %b : f64 to f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !bf16, %m: !bf16, %b: f32):
  %0 = tandem.load %p : !bf16 -> f32
  %1 = tandem.load %m : !bf16 -> f32
  %2 = tandem.decay %0 by %b : f32
  %3 = tandem.accumulate %2, %1 : f32
  tandem.store %3, %p : f32, !bf16
  tandem.store %1, %m : f32, !bf16
  tandem.yield
}

// An ema is both at once.
// CHECK-LABEL: tandem.kernel @ema
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %{{.+}}: f32, %[[B1:.+]]: f32):
// CHECK:         %[[X:.+]] = tandem.load %[[P]]
// CHECK-DAG:     %[[FACTOR:.+]] = arith.extf %[[B1]] : f32 to f64
// CHECK-DAG:     %[[VALUE:.+]] = arith.extf %[[X]] : f32 to f64
// CHECK:         %[[DECAY:.+]] = arith.mulf %[[FACTOR]], %[[VALUE]] : f64
// CHECK:         %[[ADDEND:.+]] = arith.extf %[[X]] : f32 to f64
// CHECK:         %[[INTENDED:.+]] = arith.addf %[[DECAY]], %[[ADDEND]]
// CHECK:         tandem.measure_update %[[INTENDED]], %[[P]]
tandem.kernel @ema compute(<f32, f32>) tensors [#p] scalars [#tandem.role<hyper "b">] prologue {
^bb0(%b: f64):
  %0 = arith.truncf %b : f64 to f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !bf16, %b: f32):
  %0 = tandem.load %p : !bf16 -> f32
  %1 = tandem.ema %0 by %b plus %0 : f32
  tandem.store %1, %p : f32, !bf16
  tandem.yield
}

// A prologue written by hand may yield a value that is not rounded from f64.
// CHECK-LABEL: tandem.kernel @literal_factor
// CHECK:         %[[HALF:.+]] = arith.constant 5.000000e-01 : f32
// CHECK-DAG:     %[[WIDE:.+]] = arith.extf %[[HALF]] : f32 to f64
// CHECK-DAG:     %[[ONE:.+]] = arith.constant 1.000000e+00 : f64
// CHECK:         arith.subf %[[WIDE]], %[[ONE]] : f64
tandem.kernel @literal_factor compute(<f32, f32>) tensors [#p] scalars [] prologue {
  %0 = arith.constant 0.5 : f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !bf16, %b: f32):
  %0 = tandem.load %p : !bf16 -> f32
  %1 = tandem.decay %0 by %b : f32
  tandem.store %1, %p : f32, !bf16
  tandem.yield
}
