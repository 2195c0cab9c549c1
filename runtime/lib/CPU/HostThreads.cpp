//===- HostThreads.cpp - Threads of the host program ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements launches on the threads of the host program.
//
//===----------------------------------------------------------------------===//

#include "HostThreads.h"

#include "../Failure.h"

#include <atomic>

#ifndef _WIN32
#include <unistd.h>
#endif

using namespace tandem::runtime;

#ifdef _WIN32
int64_t tandem::runtime::currentProcess() { return 0; }
#else
int64_t tandem::runtime::currentProcess() { return getpid(); }
#endif

static std::atomic<HostThreads *> known{nullptr};
static std::atomic<const HostThreads *> used{nullptr};

HostThreads::HostThreads(tdm_parallel_fn parallel, void *host)
    : parallel(parallel), host(host), process(currentProcess()) {}

const HostThreads *HostThreads::current() {
  const HostThreads *threads = used.load(std::memory_order_acquire);
  return threads && threads->process == currentProcess() ? threads : nullptr;
}

const HostThreads *HostThreads::find(tdm_parallel_fn parallel, void *host) {
  for (HostThreads *threads = known.load(std::memory_order_acquire); threads;
       threads = threads->next)
    if (threads->parallel == parallel && threads->host == host &&
        threads->process == currentProcess())
      return threads;
  auto *fresh = new HostThreads(parallel, host);
  fresh->next = known.load(std::memory_order_relaxed);
  while (!known.compare_exchange_weak(fresh->next, fresh,
                                      std::memory_order_acq_rel)) {
  }
  return fresh;
}

void HostThreads::use(tdm_parallel_fn parallel, void *host) {
  used.store(parallel ? find(parallel, host) : nullptr,
             std::memory_order_release);
}

namespace {
/// Work with a counter of its calls.
struct CountedWork {
  ThreadPool::Work work;
  void *context;
  std::atomic<int> calls{0};

  static void call(void *self) {
    auto *counted = static_cast<CountedWork *>(self);
    counted->calls.fetch_add(1, std::memory_order_relaxed);
    counted->work(counted->context);
  }
};
} // namespace

int HostThreads::run(ThreadPool::Work work, void *context, int threads) const {
  CountedWork counted{work, context};
  parallel(host, CountedWork::call, &counted, threads);
  // A host that has no thread to lend still gets its results.
  if (counted.calls.load(std::memory_order_relaxed) == 0)
    CountedWork::call(&counted);
  return counted.calls.load(std::memory_order_relaxed);
}

tdm_status tdm_use_threads(tdm_parallel_fn parallel, void *host) {
  return guarded("tdm_use_threads", [&] {
    HostThreads::use(parallel, host);
    return TDM_OK;
  });
}
