// RUN: tandem-opt %s -tandem-add-weight-average -split-input-file | FileCheck %s

// A graph without a step gets one. The average comes after all other tensors, so that
// their random bits stay the same.

// CHECK-LABEL: func.func @sgd(
// CHECK-SAME:    tensor<?xf32> {tandem.role = #tandem.role<param "param">}
// CHECK-SAME:    tensor<?xf32> {tandem.role = #tandem.role<grad "grad">}
// CHECK-SAME:    %[[EMA:[^:]+]]: tensor<?xf32> {tandem.role = #tandem.role<state "ema", moment = average>}
// CHECK-SAME:    f32 {tandem.role = #tandem.role<hyper "lr">}
// CHECK-SAME:    %[[STEP:[^:]+]]: i64 {tandem.role = #tandem.role<step "step">}
// CHECK-SAME:    %[[DECAY:[^:]+]]: f64 {tandem.role = #tandem.role<hyper "ema_decay", domain = unit, default = {{0.99[0-9]+}}>}
// CHECK-SAME:    -> (tensor<?xf32>, tensor<?xf32>)
func.func @sgd(%param: tensor<?xf32> {tandem.role = #tandem.role<param "param">},
               %grad: tensor<?xf32> {tandem.role = #tandem.role<grad "grad">},
               %lr: f32 {tandem.role = #tandem.role<hyper "lr">}) -> tensor<?xf32> {
  // CHECK:      %[[NEW:.+]] = linalg.map
  %new = linalg.map ins(%param, %grad : tensor<?xf32>, tensor<?xf32>) outs(%param : tensor<?xf32>)
    (%p: f32, %g: f32, %out: f32) {
      %change = arith.mulf %lr, %g : f32
      %sum = arith.subf %p, %change : f32
      linalg.yield %sum : f32
    }
  // CHECK-DAG:  %[[ONE:.+]] = arith.constant 1.000000e+00 : f64
  // CHECK:      %[[NEWEST:.+]] = arith.subf %[[ONE]], %[[DECAY]] : f64
  // CHECK:      %[[POWER:.+]] = math.fpowi %[[DECAY]], %[[STEP]] : f64, i64
  // CHECK:      %[[ALL:.+]] = arith.subf %[[ONE]], %[[POWER]] : f64
  // CHECK:      %[[SHARE:.+]] = arith.divf %[[NEWEST]], %[[ALL]] : f64
  // CHECK:      %[[RATE:.+]] = arith.truncf %[[SHARE]] : f64 to f32
  // CHECK:      %[[AVERAGE:.+]] = linalg.generic {{.*}} ins(%[[NEW]] : tensor<?xf32>) outs(%[[EMA]] : tensor<?xf32>)
  // CHECK-NEXT: ^bb0(%[[VALUE:.+]]: f32, %[[OLD:.+]]: f32):
  // CHECK-NEXT:   %[[DIFFERENCE:.+]] = arith.subf %[[VALUE]], %[[OLD]] : f32
  // CHECK-NEXT:   %[[CHANGE:.+]] = arith.mulf %[[RATE]], %[[DIFFERENCE]] : f32
  // CHECK-NEXT:   %[[SUM:.+]] = arith.addf %[[OLD]], %[[CHANGE]] : f32
  // CHECK-NEXT:   linalg.yield %[[SUM]] : f32
  // CHECK:      return %[[NEW]], %[[AVERAGE]] : tensor<?xf32>, tensor<?xf32>
  return %new : tensor<?xf32>
}

// -----

// Each of several params has an average, in two dimensions here.

// CHECK-LABEL: func.func @two(
// CHECK-SAME:    #tandem.role<state "ema_a", moment = average>
// CHECK-SAME:    #tandem.role<state "ema_b", moment = average>
// CHECK-SAME:    #tandem.role<step "t">
// CHECK-COUNT-2: linalg.generic {indexing_maps = [#{{.+}}, #{{.+}}], iterator_types = ["parallel", "parallel"]}
func.func @two(%a: tensor<?x?xf32> {tandem.role = #tandem.role<param "a">},
               %b: tensor<?x?xf32> {tandem.role = #tandem.role<param "b">},
               %t: i64 {tandem.role = #tandem.role<step "t">}) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  return %b, %a : tensor<?x?xf32>, tensor<?x?xf32>
}
