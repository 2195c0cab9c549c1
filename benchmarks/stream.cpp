//===- stream.cpp - Roofline of an optimizer step ---------------*- C++ -*-===//
// Part of the Tandem project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// This file implements an in-place stream over the planes of a strategy: it
// accesses the memory that a step accesses, and computes almost nothing.
//
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace {

struct Plane {
  char *data;
  int32_t width; // bytes per element
  int32_t read;
  int32_t written;
};

struct Tensor {
  const Plane *planes;
  int64_t planeCount;
  int64_t size;
};

/// Streams over a part of a plane. Words are xored with a zero unknown to the
/// compiler, so that the kernel's data do not change.
uint64_t touch(const Plane &plane, int64_t first, int64_t count,
               uint64_t zero) {
  char *data = plane.data + first * plane.width;
  int64_t words = count * plane.width / 8;
  auto *values = reinterpret_cast<uint64_t *>(data);
  uint64_t seen = 0;
  if (plane.read && plane.written)
    for (int64_t i = 0; i < words; ++i)
      values[i] ^= zero;
  else if (plane.written)
    for (int64_t i = 0; i < words; ++i)
      values[i] = zero;
  else
    for (int64_t i = 0; i < words; ++i)
      seen |= values[i];
  return seen;
}

uint64_t streamRange(const Tensor &tensor, int64_t begin, int64_t end,
                     int64_t block, uint64_t zero) {
  uint64_t seen = 0;
  for (int64_t first = begin; first < end; first += block) {
    int64_t count = std::min(block, end - first);
    for (int64_t p = 0; p < tensor.planeCount; ++p)
      seen |= touch(tensor.planes[p], first, count, zero);
  }
  return seen;
}

/// Streams over a thread's share: one contiguous part of all elements of all
/// tensors.
uint64_t streamShare(const Tensor *tensors, int64_t count, int64_t begin,
                     int64_t end, int64_t block, uint64_t zero) {
  uint64_t seen = 0;
  int64_t start = 0;
  for (int64_t t = 0; t < count && start < end; ++t) {
    int64_t low = std::max(begin, start),
            high = std::min(end, start + tensors[t].size);
    if (low < high)
      seen |= streamRange(tensors[t], low - start, high - start, block, zero);
    start += tensors[t].size;
  }
  return seen;
}

} // namespace

extern "C" uint64_t streamPlanes(const Tensor *tensors, int64_t count,
                                 int64_t block, int64_t threads,
                                 uint64_t zero) {
  int64_t total = 0;
  for (int64_t t = 0; t < count; ++t)
    total += tensors[t].size;
  int64_t share = (total / threads + 63) / 64 * 64;
  std::vector<uint64_t> seen(threads);
  auto work = [&](int64_t i) {
    seen[i] = streamShare(tensors, count, i * share,
                          std::min(total, (i + 1) * share), block, zero);
  };
  std::vector<std::thread> others;
  for (int64_t i = 1; i < threads; ++i)
    others.emplace_back(work, i);
  work(0);
  for (std::thread &thread : others)
    thread.join();
  uint64_t all = 0;
  for (uint64_t one : seen)
    all |= one;
  return all;
}
