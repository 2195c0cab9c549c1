//===- CUDAExecutable.h - A kernel's code on a GPU --------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares a kernel's code on a GPU.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_CUDAEXECUTABLE_H
#define TANDEM_RUNTIME_LIB_CUDA_CUDAEXECUTABLE_H

#include "CUDADevice.h"
#include "Kernel.h"
#include "tandem-runtime/tandem_launch.h"

namespace tandem::runtime::cuda {

/// The number of threads in a block of every function except for the prologue.
constexpr int blockThreads = TDM_LAUNCH_BLOCK_THREADS;

/// A function on a GPU, or null if there is nothing to do.
struct Part {
  Function function = nullptr;
  /// The number of blocks that the device runs concurrently.
  int64_t mostBlocks = 1;
};

/// A phase, the functions that compute the totals of its reductions, and the
/// function that runs it and the phases fused with it.
struct PhaseParts {
  Part entry, totals, model, rowTotals, columnTotals, bands;
};

/// A part that runs after the last phase.
struct EpiloguePart {
  Part part;
  /// The unit that the part runs over; elements stand for tensors.
  tdm_granularity per;
};

/// The code of a kernel in the memory of a device.
class CUDAExecutable : public Executable {
public:
  /// Loads an image with the functions that \p info names.
  static tdm_status load(std::shared_ptr<const CUDADevice> device,
                         const Kernel &kernel, const tdm_kernel_info &info,
                         const tdm_image &image,
                         std::shared_ptr<const Executable> &result);
  explicit CUDAExecutable(std::shared_ptr<const CUDADevice> device)
      : device(std::move(device)) {}
  ~CUDAExecutable() override;

  std::unique_ptr<Plan>
  createPlan(std::shared_ptr<const Kernel> kernel) const override;

  const std::shared_ptr<const CUDADevice> device;
  Part prologue;
  std::vector<PhaseParts> phases;
  std::vector<EpiloguePart> epilogues;
  uint32_t flags = 0;

private:
  tdm_status loadImage(const Kernel &kernel, const tdm_image &image);
  /// Compiles PTX, or finds its machine code in the cache.
  tdm_status compile(const Kernel &kernel, const tdm_image &image,
                     std::string &machineCode) const;
  tdm_status link(const Kernel &kernel, const tdm_image &image,
                  std::string &machineCode) const;
  tdm_status findParts(const Kernel &kernel, const tdm_kernel_info &info);
  tdm_status findTotals(const Kernel &kernel, uint32_t phase,
                        const std::string &entry);
  tdm_status find(const Kernel &kernel, const std::string &name, int threads,
                  Part &part);

  Module module = nullptr;
};

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_CUDAEXECUTABLE_H
