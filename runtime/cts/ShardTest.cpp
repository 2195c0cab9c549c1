//===- ShardTest.cpp - Tests of sharded tensors ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests tensors that are sharded over ranks, which are threads here:
// the sums that they exchange, and the errors.
//
//===----------------------------------------------------------------------===//

#include "PhaseKernel.h"
#include "TestStream.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

using namespace tandem::cts;

namespace {
/// Sums words over threads, each of which calls once per round.
class Exchange {
public:
  explicit Exchange(int ranks) : ranks(ranks) {}

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

private:
  int ranks, arrived = 0, round = 0;
  std::vector<uint32_t> sums, result;
  std::mutex mutex;
  std::condition_variable everyone;
};
} // namespace

namespace {
/// A rank: the exchange of each of its groups, and the groups that were called.
struct Rank {
  static int call(void *host, int64_t group, uint32_t *words, size_t count) {
    auto &rank = *static_cast<Rank *>(host);
    rank.called.push_back(group);
    return rank.exchanges.at(group)->addUp(words, count);
  }

  std::map<int64_t, Exchange *> exchanges;
  std::vector<int64_t> called;
};

/// A tensor and its shards over a group of ranks.
struct Spread {
  std::vector<float> whole;
  std::vector<int64_t> starts;
  int64_t group;

  int64_t shards() const { return static_cast<int64_t>(starts.size()) - 1; }
  tdm_sharding sharding(int64_t shard) const {
    return {starts.back(), shards(), shard, starts.data(), group};
  }
  std::vector<float> part(int64_t shard) const {
    return {whole.begin() + starts[shard], whole.begin() + starts[shard + 1]};
  }
};

/// The results of a launch: each tensor's values and its entry.
struct Written {
  std::vector<std::vector<float>> values;
  std::vector<float> entries;
};
} // namespace

/// Runs one rank's launch over its shards.
static Written launchShards(tdm_device *device, tdm_kernel *kernel, Rank &rank,
                            const std::vector<Spread> &tensors,
                            const std::vector<int64_t> &shards) {
  size_t count = tensors.size();
  std::vector<DeviceArray<float>> values;
  DeviceArray<float> entries(device, std::vector<float>(count, 0.25f));
  std::vector<tdm_sharding> shardings(count);
  TensorList list;
  for (size_t i = 0; i < count; ++i) {
    const Spread &spread = tensors[i];
    shardings[i] = spread.sharding(shards[i]);
    std::vector<float> part = spread.part(shards[i]);
    values.emplace_back(device, part);
    tdm_tensor &tensor = list.add(part.size(), {nullptr, nullptr});
    tensor.first = spread.starts[shards[i]];
    tensor.sharding = &shardings[i];
  }
  for (size_t i = 0; i < count; ++i)
    list.planes(i) = {values[i].data(), entries.data() + i};
  OwnedPlan plan(kernel, list);
  EXPECT_EQ(tdm_plan_set_exchange(plan, Rank::call, &rank), TDM_OK);
  launchPlain(plan, 2);
  Written written;
  for (const DeviceArray<float> &array : values)
    written.values.push_back(array.read());
  written.entries = entries.read();
  return written;
}

/// Expects that each shard has the tensor's sum and the maximum over all
/// tensors.
static void expectTotals(const Written &written,
                         const std::vector<Spread> &tensors) {
  float largest = 0;
  for (const Spread &spread : tensors)
    for (float value : spread.whole)
      largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<float> &whole = tensors[i].whole;
    float sum = treeSum(whole.data(), whole.size()) + 0.25f;
    for (float value : written.values[i])
      ASSERT_EQ(value, sum) << "tensor " << i;
    ASSERT_EQ(written.entries[i], largest) << "tensor " << i;
  }
}

using Shards = DeviceTest;
ON_EACH_DEVICE(Shards);

TEST_P(Shards, TotalsHaveTheBitsOfTheWhole) {
  DeviceKernel kernel(device, GetParam(), phasesDesc(), phasesTotals);
  for (std::vector<int64_t> starts : {std::vector<int64_t>{0, 4096, 300000},
                                      {0, 1, 2, 3, 70001},
                                      {0, 65536, 65536 + 77, 200000},
                                      {0, 5, 9, 13}}) {
    std::vector<Spread> tensors = {
        {randomFloats(starts.back(), 7), starts, /*group=*/0}};
    int64_t count = tensors[0].shards();
    Exchange exchange(static_cast<int>(count));
    std::vector<std::thread> threads;
    for (int64_t number = 0; number < count; ++number)
      threads.emplace_back([&, number] {
        Rank rank{{{0, &exchange}}, {}};
        expectTotals(launchShards(device, kernel, rank, tensors, {number}),
                     tensors);
      });
    for (std::thread &thread : threads)
      thread.join();
  }
}

/// Four ranks form two rows: all of them share two tensors, and the ranks of
/// each row share two others. Groups are called once each, in ascending order.
TEST_P(Shards, SeveralGroupsOfRanks) {
  DeviceKernel kernel(device, GetParam(), phasesDesc(), phasesTotals);
  std::vector<Spread> tensors = {
      {randomFloats(90000, 1), {0, 30000, 30001, 65536, 90000}, 7},
      {randomFloats(513, 2), {0, 256, 513}, 3},
      {randomFloats(4, 3), {0, 1, 2, 3, 4}, 7},
      {randomFloats(70000, 4), {0, 69999, 70000}, 3}};
  Exchange all(4), rows[2] = {Exchange(2), Exchange(2)};
  std::vector<std::thread> threads;
  for (int64_t number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      Rank rank{{{3, &rows[number / 2]}, {7, &all}}, {}};
      expectTotals(launchShards(device, kernel, rank, tensors,
                                {number, number % 2, number, number % 2}),
                   tensors);
      EXPECT_EQ(rank.called, (std::vector<int64_t>{3, 7}));
    });
  for (std::thread &thread : threads)
    thread.join();
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
  auto fail = [](void *, int64_t, uint32_t *, size_t) { return 1; };
  ASSERT_EQ(tdm_plan_set_exchange(plan, fail, nullptr), TDM_OK);
  expectFailureSaying(tdm_plan_launch(plan, nullptr, nullptr, 0, 1, nullptr),
                      TDM_EXCHANGE_ERROR, "words between ranks failed");
  EXPECT_EQ(half.values[1], 2);
}

/// A graph would not include the host's work between phases.
TEST(ShardsError, Captures) {
  OpenDevice device("cuda");
  DeviceKernel kernel(device, "cuda", phasesDesc(), phasesTotals);
  Half half;
  OwnedPlan plan(kernel, half.list);
  auto add = [](void *, int64_t, uint32_t *, size_t) { return 0; };
  ASSERT_EQ(tdm_plan_set_exchange(plan, add, nullptr), TDM_OK);
  void *stream = createStream();
  beginCapture(stream);
  tdm_async_args args = {sizeof(args), stream, nullptr, nullptr, 0, 0,
                         nullptr,      nullptr};
  expectFailure(tdm_plan_launch_async(plan, &args), TDM_INVALID_STATE,
                "kernel 'phases': the stream is being captured, but tensors "
                "are sharded, and the host exchanges between ranks what the "
                "kernel reduces; launch it outside of the graph");
  destroyGraph(endCapture(stream));
  destroyStream(stream);
}
