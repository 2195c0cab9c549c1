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

#include <atomic>
#include <cstdint>

namespace tandem::runtime {

/// One launch, whose threads share the chunks.
class CPULaunch {
public:
  explicit CPULaunch(int64_t numChunks) : numChunks(numChunks) {}
  virtual ~CPULaunch() = default;

  /// Runs all chunks on up to \p threads threads, 0 for one per core, and
  /// returns how many took part.
  int run(int threads);

  /// Returns the TDM_FLAG_* bits that the chunks have raised.
  uint32_t getFlags() const { return flags.load(std::memory_order_relaxed); }

protected:
  /// Runs the chunks from \p begin to \p end, which OR into \p flags.
  virtual void runChunks(int64_t begin, int64_t end, uint32_t *flags) = 0;

private:
  void work();

  const int64_t numChunks;
  /// The number of chunks that a thread takes at a time.
  int64_t grain = 1;
  std::atomic<int64_t> next{0};
  std::atomic<uint32_t> flags{0};
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CPU_LAUNCH_H
