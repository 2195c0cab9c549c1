// RUN: tandem-opt %s -tandem-recognize-updates | FileCheck %s

#id = affine_map<(i) -> (i)>
#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
#m = #tandem.role<state "m", moment = first>
#b = #tandem.role<hyper "b">

// CHECK-LABEL: func.func @accumulate(
// CHECK-SAME:      %[[P:.+]]: tensor<?xf32> {{.+}}, %[[G:.+]]: tensor<?xf32> {{[^%]+}})
// CHECK:         %[[NEW:.+]] = tandem.accumulate %[[P]], %[[G]] : tensor<?xf32>
// CHECK:         return %[[NEW]]
func.func @accumulate(%p: tensor<?xf32> {tandem.role = #p},
                      %g: tensor<?xf32> {tandem.role = #g}) -> tensor<?xf32> {
  %0 = arith.addf %g, %p : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// CHECK-LABEL: func.func @subtract(
// CHECK-SAME:      %[[P:.+]]: tensor<?xf32> {{.+}}, %[[G:.+]]: tensor<?xf32> {{[^%]+}})
// CHECK:         %[[D:.+]] = arith.negf %[[G]]
// CHECK:         %[[NEW:.+]] = tandem.accumulate %[[P]], %[[D]]
// CHECK:         return %[[NEW]]
func.func @subtract(%p: tensor<?xf32> {tandem.role = #p},
                    %g: tensor<?xf32> {tandem.role = #g}) -> tensor<?xf32> {
  %0 = arith.subf %p, %g : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// The reversed difference is not an update of p.
// CHECK-LABEL: func.func @subtract_from(
// CHECK-NOT:     tandem.accumulate
// CHECK:         arith.subf
func.func @subtract_from(%p: tensor<?xf32> {tandem.role = #p},
                         %g: tensor<?xf32> {tandem.role = #g}) -> tensor<?xf32> {
  %0 = arith.subf %g, %p : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// CHECK-LABEL: func.func @ema(
// CHECK-SAME:      %[[G:.+]]: tensor<?xf32> {{.+}}, %[[M:.+]]: tensor<?xf32> {{.+}}, %[[B:.+]]: f64
// CHECK:         %[[FACTOR:.+]] = arith.truncf %[[B]] : f64 to f32
// CHECK:         linalg.generic
// CHECK:         ^bb0(%[[GRAD:.+]]: f32, %[[OLD:.+]]: f32):
// CHECK:           %[[NEW:.+]] = tandem.ema %[[OLD]] by %[[FACTOR]] plus %[[GRAD]] : f32
// CHECK:           linalg.yield %[[NEW]]
func.func @ema(%g: tensor<?xf32> {tandem.role = #g}, %m: tensor<?xf32> {tandem.role = #m},
               %b: f64 {tandem.role = #b}) -> tensor<?xf32> {
  %b32 = arith.truncf %b : f64 to f32
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%g : tensor<?xf32>) outs(%m : tensor<?xf32>) {
  ^bb0(%grad: f32, %old: f32):
    %kept = arith.mulf %old, %b32 : f32
    %new = arith.addf %grad, %kept : f32
    linalg.yield %new : f32
  } -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// Decay followed by a sum is one update with two steps, in order.
// CHECK-LABEL: func.func @decay_then_accumulate_then_decay(
// CHECK-SAME:      %[[P:.+]]: tensor<?xf32> {{.+}}, %[[G:.+]]: tensor<?xf32> {{.+}}, %[[B:.+]]: f64
// CHECK:         %[[FACTOR:.+]] = tensor.splat
// CHECK:         %[[SUM:.+]] = tandem.accumulate %[[P]], %[[G]]
// CHECK:         %[[NEW:.+]] = tandem.decay %[[SUM]] by %[[FACTOR]]
// CHECK:         return %[[NEW]]
func.func @decay_then_accumulate_then_decay(
    %p: tensor<?xf32> {tandem.role = #p}, %g: tensor<?xf32> {tandem.role = #g},
    %b: f64 {tandem.role = #b}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %b32 = arith.truncf %b : f64 to f32
  %bs = tensor.splat %b32[%n] : tensor<?xf32>
  %0 = arith.addf %p, %g : tensor<?xf32>
  %1 = arith.mulf %bs, %0 : tensor<?xf32>
  return %1 : tensor<?xf32>
}

// A factor that differs between elements is not a decay.
// CHECK-LABEL: func.func @factor_per_element(
// CHECK-NOT:     tandem.decay
// CHECK:         arith.mulf
func.func @factor_per_element(%p: tensor<?xf32> {tandem.role = #p},
                              %g: tensor<?xf32> {tandem.role = #g}) -> tensor<?xf32> {
  %0 = arith.mulf %p, %g : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// Both operands lead back to p: p itself is nearer than the weight decay.
// CHECK-LABEL: func.func @nearer_operand(
// CHECK-SAME:      %[[P:.+]]: tensor<?xf32> {{.+}}, %[[B:.+]]: f64
// CHECK:         %[[ADDEND:.+]] = arith.mulf
// CHECK:         tandem.accumulate %[[P]], %[[ADDEND]]
func.func @nearer_operand(%p: tensor<?xf32> {tandem.role = #p},
                          %b: f64 {tandem.role = #b}) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : tensor<?xf32>
  %b32 = arith.truncf %b : f64 to f32
  %bs = tensor.splat %b32[%n] : tensor<?xf32>
  %0 = arith.mulf %p, %bs : tensor<?xf32>
  %1 = arith.addf %0, %p : tensor<?xf32>
  return %1 : tensor<?xf32>
}

// An explicit update does not change, and the value that it starts from is named.
// CHECK-LABEL: func.func @written(
// CHECK-SAME:      %[[P:.+]]: tensor<?xf32> {{.+}}, %[[G:.+]]: tensor<?xf32> {{[^%]+}})
// CHECK:         %[[ONE:.+]] = tandem.accumulate %[[P]], %[[G]]
// CHECK:         %[[TWO:.+]] = tandem.accumulate %[[ONE]], %[[G]]
// CHECK:         return %[[TWO]]
func.func @written(%p: tensor<?xf32> {tandem.role = #p},
                   %g: tensor<?xf32> {tandem.role = #g}) -> tensor<?xf32> {
  %0 = arith.addf %p, %g : tensor<?xf32>
  %1 = tandem.accumulate %0, %g : tensor<?xf32>
  return %1 : tensor<?xf32>
}

// A function without roles is not a graph.
// CHECK-LABEL: func.func @no_graph(
// CHECK-NOT:     tandem
// CHECK:         arith.addf
func.func @no_graph(%p: tensor<?xf32>, %g: tensor<?xf32>) -> tensor<?xf32> {
  %0 = arith.addf %p, %g : tensor<?xf32>
  return %0 : tensor<?xf32>
}
