// RUN: not tandem-opt %s -tandem-apply-strategy 2>&1 | FileCheck %s -check-prefix=NONE
// RUN: not tandem-opt %s -tandem-apply-strategy=strategy=bf17 2>&1 | FileCheck %s -check-prefix=UNKNOWN
// RUN: not tandem-opt %s -tandem-apply-strategy="strategy=misnamed path=%S/Inputs/strategies" 2>&1 | FileCheck %s -check-prefix=MISNAMED

// NONE: error: no strategy given; built-in ones are {{.*}}bf16, {{.*}}collage-plus, {{.*}}remainder
// UNKNOWN: error: unknown strategy 'bf17'; built-in ones are {{.*}}bf16, {{.*}}remainder{{.*}}; others are files <name>.mlir on the search path
// MISNAMED: error: the file of strategy 'misnamed' does not define tandem.strategy @"misnamed"
func.func @update(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}
