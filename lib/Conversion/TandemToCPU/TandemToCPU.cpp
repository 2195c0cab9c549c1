//===- TandemToCPU.cpp - Kernels as functions for CPUs --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of kernels to functions of the launch ABI
// for CPUs.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "tandem/Conversion/MemoryLimits.h"
#include "tandem/Conversion/Passes.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTTANDEMTOCPU
#include "tandem/Conversion/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
struct ConvertTandemToCPUPass
    : public tandem::impl::ConvertTandemToCPUBase<ConvertTandemToCPUPass> {
  using ConvertTandemToCPUBase::ConvertTandemToCPUBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(verifyLowered(module)))
      return signalPassFailure();
    for (auto step : llvm::make_early_inc_range(module.getOps<StepOp>())) {
      for (LaunchOp launch : step.getLaunchOps()) {
        OpBuilder builder(step);
        CPUKernelBuilder(launch, builder, pairs).build();
      }
      numKernels += llvm::range_size(step.getLaunchOps());
      step.erase();
    }
    if (failed(verifyStack(module)))
      signalPassFailure();
  }
};
} // namespace
