//===- Pipelines.cpp - Named pipelines ------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pipelines.
//
//===----------------------------------------------------------------------===//

#include "tandem/Pipelines/Pipelines.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"

using namespace mlir;
using namespace tandem;

/// Removes what is computed twice or not at all. Both are exact: no fold that
/// changes a bit exists without a fast-math flag, and the former drops those.
template <typename OpTy>
static void addCleanup(OpPassManager &manager) {
  manager.addNestedPass<OpTy>(createSimplify());
  manager.addNestedPass<OpTy>(createCSEPass());
}

void tandem::buildKernelPipeline(OpPassManager &manager,
                                 const KernelPipelineOptions &options) {
  // The graph: what is kept, what is an update, and where each value lies.
  manager.addPass(createConnectSaves());
  manager.addNestedPass<func::FuncOp>(createRecognizeUpdates());
  manager.addPass(createApplyStrategy({options.strategy}));
  // One scalar program...
  manager.addPass(createFormKernel());
  buildLoweringPipeline(manager, options);
}

void tandem::buildLoweringPipeline(OpPassManager &manager,
                                   const KernelPipelineOptions &options) {
  // ... in the policy's arithmetic, on planes.
  if (options.metrics)
    manager.addNestedPass<KernelOp>(createAddMetrics());
  manager.addNestedPass<KernelOp>(createApplyPolicy());
  manager.addNestedPass<KernelOp>(createLowerStorage());
  if (options.flags)
    manager.addNestedPass<KernelOp>(createCheckGradients());
  manager.addNestedPass<KernelOp>(createConvertTranscendentalsToArith());
  manager.addNestedPass<KernelOp>(createConvertMCFToArith());
  manager.addNestedPass<KernelOp>(createConvertScaledToArith());
  addCleanup<KernelOp>(manager);
  manager.addNestedPass<KernelOp>(createAnalyzeRanges());
}

/// Adds upstream's conversions, which lower the function that a kernel has
/// become.
static void addLLVMLowering(OpPassManager &manager) {
  manager.addPass(createLoopInvariantCodeMotionPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
}

void tandem::buildCPUPipeline(OpPassManager &manager,
                              const CPUPipelineOptions &options) {
  manager.addPass(createSplitPhases());
  EmulateFloatsOptions emulation;
  emulation.formats = {"bf16", "f16", "f8E4M3FN", "f8E5M2"};
  emulation.halfConversions = options.halfConversions;
  manager.addNestedPass<StepOp>(createEmulateFloats(emulation));
  ConvertFloatCodesToArithOptions codes;
  codes.halfConversions = options.halfConversions;
  manager.addNestedPass<StepOp>(createConvertFloatCodesToArith(codes));
  addCleanup<StepOp>(manager);
  manager.addNestedPass<StepOp>(createTabulate());
  manager.addNestedPass<StepOp>(createWiden(WidenOptions{options.width}));
  addCleanup<StepOp>(manager);
  manager.addPass(createConvertTandemToCPU());
  addLLVMLowering(manager);
}

void tandem::buildNVVMPipeline(OpPassManager &manager,
                               const NVVMPipelineOptions &options) {
  manager.addPass(createSplitPhases());
  EmulateFloatsOptions emulation;
  emulation.formats = {"f8E4M3FN", "f8E5M2"};
  manager.addNestedPass<StepOp>(createEmulateFloats(emulation));
  addCleanup<StepOp>(manager);
  manager.addNestedPass<StepOp>(createWiden(WidenOptions{options.width}));
  // Pairs of 8-bit floats by the chip, what it cannot convert in integers.
  manager.addNestedPass<StepOp>(createConvertFloatCodesToNVVM({options.chip}));
  manager.addNestedPass<StepOp>(createConvertFloatCodesToArith());
  addCleanup<StepOp>(manager);
  manager.addPass(createConvertTandemToNVVM());
  addLLVMLowering(manager);
}

void tandem::registerPipelines() {
  PassPipelineRegistration<KernelPipelineOptions>(
      "tandem-to-kernel", "Graph and strategy to one kernel on planes",
      buildKernelPipeline);
  PassPipelineRegistration<CPUPipelineOptions>(
      "tandem-to-cpu", "Kernel to the LLVM dialect for CPUs", buildCPUPipeline);
  PassPipelineRegistration<NVVMPipelineOptions>(
      "tandem-to-nvvm", "Kernel to the LLVM dialect for NVIDIA GPUs",
      buildNVVMPipeline);
}
