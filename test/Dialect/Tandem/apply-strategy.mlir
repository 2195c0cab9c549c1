// RUN: tandem-opt %s -tandem-apply-strategy=strategy=collage-plus | FileCheck %s
// RUN: cat %S/Inputs/strategies/from-a-file.mlir %s | tandem-opt -tandem-apply-strategy=strategy=from-a-file | FileCheck %s -check-prefix=FILE
// RUN: cat %S/Inputs/strategies/bf16.mlir %s | tandem-opt -tandem-apply-strategy=strategy=bf16 | FileCheck %s -check-prefix=SHADOWED
// RUN: tandem-opt %s -tandem-apply-strategy=strategy=mine | FileCheck %s -check-prefix=MODULE
// RUN: sed 's/@update/@fp32/' %s | tandem-opt -tandem-apply-strategy=strategy=fp32 | FileCheck %s -check-prefix=NAMESAKE

#p = #tandem.role<param "p">
#g = #tandem.role<grad "g">
#m = #tandem.role<state "m", moment = first>
#v = #tandem.role<state "v", moment = second, domain = nonneg>

// The pass removes strategies in the module. Rules apply in order.
// CHECK-NOT: tandem.strategy
// MODULE-NOT: tandem.strategy
tandem.strategy @mine compute(<f32, f32>) {
  tandem.assign state named("m") = #tandem.float<f16>
  tandem.assign state moment(second) = #tandem.float<f8E4M3FN>
  tandem.assign state = #tandem.float<f32>
  tandem.assign param = #tandem.master<bf16>
  tandem.assign grad = #tandem.float<bf16>
}

// CHECK-LABEL: func.func @update(
// CHECK-SAME:      %[[P:[^:]+]]: !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>> {tandem.role = #tandem.role<param "p">}
// CHECK-SAME:      %[[G:[^:]+]]: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> {tandem.role = #tandem.role<grad "g">}
// CHECK-SAME:      %[[M:[^:]+]]: !tandem.stored<tensor<?xf32>, #tandem.float<bf16>> {tandem.role = #tandem.role<state "m", moment = first>}
// CHECK-SAME:      %[[V:[^:]+]]: !tandem.stored<tensor<?xf32>, #tandem.expansion<bf16 x 2>> {tandem.role = #tandem.role<state "v"
// CHECK-SAME:      attributes {tandem.compute = #tandem.compute<component, bf16>}
// CHECK-DAG:     %[[GRAD:.+]] = tandem.decode %[[G]]
// CHECK-DAG:     %[[PARAM:.+]] = tandem.decode %[[P]]
// CHECK-DAG:     %[[FIRST:.+]] = tandem.decode %[[M]]
// CHECK-DAG:     %[[SECOND:.+]] = tandem.decode %[[V]]
// CHECK:         %[[NEW:.+]] = tandem.accumulate %[[PARAM]], %[[GRAD]] : tensor<?xf32>
// CHECK-DAG:     %[[A:.+]] = tandem.encode %[[NEW]] : tensor<?xf32> -> <tensor<?xf32>, #tandem.expansion<bf16 x 2>>
// CHECK-DAG:     %[[B:.+]] = tandem.encode %[[FIRST]] : tensor<?xf32> -> <tensor<?xf32>, #tandem.float<bf16>>
// CHECK-DAG:     %[[C:.+]] = tandem.encode %[[SECOND]] : tensor<?xf32> -> <tensor<?xf32>, #tandem.expansion<bf16 x 2>>
// CHECK:         return %[[A]], %[[B]], %[[C]]

// FILE-LABEL: func.func @update(
// FILE-SAME:      #tandem.kahan<f16>> {tandem.role = #tandem.role<param "p">}
// FILE-SAME:      #tandem.float<f16>> {tandem.role = #tandem.role<grad "g">}
// FILE-SAME:      #tandem.float<f16>> {tandem.role = #tandem.role<state "m", moment = first>}
// FILE-SAME:      #tandem.expansion<f16 x 2>> {tandem.role = #tandem.role<state "v"
// FILE-SAME:      attributes {tandem.compute = #tandem.compute<component, f16>}

// SHADOWED-LABEL: func.func @update(
// SHADOWED-SAME:      #tandem.remainder> {tandem.role = #tandem.role<param "p">}
// SHADOWED-SAME:      #tandem.float<f8E5M2>> {tandem.role = #tandem.role<grad "g">}

// A graph may have the same name as the strategy.
// NAMESAKE-LABEL: func.func @fp32(
// NAMESAKE-SAME:      #tandem.float<f32>> {tandem.role = #tandem.role<param "p">}

// MODULE-LABEL: func.func @update(
// MODULE-SAME:      #tandem.master<bf16>> {tandem.role = #tandem.role<param "p">}
// MODULE-SAME:      #tandem.float<bf16>> {tandem.role = #tandem.role<grad "g">}
// MODULE-SAME:      #tandem.float<f16>> {tandem.role = #tandem.role<state "m", moment = first>}
// MODULE-SAME:      #tandem.float<f8E4M3FN>> {tandem.role = #tandem.role<state "v"
// MODULE-SAME:      attributes {tandem.compute = #tandem.compute<f32, f32>}
func.func @update(%p: tensor<?xf32> {tandem.role = #p}, %g: tensor<?xf32> {tandem.role = #g},
                  %m: tensor<?xf32> {tandem.role = #m}, %v: tensor<?xf32> {tandem.role = #v})
    -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %0 = tandem.accumulate %p, %g : tensor<?xf32>
  return %0, %m, %v : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}

// CHECK-LABEL: func.func @no_graph(
// CHECK-SAME:      tensor<?xf32>) -> tensor<?xf32>
func.func @no_graph(%p: tensor<?xf32>) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}
