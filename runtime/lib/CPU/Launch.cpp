//===- Launch.cpp - One launch on the CPU ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the distribution of a launch's chunks over threads.
//
//===----------------------------------------------------------------------===//

#include "Launch.h"

#include "FloatEnvironment.h"
#include "ThreadPool.h"

#include <algorithm>

using namespace tandem::runtime;

void CPULaunch::work() {
  FloatEnvironment environment;
  // The flags have their own cache line, since the entry may write them often.
  alignas(64) uint32_t ownFlags = 0;
  while (true) {
    int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
    if (begin >= numChunks)
      break;
    int64_t end = std::min(begin + grain, numChunks);
    runChunks(begin, end, &ownFlags);
  }
  flags.fetch_or(ownFlags, std::memory_order_relaxed);
}

int CPULaunch::run(int threads) {
  if (threads == 0)
    threads = ThreadPool::defaultThreads();
  threads = static_cast<int>(std::clamp<int64_t>(numChunks, 1, threads));
  // A few ranges per thread balance the load while most of a thread's memory
  // stays contiguous.
  constexpr int64_t rangesPerThread = 8;
  grain = std::max<int64_t>(1, numChunks / (threads * rangesPerThread));
  return ThreadPool::run(
      [](void *self) { static_cast<CPULaunch *>(self)->work(); }, this,
      threads);
}
