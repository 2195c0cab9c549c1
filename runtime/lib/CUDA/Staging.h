//===- Staging.h - Memory on its way to a GPU -------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares memory that the host writes and a GPU reads later: the
// arguments of launches, and tables on their way to the device.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_STAGING_H
#define TANDEM_RUNTIME_LIB_CUDA_STAGING_H

#include "CUDADevice.h"

namespace tandem::runtime::cuda {

/// Room for the arguments of launches, taken in turn. The host waits only if it
/// is hundreds of launches ahead of the device.
class ArgumentRing {
public:
  /// Stores in \p place where the next launch has \p bytes for its arguments.
  tdm_status take(const std::shared_ptr<const CUDADevice> &device, size_t bytes,
                  char *&place);
  /// Tells that \p stream has the launch that reads them.
  tdm_status use(Stream stream) { return current->use(stream); }

private:
  static constexpr size_t numSegments = 4, maxSlots = 64;

  tdm_status allocate(const std::shared_ptr<const CUDADevice> &device,
                      size_t bytes);

  /// Slots that are given back together.
  SharedMemory segments[numSegments];
  SharedMemory *current = nullptr;
  size_t slotBytes = 0, slotsPerSegment = 0;
  /// The number of slots that have been taken.
  size_t taken = 0;
};

/// Buffers from which tables are copied to the device, taken in turn.
class StagingBuffers {
public:
  /// A buffer of \p bytes that the device does not read any more. Waits only if
  /// the host is many copies ahead of the device.
  tdm_status take(const std::shared_ptr<const CUDADevice> &device, size_t bytes,
                  SharedMemory *&buffer);

private:
  static constexpr size_t most = 8;

  std::unique_ptr<SharedMemory> buffers[most];
  size_t next = 0;
};

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_STAGING_H
