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

void tandem::addCleanup(OpPassManager &manager, StringRef operation) {
  manager.nest(operation).addPass(createSimplify());
  manager.nest(operation).addPass(createCSEPass());
}

void tandem::buildKernelPipeline(OpPassManager &manager,
                                 const KernelPipelineOptions &options) {
  // On the graph: connect saves to restores and external steps to the host,
  // find the updates, and give each tensor its storage.
  manager.addPass(createConnectSaves());
  manager.addNestedPass<func::FuncOp>(createConnectExternals());
  if (options.weightAverage)
    manager.addNestedPass<func::FuncOp>(createAddWeightAverage());
  if (options.weightOperand)
    manager.addNestedPass<func::FuncOp>(createAddWeightOperand());
  manager.addNestedPass<func::FuncOp>(createRecognizeUpdates());
  manager.addPass(createApplyStrategy({options.strategy}));
  // Then form one scalar program...
  manager.addPass(createFormKernel());
  buildLoweringPipeline(manager, options);
}

void tandem::buildLoweringPipeline(OpPassManager &manager,
                                   const KernelPipelineOptions &options) {
  // ... and lower it to the policy's arithmetic on planes.
  if (options.metrics)
    manager.addNestedPass<KernelOp>(createAddMetrics());
  manager.addNestedPass<KernelOp>(createApplyPolicy());
  manager.addNestedPass<KernelOp>(createLowerStorage());
  if (options.flags)
    manager.addNestedPass<KernelOp>(createCheckGradients());
  manager.addNestedPass<KernelOp>(createConvertTranscendentalsToArith());
  manager.addNestedPass<KernelOp>(createConvertMCFToArith());
  manager.addNestedPass<KernelOp>(createConvertScaledToArith());
  addCleanup(manager, KernelOp::getOperationName());
  manager.addNestedPass<KernelOp>(createAnalyzeRanges());
}

void tandem::addLLVMLowering(OpPassManager &manager) {
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
  addCleanup(manager, StepOp::getOperationName());
  manager.addNestedPass<StepOp>(createTabulate(TabulateOptions{
      /*rows=*/true, options.lookupCost, options.divisionCost}));
  manager.addNestedPass<StepOp>(createWiden(WidenOptions{options.width}));
  addCleanup(manager, StepOp::getOperationName());
  manager.addPass(createConvertTandemToCPU({options.pairs}));
  addLLVMLowering(manager);
}

void tandem::registerPipelines() {
  PassPipelineRegistration<KernelPipelineOptions>(
      "tandem-to-kernel", "Graph and strategy to one kernel on planes",
      buildKernelPipeline);
  PassPipelineRegistration<CPUPipelineOptions>(
      "tandem-to-cpu", "Kernel to the LLVM dialect for CPUs", buildCPUPipeline);
}
