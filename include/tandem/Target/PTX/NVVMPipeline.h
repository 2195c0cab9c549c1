//===- NVVMPipeline.h - The pipeline to NVVM kernels ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the pipeline from kernels to NVIDIA GPUs.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_PTX_NVVMPIPELINE_H
#define TANDEM_TARGET_PTX_NVVMPIPELINE_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Options of the pipeline from a kernel to the LLVM dialect for a GPU.
struct NVVMPipelineOptions : public PassPipelineOptions<NVVMPipelineOptions> {
  Option<int64_t> width{*this, "width", llvm::cl::init(8),
                        llvm::cl::desc("Elements per thread and step")};
  Option<std::string> chip{*this, "chip", llvm::cl::init("sm_90"),
                           llvm::cl::desc("The NVIDIA chip")};
};

/// Adds the passes that lower 8-bit floats to f32 and replace functions of
/// bytes by tables.
void addSmallFloatLowering(OpPassManager &manager);

/// Builds the pipeline kernel -> 8 elements a thread -> NVVM kernels with the
/// launch ABI.
void buildNVVMPipeline(OpPassManager &manager,
                       const NVVMPipelineOptions &options);

/// Registers -tandem-to-nvvm and its passes.
void registerNVVMPipeline();

} // namespace tandem

#endif // TANDEM_TARGET_PTX_NVVMPIPELINE_H
