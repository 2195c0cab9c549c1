//===- ThreadPool.cpp - The threads of all launches -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the thread pool of the process.
//
//===----------------------------------------------------------------------===//

#include "ThreadPool.h"

#include "HostThreads.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>

#ifndef _WIN32
#include <csignal>
#include <pthread.h>
#endif

using namespace tandem::runtime;

/// A call of run(), on the stack of its thread. The pool's mutex guards the
/// data.
struct ThreadPool::Job {
  Job(Work work, void *context, int wanted)
      : work(work), context(context), wanted(wanted) {}

  Work work;
  void *context;
  /// The number of workers that may still join.
  int wanted;
  int inside = 0;
  int joined = 0;
  bool queued = false;
  std::condition_variable left;
  Job *next = nullptr;
};

//===----------------------------------------------------------------------===//
// Signals
//===----------------------------------------------------------------------===//

#ifdef _WIN32
struct BlockSignals {
  BlockSignals() {}
};
#else
/// Workers inherit the mask of the thread that starts them. Signals such as an
/// interrupt belong to the threads of the application.
struct BlockSignals {
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &saved, nullptr); }
  sigset_t saved;
};
#endif

/// Returns the pool of this process, or NULL if there is no memory for one.
/// Pools are never destroyed: workers wait on them until the process ends, and
/// after a fork another thread of the parent may hold the mutex forever.
ThreadPool *ThreadPool::current() {
  static std::atomic<ThreadPool *> pool{nullptr};
  int64_t process = currentProcess();
  ThreadPool *present = pool.load(std::memory_order_acquire);
  while (!present || present->process != process) {
    ThreadPool *fresh = new (std::nothrow) ThreadPool(process);
    if (!fresh)
      return nullptr;
    if (pool.compare_exchange_strong(present, fresh, std::memory_order_acq_rel))
      return fresh;
    delete fresh;
  }
  return present;
}

int ThreadPool::defaultThreads() {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores, 1, maxThreads);
}

//===----------------------------------------------------------------------===//
// Workers
//===----------------------------------------------------------------------===//

void ThreadPool::workerLoop() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    wake.wait(lock, [this] { return jobs != nullptr; });
    Job &job = *jobs;
    ++job.inside;
    ++job.joined;
    if (--job.wanted == 0)
      dequeue(job);
    lock.unlock();
    job.work(job.context);
    lock.lock();
    // The job dies once its thread sees that no worker is inside, so notify it
    // before the mutex is released.
    if (--job.inside == 0)
      job.left.notify_one();
  }
}

void ThreadPool::startWorker() {
  BlockSignals block;
  std::thread([this] { workerLoop(); }).detach();
}

void ThreadPool::grow(int count) {
  try {
    for (; workers < count; ++workers)
      startWorker();
  } catch (...) {
    // The system starts no more threads; the existing ones, or at least the
    // calling thread, do the work.
  }
}

//===----------------------------------------------------------------------===//
// Jobs
//===----------------------------------------------------------------------===//

void ThreadPool::enqueue(Job &job) {
  Job **end = &jobs;
  while (*end)
    end = &(*end)->next;
  *end = &job;
  job.queued = true;
}

void ThreadPool::dequeue(Job &job) {
  if (!job.queued)
    return;
  Job **link = &jobs;
  while (*link != &job)
    link = &(*link)->next;
  *link = job.next;
  job.queued = false;
}

int ThreadPool::runShared(Job &job) {
  int wanted = job.wanted;
  {
    std::lock_guard<std::mutex> lock(mutex);
    grow(wanted);
    enqueue(job);
  }
  for (int i = 0; i < wanted; ++i)
    wake.notify_one();
  job.work(job.context);
  std::unique_lock<std::mutex> lock(mutex);
  dequeue(job);
  job.left.wait(lock, [&] { return job.inside == 0; });
  return job.joined + 1;
}

int ThreadPool::run(Work work, void *context, int threads) {
  if (const HostThreads *host = threads > 1 ? HostThreads::current() : nullptr)
    return host->run(work, context, threads);
  ThreadPool *pool = threads > 1 ? current() : nullptr;
  if (!pool) {
    work(context);
    return 1;
  }
  Job job(work, context, threads - 1);
  return pool->runShared(job);
}
