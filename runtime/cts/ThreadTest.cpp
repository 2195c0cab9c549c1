//===- ThreadTest.cpp - Threads of the runtime and of its callers ---------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tests of the thread pool: its threads participate,
// callers share it, and it survives a fork.
//
//===----------------------------------------------------------------------===//

#include "TestKernels.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#ifndef _WIN32
#include <csignal>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace tandem::cts;

extern "C" tdm_status tandemRuntimeUseFromC(const tdm_kernel_desc *desc,
                                            void *plane);

TEST(Header, IsUsableFromC) {
  tdm_kernel_desc desc = countDesc();
  uint8_t counts[7] = {};
  EXPECT_EQ(tandemRuntimeUseFromC(&desc, counts), TDM_OK) << tdm_last_error();
  EXPECT_EQ(counts[5], 1);
  EXPECT_EQ(counts[6], 0);
}

//===----------------------------------------------------------------------===//
// Kernels that wait for each other
//===----------------------------------------------------------------------===//

static std::atomic<int> arrived{0};
static std::atomic<int> expected{0};
static std::atomic<int> interruptible{0};

/// Waits until the expected number of threads has arrived, or for ten seconds.
static void meet() {
  ++arrived;
  auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (arrived < expected && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
}

static void meetEntry(const void *, const void *, const uint32_t *, void *,
                      uint32_t *, int64_t, int64_t) {
#ifndef _WIN32
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  if (!sigismember(&blocked, SIGINT))
    ++interruptible;
#endif
  meet();
}

static tdm_kernel_desc meetDesc() {
  tdm_kernel_desc desc = countDesc();
  desc.entry = meetEntry;
  return desc;
}

TEST(Threads, AllThatAreAskedForTakePart) {
  OwnedKernel kernel(meetDesc());
  std::vector<uint8_t> bytes(1000000);
  TensorList list;
  list.add(1000000, {bytes.data()});
  OwnedPlan plan(kernel, list);
  for (int threads : {2, 5, 3}) {
    arrived = 0;
    expected = threads;
    EXPECT_EQ(launchPlain(plan, threads).threads, unsigned(threads));
    EXPECT_GE(arrived.load(), threads);
  }
}

TEST(Threads, TheDefaultIsOnePerCore) {
  OwnedKernel kernel(meetDesc());
  std::vector<uint8_t> bytes(8000000);
  TensorList list;
  list.add(8000000, {bytes.data()});
  OwnedPlan plan(kernel, list);
  int cores = std::thread::hardware_concurrency();
  arrived = 0;
  expected = std::min(std::max(cores, 1), 64);
  EXPECT_GE(launchPlain(plan, 0).threads, unsigned(expected));
}

TEST(Threads, NoMoreThanThereAreChunks) {
  OwnedKernel kernel(countDesc());
  std::vector<uint8_t> bytes(8192);
  TensorList list;
  list.add(8192, {bytes.data()});
  OwnedPlan plan(kernel, list);
  EXPECT_LE(launchPlain(plan, 8).threads, 2u);
}

TEST(Threads, SignalsStayWithTheApplication) {
  OwnedKernel kernel(meetDesc());
  std::vector<uint8_t> bytes(4 * 4096);
  TensorList list;
  list.add(4 * 4096, {bytes.data()});
  OwnedPlan plan(kernel, list);
  arrived = interruptible = 0;
  expected = 4;
  launchPlain(plan, 4);
#ifndef _WIN32
  EXPECT_EQ(interruptible.load(), 1) << "only the calling thread is";
#endif
}

//===----------------------------------------------------------------------===//
// Callers on several threads
//===----------------------------------------------------------------------===//

static void launchOften(tdm_kernel *kernel, float lr) {
  std::vector<float> param(100000), grad(100000, 1.0f);
  TensorList list;
  for (int i = 0; i < 10; ++i)
    list.add(10000, {&param[i * 10000], &grad[i * 10000]});
  OwnedPlan plan(kernel, list);
  for (int i = 0; i < 50; ++i)
    launchSgd(plan, {lr}, 1 + i % 4);
  EXPECT_EQ(param, std::vector<float>(100000, -50 * lr));
}

TEST(Threads, PlansLaunchConcurrently) {
  OwnedKernel kernel(sgdDesc());
  std::thread other([&] { launchOften(kernel, 0.5f); });
  launchOften(kernel, 2.0f);
  other.join();
}

TEST(Threads, OnePlanIsForOneThreadAtATime) {
  OwnedKernel kernel(meetDesc());
  uint8_t byte = 0;
  TensorList list;
  list.add(1, {&byte});
  OwnedPlan plan(kernel, list);
  arrived = 0;
  expected = 2;
  std::thread other([&] { launchPlain(plan, 1); });
  while (arrived == 0)
    std::this_thread::yield();
  const char *message = "kernel 'count': another thread is using the plan; "
                        "make one plan per thread";
  expectFailure(tdm_plan_launch(plan, nullptr, nullptr, 0, 1, nullptr),
                TDM_INVALID_STATE, message);
  expectFailure(tdm_plan_update(plan, nullptr, 0), TDM_INVALID_STATE, message);
  ++arrived;
  other.join();
  EXPECT_EQ(launchPlain(plan, 1).chunks, 1);
}

TEST(Threads, MessagesBelongToAThread) {
  EXPECT_EQ(tdm_kernel_create(nullptr, nullptr), TDM_INVALID_ARGUMENT);
  std::thread([] { EXPECT_STREQ(tdm_last_error(), ""); }).join();
  EXPECT_STRNE(tdm_last_error(), "");
}

//===----------------------------------------------------------------------===//
// Threads of the host program
//===----------------------------------------------------------------------===//

namespace {
/// A host program that lends threads, and the record of its calls.
struct Host {
  explicit Host(int lent) : lent(lent) {
    EXPECT_EQ(tdm_use_threads(parallel, this), TDM_OK);
  }
  ~Host() { tdm_use_threads(nullptr, nullptr); }

  static void parallel(void *self, void (*work)(void *), void *context,
                       int32_t threads) {
    Host &host = *static_cast<Host *>(self);
    host.asked.push_back(threads);
    std::vector<std::thread> others;
    for (int i = 0; i < std::min(host.lent, threads); ++i)
      others.emplace_back(work, context);
    for (std::thread &other : others)
      other.join();
  }

  const int lent;
  std::vector<int> asked;
};
} // namespace

static std::vector<int> countWithHost(int lent, int threads, unsigned taken) {
  Host host(lent);
  OwnedKernel kernel(countDesc());
  std::vector<uint8_t> counts(1000000);
  TensorList list;
  list.add(1000000, {counts.data()});
  OwnedPlan plan(kernel, list);
  EXPECT_EQ(launchPlain(plan, threads).threads, taken);
  EXPECT_EQ(counts, std::vector<uint8_t>(1000000, 1));
  return host.asked;
}

TEST(HostThreads, DoTheWork) {
  EXPECT_EQ(countWithHost(8, 3, 3), std::vector<int>{3});
}

TEST(HostThreads, OneIsEnough) {
  EXPECT_EQ(countWithHost(1, 4, 1), std::vector<int>{4});
}

TEST(HostThreads, WithoutAnyTheCallerWorks) {
  EXPECT_EQ(countWithHost(0, 2, 1), std::vector<int>{2});
}

TEST(HostThreads, AreNotAskedForTheCallersOwn) {
  EXPECT_EQ(countWithHost(8, 1, 1), std::vector<int>{});
}

TEST(HostThreads, GoBackToTheRuntimes) {
  {
    Host host(2);
  }
  OwnedKernel kernel(meetDesc());
  std::vector<uint8_t> bytes(1000000);
  TensorList list;
  list.add(1000000, {bytes.data()});
  OwnedPlan plan(kernel, list);
  arrived = 0;
  expected = 2;
  EXPECT_EQ(launchPlain(plan, 2).threads, 2u);
}

//===----------------------------------------------------------------------===//
// Fork
//===----------------------------------------------------------------------===//

// The thread sanitizer does not support threads that a forked child starts.
#if !defined(_WIN32) && !defined(__SANITIZE_THREAD__)
TEST(Threads, TheChildOfAForkHasItsOwn) {
  OwnedKernel kernel(meetDesc());
  std::vector<uint8_t> bytes(100000);
  TensorList list;
  list.add(100000, {bytes.data()});
  OwnedPlan plan(kernel, list);
  arrived = 0;
  expected = 3;
  launchPlain(plan, 3);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  arrived = 0;
  unsigned threads = launchPlain(plan, 3).threads;
  if (child == 0)
    _exit(threads == 3 ? 0 : 1);
  EXPECT_EQ(threads, 3u);
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(HostThreads, StayWithTheParentOfAFork) {
  Host host(2);
  OwnedKernel kernel(countDesc());
  std::vector<uint8_t> bytes(100000);
  TensorList list;
  list.add(100000, {bytes.data()});
  OwnedPlan plan(kernel, list);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  launchPlain(plan, 2);
  if (child == 0)
    _exit(host.asked.empty() ? 0 : 1);
  EXPECT_EQ(host.asked, std::vector<int>{2});
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif
