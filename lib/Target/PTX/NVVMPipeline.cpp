//===- NVVMPipeline.cpp - The pipeline to NVVM kernels --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pipeline from kernels to NVIDIA GPUs.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/PTX/NVVMPipeline.h"
#include "mlir/Pass/PassRegistry.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Conversion/TandemToNVVM/Passes.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Pipelines/Pipelines.h"

using namespace mlir;
using namespace tandem;

/// The cost of a lookup in shared memory. The load, its address computation and
/// bank conflicts take as long as some 12 operations.
static constexpr TabulateOptions sharedTables{/*rows=*/false,
                                              /*lookupCost=*/12,
                                              /*divisionCost=*/20};

void tandem::addSmallFloatLowering(OpPassManager &manager) {
  EmulateFloatsOptions emulation;
  emulation.formats = {"f8E4M3FN", "f8E5M2"};
  manager.addNestedPass<StepOp>(createEmulateFloats(emulation));
  addCleanup(manager, StepOp::getOperationName());
  manager.addNestedPass<StepOp>(createTabulate(sharedTables));
  addCleanup(manager, StepOp::getOperationName());
}

void tandem::buildNVVMPipeline(OpPassManager &manager,
                               const NVVMPipelineOptions &options) {
  manager.addPass(createSplitPhases());
  addSmallFloatLowering(manager);
  manager.addNestedPass<StepOp>(createWiden(WidenOptions{options.width}));
  // Convert pairs of 8-bit floats with the chip's instructions, and expand what
  // it cannot convert into integer operations.
  manager.addNestedPass<StepOp>(createConvertFloatCodesToNVVM({options.chip}));
  manager.addNestedPass<StepOp>(createConvertFloatCodesToArith());
  addCleanup(manager, StepOp::getOperationName());
  manager.addPass(createConvertTandemToNVVM());
  manager.addPass(createConvertNaNsToNVVM());
  manager.addPass(createConvertBytesToNVVM());
  addLLVMLowering(manager);
}

void tandem::registerNVVMPipeline() {
  registerTandemToNVVMPasses();
  PassPipelineRegistration<NVVMPipelineOptions>(
      "tandem-to-nvvm", "Kernel to the LLVM dialect for NVIDIA GPUs",
      buildNVVMPipeline);
}
