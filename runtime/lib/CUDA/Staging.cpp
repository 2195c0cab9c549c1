//===- Staging.cpp - Memory on its way to a GPU ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements memory that the host writes and a GPU reads later.
//
//===----------------------------------------------------------------------===//

#include "Staging.h"

#include <algorithm>

using namespace tandem::runtime;
using namespace tandem::runtime::cuda;

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

void ArgumentRing::reset() {
  // Launches may be reading a segment that no event has been recorded for.
  if (device && taken)
    device->release([&] { device->driver.ctxSynchronize(); });
  for (SharedMemory &segment : segments)
    segment = SharedMemory();
  slotBytes = taken = 0;
}

tdm_status
ArgumentRing::allocate(const std::shared_ptr<const CUDADevice> &owner,
                       size_t bytes) {
  constexpr size_t alignment = 64, segmentBytes = 1 << 16;
  reset();
  device = owner;
  size_t rounded = (bytes / alignment + 1) * alignment;
  slotsPerSegment = std::clamp<size_t>(segmentBytes / rounded, 1, maxSlots);
  for (SharedMemory &segment : segments)
    if (tdm_status status = segment.allocate(device, rounded * slotsPerSegment))
      return status;
  slotBytes = rounded;
  return TDM_OK;
}

tdm_status ArgumentRing::take(const std::shared_ptr<const CUDADevice> &owner,
                              size_t bytes, Stream stream, char *&place) {
  if (bytes > slotBytes)
    if (tdm_status status = allocate(owner, bytes))
      return status;
  size_t number = taken / slotsPerSegment, slot = taken % slotsPerSegment;
  SharedMemory &segment = segments[number % numSegments];
  if (slot == 0 && number > 0) {
    // All launches that read the segment before are in the stream by now.
    if (tdm_status status = segments[(number - 1) % numSegments].use(stream))
      return status;
    if (tdm_status status = segment.wait())
      return status;
  }
  place = segment.data() + slot * slotBytes;
  ++taken;
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

tdm_status StagingBuffers::take(const std::shared_ptr<const CUDADevice> &device,
                                size_t bytes, SharedMemory *&buffer) {
  std::unique_ptr<SharedMemory> &place = buffers[next];
  if (place)
    if (tdm_status status = place->wait())
      return status;
  if (!place || place->size() < bytes) {
    auto fresh = std::make_unique<SharedMemory>();
    if (tdm_status status = fresh->allocate(device, bytes))
      return status;
    place = std::move(fresh);
  }
  next = (next + 1) % most;
  buffer = place.get();
  return TDM_OK;
}
