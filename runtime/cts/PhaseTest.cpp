//===- PhaseTest.cpp - Tests of kernels of several phases -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests kernels of several phases: reductions over tensors and over
// all of them, and what ends a step.
//
//===----------------------------------------------------------------------===//

#include "TestDevice.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace tandem::cts;

//===----------------------------------------------------------------------===//
// A kernel of two phases
//===----------------------------------------------------------------------===//

/// The balanced tree over so many values, neighbours first.
static float treeSum(const float *values, int64_t count) {
  if (count <= 0)
    return -0.0f;
  if (count == 1)
    return values[0];
  int64_t half = 1;
  while (2 * half < count)
    half *= 2;
  return treeSum(values, half) + treeSum(values + half, count - half);
}

static uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// Planes: values, and one entry for the tensor. Words behind them: totals, the
/// first chunk, the one behind the last.
static constexpr int64_t numPlanes = 2, numReductions = 3;

static const int64_t *recordOf(const void *tensors, int64_t tensor) {
  return static_cast<const int64_t *>(tensors) + tensor * (5 + numPlanes + 3);
}
static float *valuesOf(const int64_t *record) {
  return reinterpret_cast<float *>(record[5]);
}
static const uint32_t *totalsOf(const int64_t *record) {
  return reinterpret_cast<const uint32_t *>(record[5 + numPlanes]);
}

/// Leaves a chunk's sum, its largest and its smallest magnitude.
static void reduceEntry(const void *tensors, const void *chunks,
                        const uint32_t *, void *workspace, uint32_t *flags,
                        int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const Chunk &chunk = static_cast<const Chunk *>(chunks)[c];
    const int64_t *record = recordOf(tensors, chunk.tensor);
    if (c < record[6 + numPlanes] || c >= record[7 + numPlanes])
      *flags |= 2;
    const float *values = valuesOf(record) + chunk.begin;
    int64_t count = chunk.end - chunk.begin;
    uint32_t largest = 0, smallest = UINT32_MAX;
    for (int64_t i = 0; i < count; ++i) {
      largest = std::max(largest, bitsOf(values[i]) & 0x7FFFFFFF);
      smallest = std::min(smallest, bitsOf(values[i]) & 0x7FFFFFFF);
    }
    uint32_t parts[] = {bitsOf(treeSum(values, count)), largest, smallest};
    for (int64_t i = 0; i < numReductions; ++i)
      std::memcpy(static_cast<char *>(workspace) + 8 * (c * numReductions + i),
                  &parts[i], sizeof(parts[i]));
  }
}

/// Writes the tensor's sum plus its entry to each value.
static void writeEntry(const void *tensors, const void *chunks,
                       const uint32_t *, void *, uint32_t *flags, int64_t begin,
                       int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const Chunk &chunk = static_cast<const Chunk *>(chunks)[c];
    const int64_t *record = recordOf(tensors, chunk.tensor);
    float total;
    std::memcpy(&total, totalsOf(record), sizeof(total));
    std::fill(valuesOf(record) + chunk.begin, valuesOf(record) + chunk.end,
              total + *reinterpret_cast<float *>(record[6]));
    *flags |= 1;
  }
}

/// The tensor's entry becomes the largest magnitude of all tensors.
static void commitEntry(const void *tensors, const void *, const uint32_t *,
                        void *, uint32_t *, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const int64_t *record = recordOf(tensors, t);
    if (record[0] && record[1])
      std::memcpy(reinterpret_cast<void *>(record[6]), totalsOf(record) + 1, 4);
  }
}

static const tdm_cpu_entry early[] = {reduceEntry};
static const tdm_reduction_desc reductions[] = {
    {TDM_REDUCTION_SUM, 0, TDM_SCOPE_TENSOR},
    {TDM_REDUCTION_MAX, 0, TDM_SCOPE_MODEL},
    {TDM_REDUCTION_MIN, 0, TDM_SCOPE_TENSOR}};

static tdm_kernel_desc phasesDesc() {
  constexpr uint32_t access = TDM_ACCESS_READ | TDM_ACCESS_WRITE;
  static const tdm_plane_desc planes[] = {
      {"value", 32, access, 1}, {"entry", 32, access, TDM_WHOLE_TENSOR}};
  tdm_kernel_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.name = "phases";
  desc.num_planes = numPlanes;
  desc.planes = planes;
  desc.entry = writeEntry;
  desc.early_entries = early;
  desc.num_early_entries = 1;
  desc.reductions = reductions;
  desc.num_reductions = numReductions;
  desc.commit = commitEntry;
  return desc;
}

/// What a GPU does behind the first phase: the totals of tensors.
static void totalsEntry(const void *tensors, const void *, const uint32_t *,
                        void *workspace, uint32_t *, int64_t begin,
                        int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const int64_t *record = recordOf(tensors, t);
    auto *totals = reinterpret_cast<uint32_t *>(record[5 + numPlanes]);
    std::vector<float> sums;
    totals[1] = 0;
    totals[2] = UINT32_MAX;
    for (int64_t c = record[6 + numPlanes]; c < record[7 + numPlanes]; ++c) {
      const auto *parts =
          static_cast<const uint64_t *>(workspace) + c * numReductions;
      float sum;
      std::memcpy(&sum, &parts[0], sizeof(sum));
      sums.push_back(sum);
      totals[1] = std::max(totals[1], static_cast<uint32_t>(parts[1]));
      totals[2] = std::min(totals[2], static_cast<uint32_t>(parts[2]));
    }
    totals[0] = bitsOf(treeSum(sums.data(), static_cast<int64_t>(sums.size())));
  }
}

/// Then that of all tensors.
static void modelEntry(const void *tensors, const void *, const uint32_t *,
                       void *, uint32_t *, int64_t begin, int64_t end) {
  uint32_t largest = 0;
  for (int64_t t = begin; t < end; ++t)
    largest = std::max(largest, totalsOf(recordOf(tensors, t))[1]);
  for (int64_t t = begin; t < end; ++t)
    reinterpret_cast<uint32_t *>(recordOf(tensors, t)[5 + numPlanes])[1] =
        largest;
}

static const Totals totals = {{"_phase0_totals", totalsEntry},
                              {"_phase0_model", modelEntry}};

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

using Phases = DeviceTest;
ON_EACH_DEVICE(Phases);

TEST_P(Phases, TotalsOfTensorsAndOfAll) {
  DeviceKernel kernel(device, GetParam(), phasesDesc(), totals);
  const std::vector<size_t> sizes = {1, 4097, 300000, 0, 65536};
  for (int threads : {1, 2, 5}) {
    std::vector<DeviceArray<float>> values;
    DeviceArray<float> entries(device, {0.25f, 0.5f, 1.0f, 2.0f, 4.0f});
    std::vector<float> sums;
    float largest = 0;
    TensorList list;
    for (size_t size : sizes) {
      auto numbers = randomFloats(size, static_cast<unsigned>(size) + 1);
      sums.push_back(treeSum(numbers.data(), static_cast<int64_t>(size)));
      for (float value : numbers)
        largest = std::max(largest, std::fabs(value));
      list.add(static_cast<int64_t>(size), {nullptr, nullptr});
      values.emplace_back(device, numbers);
    }
    for (size_t i = 0; i < sizes.size(); ++i)
      list.planes(i) = {values[i].data(), entries.data() + i};
    OwnedPlan plan(kernel, list);
    EXPECT_EQ(launchPlain(plan, threads).flags, 1u);
    for (size_t i = 0; i < sizes.size(); ++i) {
      // The last phase has read the old entry.
      float expected = sums[i] + std::ldexp(0.25f, int(i));
      for (float value : values[i].read())
        ASSERT_EQ(value, expected) << "tensor " << i;
      EXPECT_EQ(entries.read()[i], sizes[i] ? largest : 2.0f) << "tensor " << i;
    }
  }
}

TEST_P(Phases, APlanCanBeLaunchedAgainWithOtherMemory) {
  DeviceKernel kernel(device, GetParam(), phasesDesc(), totals);
  DeviceArray<float> first(device, {1, 2, 3}), second(device, {10, 20, 30}),
      entry(device, {0}), other(device, {0});
  TensorList list, moved;
  list.add(3, {first.data(), entry.data()});
  moved.add(3, {second.data(), other.data()});
  OwnedPlan plan(kernel, list);
  launchPlain(plan, 1);
  EXPECT_EQ(first.read()[2], 6);
  EXPECT_EQ(entry.read()[0], 3);
  ASSERT_EQ(tdm_plan_update(plan, moved.data(), 1), TDM_OK);
  launchPlain(plan, 1);
  EXPECT_EQ(second.read()[2], 60);
  EXPECT_EQ(other.read()[0], 30);
  EXPECT_EQ(first.read()[2], 6);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST(PhasesError, AShardHasNoTotals) {
  float values[3] = {}, entry = 0;
  TensorList list;
  list.add(3, {values, &entry}).first = 32;
  OwnedKernel kernel(phasesDesc());
  tdm_plan *plan = nullptr;
  expectFailure(tdm_plan_create(kernel, list.data(), 1, &plan),
                TDM_INVALID_ARGUMENT,
                "kernel 'phases': tensor 0: first is 32, but the kernel works "
                "on whole tensors; pass the unsharded tensor");
  tdm_kernel_desc desc = phasesDesc();
  desc.num_reductions = 0;
  OwnedKernel entryOnly(desc);
  expectFailure(tdm_plan_create(entryOnly, list.data(), 1, &plan),
                TDM_INVALID_ARGUMENT,
                "kernel 'phases': tensor 0: first is 32, but plane 'entry' has "
                "one entry for a whole tensor; pass the unsharded tensor");
}

/// An entry of several values takes the memory of all of them.
TEST(PhasesError, ValuesOfAnEntry) {
  tdm_kernel_desc desc = phasesDesc();
  tdm_plane_desc planes[] = {desc.planes[0], desc.planes[1]};
  planes[1].values = 16;
  desc.planes = planes;
  OwnedKernel kernel(desc);
  float values[4] = {}, entries[32] = {};
  for (int distance : {15, 16}) {
    TensorList list;
    list.add(2, {values, entries});
    list.add(2, {values + 2, entries + distance});
    tdm_plan *plan = nullptr;
    if (distance == 16)
      EXPECT_EQ(tdm_plan_create(kernel, list.data(), 2, &plan), TDM_OK);
    else
      expectFailure(tdm_plan_create(kernel, list.data(), 2, &plan), TDM_OVERLAP,
                    "kernel 'phases': tensor 0: plane 'entry', which the "
                    "kernel writes, shares 4 bytes with plane 'entry' of "
                    "tensor 1; give each its own memory");
    tdm_plan_destroy(plan);
  }
}

static void expectRefused(void (*edit)(tdm_kernel_desc &),
                          const std::string &message) {
  tdm_kernel_desc desc = phasesDesc();
  edit(desc);
  tdm_kernel *kernel = nullptr;
  expectFailure(tdm_kernel_create(&desc, &kernel), TDM_INVALID_ARGUMENT,
                "kernel 'phases': " + message);
  EXPECT_EQ(kernel, nullptr);
}

TEST(PhasesError, Descriptions) {
  expectRefused([](tdm_kernel_desc &desc) { desc.early_entries = nullptr; },
                "early_entries is NULL but num_early_entries is 1");
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const tdm_cpu_entry none[] = {nullptr};
        desc.early_entries = none;
      },
      "early entry 0 is NULL; pass the compiled function");
  expectRefused([](tdm_kernel_desc &desc) { desc.reductions = nullptr; },
                "reductions is NULL but num_reductions is 3");
  expectRefused([](tdm_kernel_desc &desc) { desc.num_reductions = 5000; },
                "num_reductions is 5000; use at most 4096");
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const tdm_reduction_desc wrong[] = {
            {TDM_REDUCTION_SUM, 0, TDM_SCOPE_TENSOR},
            {TDM_REDUCTION_SUM, 2, TDM_SCOPE_TENSOR}};
        desc.reductions = wrong;
        desc.num_reductions = 2;
      },
      "reduction 1 belongs to phase 2 of a kernel of 2 phases");
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const tdm_reduction_desc wrong[] = {
            {static_cast<tdm_reduction_kind>(3), 0, TDM_SCOPE_TENSOR}};
        desc.reductions = wrong;
        desc.num_reductions = 1;
      },
      "reduction 0 has kind 3; use a tdm_reduction_kind");
}
