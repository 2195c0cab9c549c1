//===- ShardTest.cpp - Tests of sharded tensors ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests tensors that are spread over ranks, for which threads stand:
// the sums that they exchange, and what is refused.
//
//===----------------------------------------------------------------------===//

#include "PhaseKernel.h"

#include <condition_variable>
#include <mutex>
#include <thread>

using namespace tandem::cts;

namespace {
/// Adds up words over threads, each of which calls once a round.
class Exchange {
public:
  explicit Exchange(int ranks) : ranks(ranks) {}

  static int call(void *host, uint32_t *words, size_t count) {
    return static_cast<Exchange *>(host)->addUp(words, count);
  }

private:
  int addUp(uint32_t *words, size_t count) {
    std::unique_lock<std::mutex> lock(mutex);
    sums.resize(count);
    for (size_t i = 0; i < count; ++i)
      sums[i] += words[i];
    if (++arrived == ranks) {
      result = std::exchange(sums, {});
      arrived = 0;
      ++round;
      everyone.notify_all();
    } else {
      everyone.wait(lock, [&, before = round] { return round != before; });
    }
    std::copy(result.begin(), result.end(), words);
    return 0;
  }

  int ranks, arrived = 0, round = 0;
  std::vector<uint32_t> sums, result;
  std::mutex mutex;
  std::condition_variable everyone;
};
} // namespace

/// One rank's launch over its shard; returns the values.
static std::vector<float> launchShard(tdm_kernel *kernel, Exchange &exchange,
                                      const std::vector<float> &whole,
                                      const tdm_sharding &sharding) {
  int64_t first = sharding.starts[sharding.shard];
  int64_t end = sharding.starts[sharding.shard + 1];
  std::vector<float> values(whole.begin() + first, whole.begin() + end);
  float entry = 0.25f;
  TensorList list;
  tdm_tensor &tensor = list.add(end - first, {values.data(), &entry});
  tensor.first = first;
  tensor.sharding = &sharding;
  OwnedPlan plan(kernel, list);
  EXPECT_EQ(tdm_plan_set_exchange(plan, Exchange::call, &exchange), TDM_OK);
  launchPlain(plan, 2);
  return values;
}

TEST(Shards, TotalsHaveTheBitsOfTheWhole) {
  OwnedKernel kernel(phasesDesc());
  for (std::vector<int64_t> starts : {std::vector<int64_t>{0, 4096, 300000},
                                      {0, 1, 2, 3, 70001},
                                      {0, 65536, 65536 + 77, 200000},
                                      {0, 5, 9, 13}}) {
    std::vector<float> whole = randomFloats(starts.back(), 7);
    float expected = treeSum(whole.data(), starts.back()) + 0.25f;
    int64_t ranks = static_cast<int64_t>(starts.size()) - 1;
    Exchange exchange(static_cast<int>(ranks));
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        tdm_sharding sharding = {starts.back(), ranks, rank, starts.data()};
        for (float value : launchShard(kernel, exchange, whole, sharding))
          ASSERT_EQ(value, expected) << "rank " << rank << " of " << ranks;
      });
    for (std::thread &thread : threads)
      thread.join();
  }
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

namespace {
/// A plan over the first half of four values.
struct Half {
  Half() { list.add(2, {values, &entry}).sharding = &sharding; }

  float values[2] = {1, 2}, entry = 0;
  int64_t starts[3] = {0, 2, 4};
  tdm_sharding sharding = {4, 2, 0, starts};
  TensorList list;
};
} // namespace

TEST(ShardsError, NoExchange) {
  OwnedKernel kernel(phasesDesc());
  Half half;
  OwnedPlan plan(kernel, half.list);
  expectFailure(tdm_plan_launch(plan, nullptr, nullptr, 0, 1, nullptr),
                TDM_INVALID_STATE,
                "kernel 'phases': tensors are sharded and the kernel reduces "
                "them, but the plan has no exchange between ranks; call "
                "tdm_plan_set_exchange first");
  expectFailure(tdm_plan_set_exchange(nullptr, nullptr, nullptr),
                TDM_INVALID_ARGUMENT,
                "tdm_plan_set_exchange: plan is NULL; pass one from "
                "tdm_plan_create");
}

TEST(ShardsError, AnExchangeThatFails) {
  OwnedKernel kernel(phasesDesc());
  Half half;
  OwnedPlan plan(kernel, half.list);
  auto fail = [](void *, uint32_t *, size_t) { return 1; };
  ASSERT_EQ(tdm_plan_set_exchange(plan, fail, nullptr), TDM_OK);
  expectFailureSaying(tdm_plan_launch(plan, nullptr, nullptr, 0, 1, nullptr),
                      TDM_EXCHANGE_ERROR, "words between ranks failed");
  EXPECT_EQ(half.values[1], 2);
}

TEST(ShardsError, GPUs) {
  OpenDevice device("cuda");
  DeviceKernel kernel(device, "cuda", phasesDesc(), phasesTotals);
  Half half;
  tdm_plan *plan = nullptr;
  expectFailure(tdm_plan_create(kernel, half.list.data(), 1, &plan),
                TDM_INVALID_ARGUMENT,
                "kernel 'phases': tensors are sharded, but this device's "
                "launches do not exchange what the kernel reduces; pass "
                "unsharded tensors, or run the kernel on the CPU");
}
