//===- Pipelines.h - Named pipelines ----------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the pipelines from graphs to kernels and from kernels to
// each target.
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
};

/// Options of the pipeline from a kernel to the LLVM dialect for a GPU.
struct NVVMPipelineOptions : public PassPipelineOptions<NVVMPipelineOptions> {
  Option<int64_t> width{*this, "width", llvm::cl::init(8),
                        llvm::cl::desc("Elements per thread and step")};
  Option<std::string> chip{*this, "chip", llvm::cl::init("sm_90"),
                           llvm::cl::desc("The NVIDIA chip")};
};

/// Graph -> strategy -> one kernel -> its policy's arithmetic on planes.
void buildKernelPipeline(OpPassManager &manager,
                         const KernelPipelineOptions &options);

/// The second half of that: kernel -> its policy's arithmetic on planes. A
/// kernel that is further along keeps what it has. The strategy is not looked
/// at.
void buildLoweringPipeline(OpPassManager &manager,
                           const KernelPipelineOptions &options);

/// Kernel -> exact f32 lanes -> vectors -> LLVM dialect with the launch ABI.
void buildCPUPipeline(OpPassManager &manager,
                      const CPUPipelineOptions &options);

/// Kernel -> 8 elements a thread -> NVVM kernels with the launch ABI.
void buildNVVMPipeline(OpPassManager &manager,
                       const NVVMPipelineOptions &options);

/// Registers -tandem-to-kernel, -tandem-to-cpu and -tandem-to-nvvm.
void registerPipelines();

} // namespace tandem

#endif // TANDEM_PIPELINES_PIPELINES_H
