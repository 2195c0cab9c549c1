//===- Pipelines.h - Named pipelines ----------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the pipelines from graphs to kernels and from kernels to
// CPUs, and the parts that pipelines to other targets share.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PIPELINES_PIPELINES_H
#define TANDEM_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Options of the pipeline from a graph to a kernel.
struct KernelPipelineOptions
    : public PassPipelineOptions<KernelPipelineOptions> {
  Option<std::string> strategy{*this, "strategy",
                               llvm::cl::desc("Name of the strategy")};
  Option<bool> weightAverage{
      *this, "weight-average",
      llvm::cl::desc("Average the weights over steps, as further states")};
  Option<bool> weightOperand{
      *this, "weight-operand",
      llvm::cl::desc("Write the next forward pass's operand from the weights")};
  Option<bool> metrics{*this, "metrics",
                       llvm::cl::desc("Measure the effective descent quality")};
  Option<bool> flags{*this, "flags",
                     llvm::cl::desc("Report gradients that are not finite")};
};

/// Options of the pipeline from a kernel to the LLVM dialect for a CPU.
struct CPUPipelineOptions : public PassPipelineOptions<CPUPipelineOptions> {
  Option<int64_t> width{
      *this, "width", llvm::cl::init(32),
      llvm::cl::desc("Elements per step, a power of two up to 256")};
  Option<bool> halfConversions{
      *this, "half-conversions", llvm::cl::init(false),
      llvm::cl::desc("The CPU converts between f16 and f32")};
  Option<unsigned> lookupCost{
      *this, "lookup-cost", llvm::cl::init(20),
      llvm::cl::desc("The operations that take as long as a table's lookup")};
  Option<unsigned> divisionCost{
      *this, "division-cost", llvm::cl::init(20),
      llvm::cl::desc("The operations that take as long as a quotient or root")};
  Option<bool> pairs{
      *this, "pairs", llvm::cl::init(true),
      llvm::cl::desc("Compute two blocks at a time if each has a group")};
};

/// Builds the pipeline graph -> strategy -> one kernel -> its policy's
/// arithmetic on planes.
void buildKernelPipeline(OpPassManager &manager,
                         const KernelPipelineOptions &options);

/// Builds the second half of that: kernel -> its policy's arithmetic on planes.
/// Parts of a kernel that have been lowered already stay unchanged. The option
/// `strategy` is ignored.
void buildLoweringPipeline(OpPassManager &manager,
                           const KernelPipelineOptions &options);

/// Builds the pipeline kernel -> exact f32 lanes -> vectors -> LLVM dialect
/// with the launch ABI.
void buildCPUPipeline(OpPassManager &manager,
                      const CPUPipelineOptions &options);

/// Registers -tandem-to-kernel and -tandem-to-cpu.
void registerPipelines();

/// Adds the passes that remove repeated and unused computations from operations
/// of one name. Both are exact: folds change bits only if a fast-math flag
/// allows it, and -tandem-form-kernel drops these flags.
void addCleanup(OpPassManager &manager, StringRef operation);

/// Adds the upstream conversions that lower the function which a kernel has
/// become.
void addLLVMLowering(OpPassManager &manager);

} // namespace tandem

#endif // TANDEM_PIPELINES_PIPELINES_H
