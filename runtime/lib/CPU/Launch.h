//===- Launch.h - One launch on the CPU -------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the distribution of a launch's chunks over threads.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CPU_LAUNCH_H
#define TANDEM_RUNTIME_LIB_CPU_LAUNCH_H

#include "tandem-runtime/tandem_runtime.h"

#include <atomic>

namespace tandem::runtime {

/// One launch: the arguments of the entry, and what its threads share.
struct CPULaunch {
  tdm_cpu_entry entry;
  const void *tensors;
  const void *chunks;
  const uint32_t *scalars;
  void *workspace;
  int64_t numChunks;
  /// How many chunks a thread takes at a time.
  int64_t grain = 1;
  std::atomic<int64_t> next{0};
  std::atomic<uint32_t> flags{0};

  /// Runs all chunks on up to \p threads threads, 0 for one per core, and
  /// returns how many took part.
  int run(int threads);

private:
  void work();
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CPU_LAUNCH_H
