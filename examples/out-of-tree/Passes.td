//===- Passes.td - The passes of an out-of-tree project ----*- tablegen -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MY_TANDEM_PASSES_TD
#define MY_TANDEM_PASSES_TD

include "mlir/Pass/PassBase.td"

def CountRoundings : Pass<"count-roundings", "::tandem::KernelOp"> {
  let summary = "Count the operations of a kernel that round";
  let description = [{
    Counts, for each float format, the operations of a kernel's body whose
    result is rounded to it, and keeps the counts in the attribute `roundings`:
    how many roundings each element sees in one step. The exact operations of
    arith and math (negation, comparison, minimum, widening conversions, the
    remainder) do not count, nor does the prologue, which runs once a launch.

    The kernel is one on planes, as `-tandem-to-kernel` makes it. Before that
    the roundings are not yet spelled out, and the pass says so.

    Example: `test/count-roundings.mlir`

    ```mlir
    %0 = arith.mulf %a, %b : f32
    %1 = arith.truncf %0 : f32 to bf16
    // the kernel gets
    attributes {roundings = {bf16 = 1 : i64, f32 = 1 : i64}}
    ```
  }];
  let options = [
    Option<"remark", "remark", "bool", "false",
           "Report the roundings to the format that the kernel computes in">,
  ];
  let statistics = [
    Statistic<"numRoundings", "roundings", "Number of operations that round">,
  ];
}

#endif // MY_TANDEM_PASSES_TD
