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

tdm_status
ArgumentRing::allocate(const std::shared_ptr<const CUDADevice> &device,
                       size_t bytes) {
  constexpr size_t alignment = 64, segmentBytes = 1 << 16;
  size_t rounded = (bytes / alignment + 1) * alignment;
  slotBytes = taken = 0;
  slotsPerSegment = std::clamp<size_t>(segmentBytes / rounded, 1, maxSlots);
  // A segment that launches still read is released once they have read it.
  for (SharedMemory &segment : segments) {
    segment = SharedMemory();
    if (tdm_status status = segment.allocate(device, rounded * slotsPerSegment))
      return status;
  }
  slotBytes = rounded;
  return TDM_OK;
}

tdm_status ArgumentRing::take(const std::shared_ptr<const CUDADevice> &device,
                              size_t bytes, char *&place) {
  if (bytes > slotBytes)
    if (tdm_status status = allocate(device, bytes))
      return status;
  size_t number = taken / slotsPerSegment, slot = taken % slotsPerSegment;
  current = &segments[number % numSegments];
  if (slot == 0)
    if (tdm_status status = current->wait())
      return status;
  place = current->data() + slot * slotBytes;
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
