// RUN: not tandem-opt %s -tandem-apply-strategy 2>&1 | FileCheck %s -check-prefix=NONE
// RUN: not tandem-opt %s -tandem-apply-strategy=strategy=bf17 2>&1 | FileCheck %s -check-prefix=UNKNOWN
// RUN: not tandem-opt %s -tandem-apply-strategy="strategy=mine path=%S/Inputs/strategies" 2>&1 | FileCheck %s -check-prefix=PATH
// RUN: not tandem-translate --tandem-to-ptx %s --strategy=misnamed --strategy-path=%S/Inputs/strategies 2>&1 | FileCheck %s -check-prefix=MISNAMED
// RUN: not tandem-translate --tandem-to-ptx %s --strategy=unreadable --strategy-path=%S/Inputs/strategies 2>&1 | FileCheck %s -check-prefix=UNREADABLE
// RUN: not tandem-run sgd --strategy=bf17 2>&1 | FileCheck %s -check-prefix=TOOL
// RUN: not tandem-run sgd --strategy=unreadable --strategy-path=%S/Inputs/strategies 2>&1 | FileCheck %s -check-prefix=UNREADABLE

// NONE: error: no strategy given; built-in ones are {{.*}}bf16, {{.*}}collage-plus, {{.*}}remainder
// UNKNOWN: error: unknown strategy 'bf17' (did you mean 'bf16'?); built-in ones are {{.*}}bf16, {{.*}}remainder{{.*}}; others are files <name>.mlir on the search path, or defined in the module
// The pass does not read files.
// PATH: no such option path
// MISNAMED: strategies{{.}}misnamed.mlir:1:1: error: the file of strategy 'misnamed' does not define tandem.strategy @"misnamed"

// The only error is in the strategy's file and says what is expected.
// UNREADABLE: strategies{{.}}unreadable.mlir:2:40: {{(error: )?}}expected a code, got f8E4M3FN; codes are #scaled.float, {{.*}} and #scaled.expanded, as in #scaled.float<f8E4M3FN>
// UNREADABLE-NOT: failed to parse
// UNREADABLE-NOT: does not define

// TOOL: error: unknown strategy 'bf17' (did you mean 'bf16'?); built-in ones are
func.func @update(%p: tensor<?xf32> {tandem.role = #tandem.role<param "p">}) -> tensor<?xf32> {
  return %p : tensor<?xf32>
}
