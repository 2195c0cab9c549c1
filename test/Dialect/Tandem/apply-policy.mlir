// RUN: tandem-opt %s -tandem-apply-policy | FileCheck %s

#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
!f32 = !tandem.stored<tensor<?xf32>, #tandem.float<f32>>
!bf16 = !tandem.stored<tensor<?xf32>, #tandem.float<bf16>>
!pair = !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>>
!kahan = !tandem.stored<tensor<?xf32>, #tandem.kahan<bf16>>

// Under the f32 policy, an update is the arithmetic that it names, and a store
// encodes f32.
// CHECK-LABEL: tandem.kernel @f32
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[G:.+]]: !tandem{{.+}}, %[[B:.+]]: f32):
// CHECK-NEXT:    %[[X:.+]] = tandem.load %[[P]] {{.+}} -> f32
// CHECK-NEXT:    %[[Y:.+]] = tandem.load %[[G]] {{.+}} -> f32
// CHECK-NEXT:    %[[DECAYED:.+]] = arith.mulf %[[B]], %[[X]] : f32
// CHECK-NEXT:    %[[KEPT:.+]] = arith.mulf %[[B]], %[[DECAYED]] : f32
// CHECK-NEXT:    %[[MEAN:.+]] = arith.addf %[[KEPT]], %[[Y]] : f32
// CHECK-NEXT:    %[[SUM:.+]] = arith.addf %[[MEAN]], %[[Y]] : f32
// CHECK-NEXT:    tandem.store %[[SUM]], %[[P]] : f32
tandem.kernel @f32 compute(<f32, f32>) tensors [#p, #g] scalars [#tandem.role<hyper "b">] prologue {
^bb0(%b: f64):
  %0 = arith.truncf %b : f64 to f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !pair, %g: !bf16, %b: f32):
  %0 = tandem.load %p : !pair -> f32
  %1 = tandem.load %g : !bf16 -> f32
  %2 = tandem.decay %0 by %b : f32
  %3 = tandem.ema %2 by %b plus %1 : f32
  %4 = tandem.accumulate %3, %1 : f32
  tandem.store %4, %p : f32, !pair
  tandem.yield
}

// Each operation rounds to bf16. An operation with an f32 uniform value first
// rounds to f32; its other operand is widened exactly.
// CHECK-LABEL: tandem.kernel @rounding
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[B:.+]]: f32):
// CHECK-NEXT:    %[[X:.+]] = tandem.load %[[P]] {{.+}} -> bf16
// CHECK-NEXT:    %[[SQUARE:.+]] = arith.mulf %[[X]], %[[X]] : bf16
// CHECK-NEXT:    %[[WIDE:.+]] = arith.extf %[[SQUARE]] : bf16 to f32
// CHECK-NEXT:    %[[SUM:.+]] = arith.addf %[[WIDE]], %[[B]] : f32
// CHECK-NEXT:    %[[ROUNDED:.+]] = arith.truncf %[[SUM]] : f32 to bf16
// CHECK-NEXT:    %[[ROOT:.+]] = math.sqrt %[[ROUNDED]] : bf16
// CHECK-NEXT:    tandem.store %[[ROOT]], %[[P]] : bf16
tandem.kernel @rounding compute(<component, bf16>) tensors [#p] scalars [#tandem.role<hyper "b">] prologue {
^bb0(%b: f64):
  %0 = arith.truncf %b : f64 to f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !bf16, %b: f32):
  %0 = tandem.load %p : !bf16 -> f32
  %1 = arith.mulf %0, %0 : f32
  %2 = arith.addf %1, %b : f32
  %3 = math.sqrt %2 : f32
  tandem.store %3, %p : f32, !bf16
  tandem.yield
}

// A comparison has no float result to round; its operands are components.
// CHECK-LABEL: tandem.kernel @comparison
// CHECK:         %[[X:.+]] = tandem.load {{.+}} -> bf16
// CHECK:         %[[NEGATIVE:.+]] = arith.negf %[[X]] : bf16
// CHECK:         %[[LESS:.+]] = arith.cmpf olt, %[[X]], %[[NEGATIVE]] : bf16
// CHECK:         %[[CHOSEN:.+]] = arith.select %[[LESS]], %[[X]], %[[NEGATIVE]] : bf16
// CHECK:         tandem.store %[[CHOSEN]]
tandem.kernel @comparison compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16):
  %0 = tandem.load %p : !bf16 -> f32
  %1 = arith.negf %0 : f32
  %2 = arith.cmpf olt, %0, %1 : f32
  %3 = arith.select %2, %0, %1 : f32
  tandem.store %3, %p : f32, !bf16
  tandem.yield
}

// A gradient wider than the component format is rounded as it is loaded.
// CHECK-LABEL: tandem.kernel @wide_gradient
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[G:.+]]: !tandem{{.+}}):
// CHECK-DAG:     %[[X:.+]] = tandem.load %[[P]] {{.+}} -> bf16
// CHECK-DAG:     %[[Y:.+]] = tandem.load %[[G]] {{.+}} -> bf16
// CHECK:         %[[SUM:.+]] = arith.addf %[[X]], %[[Y]] : bf16
// CHECK:         tandem.store %[[SUM]], %[[P]]
tandem.kernel @wide_gradient compute(<component, bf16>) tensors [#p, #g] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16, %g: !f32):
  %0 = tandem.load %p : !bf16 -> f32
  %1 = tandem.load %g : !f32 -> f32
  %2 = tandem.accumulate %0, %1 : f32
  tandem.store %2, %p : f32, !bf16
  tandem.yield
}

// Only an expansion's own update reads it as a whole; other uses read the
// leading component. Its decay multiplies by the factor split in two from f64.
// CHECK-LABEL: tandem.kernel @expansion
// CHECK:       ^bb0(%[[WIDE:.+]]: f64):
// CHECK-DAG:     %[[HIGH:.+]] = arith.truncf %[[WIDE]] : f64 to bf16
// CHECK-DAG:     %[[BACK:.+]] = arith.extf %[[HIGH]] : bf16 to f64
// CHECK-DAG:     %[[REST:.+]] = arith.subf %[[WIDE]], %[[BACK]] : f64
// CHECK-DAG:     %[[LOW:.+]] = arith.truncf %[[REST]] : f64 to bf16
// CHECK:         tandem.yield %{{.+}}, %[[HIGH]], %[[LOW]] : f32, bf16, bf16
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[B:.+]]: f32, %[[B0:.+]]: bf16, %[[B1:.+]]: bf16):
// CHECK-DAG:     %[[FACTOR:.+]] = mcf.pack %[[B0]], %[[B1]] : !mcf.expansion<bf16 x 2>
// CHECK-DAG:     %[[WHOLE:.+]] = tandem.load %[[P]] {{.+}} -> !mcf.expansion<bf16 x 2>
// CHECK:         %[[PARTS:.+]]:2 = mcf.components %[[WHOLE]]
// CHECK:         %[[SQUARE:.+]] = arith.mulf %[[PARTS]]#0, %{{.+}} : bf16
// CHECK:         %[[DECAYED:.+]] = mcf.mul %[[FACTOR]], %[[WHOLE]]
// CHECK:         %[[GROWN:.+]] = mcf.grow %[[DECAYED]], %[[SQUARE]]
// CHECK:         %[[AGAIN:.+]] = mcf.grow %[[GROWN]], %[[SQUARE]]
// CHECK:         tandem.store %[[AGAIN]], %[[P]] : !mcf.expansion<bf16 x 2>
tandem.kernel @expansion compute(<component, bf16>) tensors [#p] scalars [#tandem.role<hyper "b">] prologue {
^bb0(%b: f64):
  %0 = arith.truncf %b : f64 to f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !pair, %b: f32):
  %0 = tandem.load %p : !pair -> f32
  %1 = arith.mulf %0, %0 : f32
  %2 = tandem.ema %0 by %b plus %1 : f32
  %3 = tandem.accumulate %2, %1 : f32
  tandem.store %3, %p : f32, !pair
  tandem.yield
}

// The compensation does not decay.
// CHECK-LABEL: tandem.kernel @kahan
// CHECK:       ^bb0(%[[P:.+]]: !tandem{{.+}}, %[[B:.+]]: f32):
// CHECK:         %[[WHOLE:.+]] = tandem.load %[[P]] {{.+}} -> !mcf.expansion<bf16 x 2>
// CHECK:         %[[PARTS:.+]]:2 = mcf.components %[[WHOLE]]
// CHECK:         %[[VALUE:.+]] = arith.extf %[[PARTS]]#0 : bf16 to f32
// CHECK:         %[[PRODUCT:.+]] = arith.mulf %[[VALUE]], %[[B]] : f32
// CHECK:         %[[ROUNDED:.+]] = arith.truncf %[[PRODUCT]] : f32 to bf16
// CHECK:         %[[DECAYED:.+]] = mcf.pack %[[ROUNDED]], %[[PARTS]]#1
// CHECK:         %[[LEADING:.+]]:2 = mcf.components %[[DECAYED]]
// CHECK:         %[[SUM:.+]] = mcf.kahan %[[DECAYED]], %[[LEADING]]#0
// CHECK:         tandem.store %[[SUM]], %[[P]]
tandem.kernel @kahan compute(<component, bf16>) tensors [#p] scalars [#tandem.role<hyper "b">] prologue {
^bb0(%b: f64):
  %0 = arith.truncf %b : f64 to f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !kahan, %b: f32):
  %0 = tandem.load %p : !kahan -> f32
  %1 = tandem.decay %0 by %b : f32
  %2 = tandem.accumulate %1, %1 : f32
  tandem.store %2, %p : f32, !kahan
  tandem.yield
}

// A prologue written by hand may yield a value that is not rounded from f64.
// CHECK-LABEL: tandem.kernel @literal_factor
// CHECK:         %[[HALF:.+]] = arith.constant 5.000000e-01 : f32
// CHECK:         %[[WIDE:.+]] = arith.extf %[[HALF]] : f32 to f64
// CHECK:         %[[HIGH:.+]] = arith.truncf %[[WIDE]] : f64 to bf16
// CHECK:         tandem.yield %[[HALF]], %[[HIGH]], %{{.+}} : f32, bf16, bf16
tandem.kernel @literal_factor compute(<component, bf16>) tensors [#p] scalars [] prologue {
  %0 = arith.constant 0.5 : f32
  tandem.yield %0 : f32
} body {
^bb0(%p: !pair, %b: f32):
  %0 = tandem.load %p : !pair -> f32
  %1 = tandem.decay %0 by %b : f32
  tandem.store %1, %p : f32, !pair
  tandem.yield
}

// A flag is raised by a condition on components, and a metric is a sum in f64.
// CHECK-LABEL: tandem.kernel @reported
// CHECK:         %[[VALUE:.+]] = tandem.load %{{.+}} -> bf16
// CHECK:         %[[REAL:.+]] = arith.extf %[[VALUE]] : bf16 to f32
// CHECK:         %[[IS_ZERO:.+]] = arith.cmpf oeq, %[[REAL]], %{{.+}} : f32
// CHECK:         tandem.set_flag %[[IS_ZERO]][2] : i1
// CHECK:         %[[WIDE:.+]] = arith.extf %[[VALUE]] : bf16 to f64
// CHECK:         tandem.metric %[[WIDE]][0] : f64
tandem.kernel @reported compute(<component, bf16>) tensors [#p] scalars [] prologue {
  tandem.yield
} body {
^bb0(%p: !bf16):
  %0 = tandem.load %p : !bf16 -> f32
  %zero = arith.constant 0.0 : f32
  %1 = arith.cmpf oeq, %0, %zero : f32
  tandem.set_flag %1[2] : i1
  %2 = arith.extf %0 : f32 to f64
  tandem.metric %2[0] : f64
  tandem.yield
}

// A maximum of bits is a maximum of integers.
// CHECK-LABEL: tandem.kernel @bits
// CHECK:         tandem.reduce max %{{.+}} group(256) : i32
tandem.kernel @bits compute(<component, bf16>) tensors [#p] scalars [#tandem.role<seed "s">] prologue {
^bb0(%s: i64):
  %0 = arith.trunci %s : i64 to i32
  tandem.yield %0 : i32
} body {
^bb0(%p: !bf16, %s: i32):
  %0 = tandem.reduce max %s group(256) : i32
  tandem.yield
}
