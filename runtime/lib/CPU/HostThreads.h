//===- HostThreads.h - Threads of the host program --------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the threads that a host program lends to launches.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CPU_HOSTTHREADS_H
#define TANDEM_RUNTIME_LIB_CPU_HOSTTHREADS_H

#include "ThreadPool.h"
#include "tandem-runtime/tandem_runtime.h"

namespace tandem::runtime {

/// The host's threads that were passed to tdm_use_threads.
class HostThreads {
public:
  /// Returns the threads that launches of this process run on, or NULL. The
  /// child of a fork does not have its parent's threads.
  static const HostThreads *current();

  /// Makes launches use the threads of \p host, or the runtime's own threads if
  /// \p parallel is NULL.
  static void use(tdm_parallel_fn parallel, void *host);

  /// Runs \p work as ThreadPool::run() does.
  int run(ThreadPool::Work work, void *context, int threads) const;

private:
  HostThreads(tdm_parallel_fn parallel, void *host);
  static const HostThreads *find(tdm_parallel_fn parallel, void *host);

  const tdm_parallel_fn parallel;
  void *const host;
  const int64_t process;
  /// The threads that the host lent before. They are never freed, because a
  /// launch may be running on them.
  HostThreads *next = nullptr;
};

/// Returns the ID of this process, or 0 on Windows, which has no fork.
int64_t currentProcess();

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CPU_HOSTTHREADS_H
