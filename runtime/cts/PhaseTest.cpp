//===- PhaseTest.cpp - Tests of kernels of several phases -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests kernels with several phases: reductions over each tensor and
// over all tensors, and epilogues.
//
//===----------------------------------------------------------------------===//

#include "PhaseKernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace tandem::cts;

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

using Phases = DeviceTest;
ON_EACH_DEVICE(Phases);

TEST_P(Phases, TotalsOfTensorsAndOfAll) {
  DeviceKernel kernel(device, GetParam(), phasesDesc(), phasesTotals);
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
  DeviceKernel kernel(device, GetParam(), phasesDesc(), phasesTotals);
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
                "on whole tensors; pass the unsharded tensor, or the sharding "
                "of this one");
  tdm_kernel_desc desc = phasesDesc();
  desc.num_reductions = 0;
  OwnedKernel entryOnly(desc);
  expectFailure(tdm_plan_create(entryOnly, list.data(), 1, &plan),
                TDM_INVALID_ARGUMENT,
                "kernel 'phases': tensor 0: first is 32, but plane 'entry' has "
                "one entry for a whole tensor; pass the unsharded tensor, or "
                "the sharding of this one");
}

/// An entry of several values occupies the memory of all of them.
TEST(PhasesError, ValuesOfAnEntry) {
  tdm_kernel_desc desc = phasesDesc();
  tdm_plane_desc planes[] = {desc.planes[0], desc.planes[1]};
  planes[1].history = 16;
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
  expectRefused([](tdm_kernel_desc &desc) { desc.reduction_entries = nullptr; },
                "reduction_entries is NULL but num_reduction_entries is 1");
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const tdm_cpu_entry none[] = {nullptr};
        desc.reduction_entries = none;
      },
      "reduction entry 0 is NULL; pass the compiled function");
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
