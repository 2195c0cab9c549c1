//===- CoverageTest.cpp - Every element, once -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tests that launches process every element exactly once
// and produce the same bytes for any number of threads.
//
//===----------------------------------------------------------------------===//

#include "TestKernels.h"

#include <algorithm>
#include <mutex>

using namespace tandem::cts;

static const int threadCounts[] = {1, 2, 3, 8};

static void expectCounted(const std::vector<uint8_t> &counts, int expected) {
  auto wrong = std::find_if(counts.begin(), counts.end(),
                            [&](uint8_t count) { return count != expected; });
  EXPECT_EQ(wrong, counts.end()) << "at element " << wrong - counts.begin();
}

TEST(Coverage, OneTensorOfEachSize) {
  OwnedKernel kernel(countDesc());
  for (size_t size : {0, 1, 15, 17, 4095, 4096, 4097, 65536, 1000000}) {
    std::vector<uint8_t> counts(size);
    TensorList list;
    list.add(size, {counts.data()});
    OwnedPlan plan(kernel, list);
    int launches = 0;
    for (int threads : threadCounts) {
      launchPlain(plan, threads);
      SCOPED_TRACE(testing::Message() << size << ", threads " << threads);
      expectCounted(counts, ++launches);
    }
  }
}

TEST(Coverage, ManyTensors) {
  OwnedKernel kernel(countDesc());
  std::vector<std::vector<uint8_t>> counts;
  TensorList list;
  for (int i = 0; i < 500; ++i) {
    counts.emplace_back(i % 7 == 0 ? 0 : i * i % 10007);
    list.add(counts.back().size(), {counts.back().data()});
  }
  OwnedPlan plan(kernel, list);
  int launches = 0;
  for (int threads : threadCounts) {
    launchPlain(plan, threads);
    ++launches;
    for (const std::vector<uint8_t> &tensor : counts)
      expectCounted(tensor, launches);
  }
}

TEST(Coverage, DefaultThreads) {
  OwnedKernel kernel(countDesc());
  std::vector<uint8_t> counts(100000);
  TensorList list;
  list.add(100000, {counts.data()});
  OwnedPlan plan(kernel, list);
  EXPECT_GE(launchPlain(plan, 0).threads, 1u);
  expectCounted(counts, 1);
}

TEST(Coverage, NothingToDo) {
  OwnedKernel kernel(countDesc());
  TensorList none;
  OwnedPlan empty(kernel, none);
  EXPECT_EQ(launchPlain(empty, 8).chunks, 0);
  TensorList list;
  list.add(0, {nullptr});
  list.add(5, {nullptr}).rows = 0;
  OwnedPlan zeros(kernel, list);
  EXPECT_EQ(launchPlain(zeros, 8).chunks, 0);
}

//===----------------------------------------------------------------------===//
// The tables, as a kernel sees them
//===----------------------------------------------------------------------===//

namespace {
struct Seen {
  std::mutex mutex;
  std::vector<std::pair<int64_t, Chunk>> chunks;
  std::vector<std::vector<int64_t>> records;
};
} // namespace

static Seen seen;

static void recordEntry(const void *tensors, const void *chunks,
                        const uint32_t *, void *, uint32_t *, int64_t begin,
                        int64_t end) {
  std::lock_guard<std::mutex> lock(seen.mutex);
  for (int64_t c = begin; c < end; ++c) {
    const Chunk &chunk = static_cast<const Chunk *>(chunks)[c];
    Record tensor(tensors, chunk.tensor, 1);
    seen.chunks.push_back({c, chunk});
    seen.records.push_back({tensor.head.rows, tensor.head.columns,
                            tensor.head.first, tensor.head.key,
                            tensor.head.scalar_row,
                            reinterpret_cast<int64_t>(tensor.plane<void>(0))});
  }
}

TEST(Coverage, ChunksArePowersOfTwoInOrder) {
  tdm_kernel_desc desc = countDesc();
  desc.entry = recordEntry;
  OwnedKernel kernel(desc);
  std::vector<uint8_t> counts(9000000);
  TensorList list;
  list.add(8900000, {counts.data()});
  list.add(100000, {counts.data() + 8900000});
  OwnedPlan plan(kernel, list);
  for (int threads : threadCounts) {
    seen.chunks.clear();
    int64_t numChunks = launchPlain(plan, threads).chunks;
    std::sort(seen.chunks.begin(), seen.chunks.end(),
              [](auto &a, auto &b) { return a.first < b.first; });
    ASSERT_EQ(int64_t(seen.chunks.size()), numChunks);
    ASSERT_EQ(numChunks, 8900000 / 65536 + 1 + 100000 / 65536 + 1);
    int64_t position = 0;
    for (auto &[number, chunk] : seen.chunks) {
      EXPECT_EQ(chunk.begin % 65536, 0);
      EXPECT_EQ(position, chunk.tensor * 8900000 + chunk.begin);
      position = chunk.tensor * 8900000 + chunk.end;
    }
    EXPECT_EQ(position, 9000000);
  }
}

TEST(Coverage, RecordsHoldTheTensors) {
  tdm_kernel_desc desc = countDesc();
  desc.entry = recordEntry;
  OwnedKernel kernel(desc);
  uint8_t a[6], b[2];
  TensorList list;
  list.add(0, {nullptr});
  // Without groups, rows need not be cut separately.
  tdm_tensor matrix = {2, 3, 128, -5, 7, nullptr};
  list.add(3, {a}) = matrix;
  list.add(2, {b}).key = INT64_MIN;
  OwnedPlan plan(kernel, list);
  seen.records.clear();
  launchPlain(plan, 1);
  std::vector<std::vector<int64_t>> expected = {
      {1, 6, 128, -5, 7, reinterpret_cast<int64_t>(a)},
      {1, 2, 0, INT64_MIN, 0, reinterpret_cast<int64_t>(b)}};
  EXPECT_EQ(seen.records, expected);
}

/// Returns the chunks of one tensor of \p rows rows with groups of 16 elements.
static std::vector<std::vector<int64_t>> chunksOf(int64_t rows, int64_t columns,
                                                  uint32_t metrics = 0) {
  static const tdm_plane_desc plane = {"scale", 8, TDM_ACCESS_WRITE, 16};
  tdm_kernel_desc desc = countDesc();
  desc.entry = recordEntry;
  desc.planes = &plane;
  desc.workspace_doubles_per_chunk = metrics;
  OwnedKernel kernel(desc);
  std::vector<uint8_t> scales(rows * (columns / 16 + 1));
  TensorList list;
  list.add(columns, {scales.data()}).rows = rows;
  OwnedPlan plan(kernel, list);
  seen.chunks.clear();
  launchPlain(plan, 1);
  std::vector<std::vector<int64_t>> result;
  for (auto &[number, chunk] : seen.chunks)
    result.push_back({chunk.row, chunk.begin, chunk.end});
  return result;
}

TEST(Coverage, RowsWithPartsOfGroupsHaveTheirOwnChunks) {
  using Chunks = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(chunksOf(3, 24), (Chunks{{0, 0, 24}, {1, 0, 24}, {2, 0, 24}}));
  EXPECT_EQ(chunksOf(3, 32), (Chunks{{0, 0, 96}}));
  EXPECT_EQ(chunksOf(1, 24), (Chunks{{0, 0, 24}}));
  EXPECT_EQ(
      chunksOf(2, 5001),
      (Chunks{{0, 0, 4096}, {0, 4096, 5001}, {1, 0, 4096}, {1, 4096, 5001}}));
  // A metric's sum is the tree over the sums of rows that are cut separately.
  EXPECT_EQ(chunksOf(2, 5001, /*metrics=*/1),
            (Chunks{{0, 0, 5001}, {1, 0, 5001}}));
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

TEST(Coverage, BytesDoNotDependOnThreads) {
  OwnedKernel kernel(sgdDesc());
  const std::vector<float> start = randomFloats(1000003, 1);
  std::vector<float> grad = randomFloats(start.size(), 2);
  std::vector<float> expected = start;
  for (size_t i = 0; i < start.size(); ++i)
    expected[i] += static_cast<float>(-0.1) * grad[i];
  for (int threads : threadCounts) {
    std::vector<float> param = start;
    TensorList list;
    for (size_t begin = 0; begin < start.size(); begin += 300000)
      list.add(std::min<size_t>(300000, start.size() - begin),
               {param.data() + begin, grad.data() + begin});
    OwnedPlan plan(kernel, list);
    EXPECT_EQ(launchSgd(plan, {0.1}, threads).flags, 0u);
    EXPECT_EQ(param, expected) << "threads " << threads;
  }
}

TEST(Coverage, EachTensorHasItsScalarRow) {
  OwnedKernel kernel(sgdDesc());
  std::vector<float> param(30, 1.0f), grad(30, 1.0f);
  TensorList list;
  for (int i = 0; i < 3; ++i)
    list.add(10, {&param[i * 10], &grad[i * 10]}).scalar_row = 2 - i;
  OwnedPlan plan(kernel, list);
  launchSgd(plan, {0.25, 0.5, 1.0, 7.0}, 2);
  EXPECT_EQ(param[0], 0.0f);
  EXPECT_EQ(param[10], 0.5f);
  EXPECT_EQ(param[29], 0.75f);
}

TEST(Coverage, FlagsOfAllThreadsAreJoined) {
  OwnedKernel kernel(sgdDesc());
  std::vector<float> param(1000000), grad(1000000);
  TensorList list;
  list.add(1000000, {param.data(), grad.data()});
  OwnedPlan plan(kernel, list);
  EXPECT_EQ(launchSgd(plan, {1.0}, 8).flags, 0u);
  for (size_t position : {0, 499999, 999999}) {
    grad[position] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(launchSgd(plan, {1.0}, 8).flags, TDM_FLAG_NON_FINITE);
    grad[position] = 0;
    EXPECT_EQ(launchSgd(plan, {1.0}, 8).flags, 0u) << "flags of a launch stay";
  }
}
