//===- Staging.h - Memory on its way to a GPU -------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares memory that the host writes and a GPU reads later: the
// arguments of launches, and tables that are copied to the device.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_STAGING_H
#define TANDEM_RUNTIME_LIB_CUDA_STAGING_H

#include "CUDADevice.h"

namespace tandem::runtime::cuda {

/// A ring buffer for the arguments of launches. The host waits only if it is
/// hundreds of launches ahead of the device.
class ArgumentRing {
public:
  /// Stores in \p place the address of \p bytes for the arguments of the next
  /// launch.
  tdm_status take(const std::shared_ptr<const CUDADevice> &device, size_t bytes,
                  char *&place);
  /// Marks the latest slot as in use by the work in \p stream so far.
  tdm_status use(Stream stream) { return current->use(stream); }

private:
  static constexpr size_t numSegments = 4, maxSlots = 64;

  tdm_status allocate(const std::shared_ptr<const CUDADevice> &device,
                      size_t bytes);

  /// Groups of slots that are released together.
  SharedMemory segments[numSegments];
  SharedMemory *current = nullptr;
  size_t slotBytes = 0, slotsPerSegment = 0;
  /// The number of slots that have been taken.
  size_t taken = 0;
};

/// A ring of buffers from which tables are copied to the device.
class StagingBuffers {
public:
  /// Stores in \p buffer one of at least \p bytes that the device no longer
  /// reads. Waits only if the host is many copies ahead of the device.
  tdm_status take(const std::shared_ptr<const CUDADevice> &device, size_t bytes,
                  SharedMemory *&buffer);

private:
  static constexpr size_t most = 8;

  std::unique_ptr<SharedMemory> buffers[most];
  size_t next = 0;
};

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_STAGING_H
