//===- ThreadPool.h - The threads of all launches ---------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the thread pool of the process.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CPU_THREADPOOL_H
#define TANDEM_RUNTIME_LIB_CPU_THREADPOOL_H

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tandem::runtime {

/// A persistent pool of threads that starts empty and grows on demand. Launches
/// from different threads share it.
class ThreadPool {
public:
  static constexpr int maxThreads = 1024;
  using Work = void (*)(void *context);

  /// Returns the number of threads for one thread per core.
  static int defaultThreads();

  /// Calls \p work on this thread and on up to \p threads - 1 others, waits
  /// until all calls have returned, and returns their number. There may be
  /// fewer if other threads are busy or the system refuses to start more, so a
  /// single call must be able to do all work. The threads are the host
  /// program's if it lends them.
  static int run(Work work, void *context, int threads);

private:
  struct Job;

  explicit ThreadPool(int64_t process) : process(process) {}
  static ThreadPool *current();
  int runShared(Job &job);
  void grow(int count);
  void startWorker();
  void workerLoop();
  void enqueue(Job &job);
  void dequeue(Job &job);

  /// The process of the workers; the child of a fork does not have them.
  const int64_t process;
  std::mutex mutex;
  std::condition_variable wake;
  /// Jobs that want more threads, oldest first.
  Job *jobs = nullptr;
  int workers = 0;
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CPU_THREADPOOL_H
