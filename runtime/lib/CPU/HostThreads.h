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

/// The threads of the host that tdm_use_threads has been given.
class HostThreads {
public:
  /// The threads that launches of this process run on, or NULL. A fork leaves
  /// the host's threads behind.
  static const HostThreads *current();

  /// Has launches go to them; without a function, to the runtime's own.
  static void use(tdm_parallel_fn parallel, void *host);

  /// As ThreadPool::run().
  int run(ThreadPool::Work work, void *context, int threads) const;

private:
  HostThreads(tdm_parallel_fn parallel, void *host);
  static const HostThreads *find(tdm_parallel_fn parallel, void *host);

  const tdm_parallel_fn parallel;
  void *const host;
  const int64_t process;
  /// The threads that the host lent before, which are never freed: a launch may
  /// be running on them.
  HostThreads *next = nullptr;
};

/// The number of this process; on Windows, where none forks, 0.
int64_t currentProcess();

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CPU_HOSTTHREADS_H
