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
#include <functional>

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
      float total = 0;
      EXPECT_EQ(tdm_plan_sum(plan, i, 0, &total), TDM_OK) << tdm_last_error();
      EXPECT_EQ(total, sums[i]) << "tensor " << i;
    }
  }
}

TEST_P(Phases, ASumHasOneNaN) {
  DeviceKernel kernel(device, GetParam(), phasesDesc(), phasesTotals);
  uint32_t bits = 0xFFC12345;
  float total, nan;
  std::memcpy(&nan, &bits, sizeof(nan));
  DeviceArray<float> values(device, {1, nan}), entry(device, {0});
  TensorList list;
  list.add(2, {values.data(), entry.data()});
  OwnedPlan plan(kernel, list);
  launchPlain(plan, 1);
  ASSERT_EQ(tdm_plan_sum(plan, 0, 0, &total), TDM_OK) << tdm_last_error();
  std::memcpy(&bits, &total, sizeof(bits));
  EXPECT_EQ(bits, 0x7FC00000u);
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

namespace {
/// The steps between the phases of a launch that a host has computed.
struct HostSteps {
  std::vector<uint32_t> called;
  /// The work of a step; its result is that of the callback.
  std::function<int()> work = [] { return 0; };

  static int call(void *host, uint32_t external, void *) {
    auto &steps = *static_cast<HostSteps *>(host);
    steps.called.push_back(external);
    return steps.work();
  }
};
} // namespace

static tdm_kernel_desc externalDesc() {
  static const tdm_external_desc externals[] = {{"first", 0}, {"second", 0}};
  tdm_kernel_desc desc = phasesDesc();
  desc.externals = externals;
  desc.num_externals = 2;
  return desc;
}

/// The host computes steps after the phase whose results they read, and before
/// the phase that reads theirs.
TEST_P(Phases, TheHostComputesSteps) {
  DeviceKernel kernel(device, GetParam(), externalDesc(), phasesTotals);
  DeviceArray<float> values(device, {1, 2, 3}), entry(device, {0});
  TensorList list;
  list.add(3, {values.data(), entry.data()});
  OwnedPlan plan(kernel, list);
  HostSteps steps;
  ASSERT_EQ(tdm_plan_set_external(plan, HostSteps::call, &steps), TDM_OK);
  // The last phase adds the entry to the sum that the first one has made.
  steps.work = [&] {
    EXPECT_EQ(values.read()[2], 3);
    entry.write({100});
    return 0;
  };
  launchPlain(plan, 2);
  EXPECT_EQ(steps.called, std::vector<uint32_t>({0, 1}));
  EXPECT_EQ(values.read()[2], 106);
  // After a failure the later phases do not run.
  steps = HostSteps();
  steps.work = [] { return 1; };
  expectFailure(tdm_plan_launch(plan, nullptr, nullptr, 1, 1, nullptr),
                TDM_EXCHANGE_ERROR,
                "kernel 'phases': the external step 'first' failed; the host "
                "knows why");
  EXPECT_EQ(steps.called.size(), 1u);
  EXPECT_EQ(values.read()[2], 106);
  ASSERT_EQ(tdm_plan_set_external(plan, nullptr, nullptr), TDM_OK);
  expectFailure(tdm_plan_launch(plan, nullptr, nullptr, 1, 1, nullptr),
                TDM_INVALID_STATE,
                "kernel 'phases': the host computes the step 'first', but the "
                "plan has no function for it; call tdm_plan_set_external "
                "first");
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST(PhasesError, SumsThatDoNotExist) {
  float values[3] = {}, entry = 0, total = 0;
  TensorList list;
  list.add(3, {values, &entry});
  OwnedKernel kernel(phasesDesc());
  OwnedPlan plan(kernel, list);
  auto expectInvalid = [&](int64_t tensor, int64_t reduction,
                           const char *message) {
    expectFailure(tdm_plan_sum(plan, tensor, reduction, &total),
                  TDM_INVALID_ARGUMENT, message);
  };
  expectInvalid(0, 3,
                "kernel 'phases': there is no reduction 3 in a kernel of 3");
  expectInvalid(0, -1,
                "kernel 'phases': there is no reduction -1 in a kernel of 3");
  expectInvalid(0, 1,
                "kernel 'phases': reduction 1 is not a sum over a tensor or "
                "the model");
  expectInvalid(1, 0, "kernel 'phases': there is no tensor 1 in a plan of 1");
  expectFailure(tdm_plan_sum(plan, 0, 0, &total), TDM_INVALID_STATE,
                "kernel 'phases': no launch has run over the plan's tensors; "
                "launch it first");
  expectFailure(tdm_plan_sum(plan, 0, 0, nullptr), TDM_INVALID_ARGUMENT,
                "tdm_plan_sum: total is NULL; pass where to store it");
  expectFailure(tdm_plan_sum(nullptr, 0, 0, &total), TDM_INVALID_ARGUMENT,
                "tdm_plan_sum: plan is NULL; pass one from tdm_plan_create");
}

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

/// A row that sums take in one chunk must fit into it. The memory of longer
/// rows is not accessed, since the plan is refused.
TEST(PhasesError, LongRows) {
  float values[3] = {}, entry = 0;
  TensorList list;
  list.add(3, {values, &entry});
  list[0].rows = 2;
  list[0].columns = TDM_LAUNCH_CHUNK_ELEMENTS + 1;
  tdm_kernel_desc desc = phasesDesc();
  OwnedKernel kernel(desc);
  tdm_plan *plan = nullptr;
  expectFailure(tdm_plan_create(kernel, list.data(), 1, &plan),
                TDM_INVALID_ARGUMENT,
                "kernel 'phases': tensor 0: a row has 1073741825 columns, "
                "which a kernel with sums or metrics takes in one chunk of at "
                "most 1073741824; pass the tensor with shorter rows");
  // A power of two is not cut into rows.
  list[0].columns = 2 * TDM_LAUNCH_CHUNK_ELEMENTS;
  EXPECT_EQ(tdm_plan_create(kernel, list.data(), 1, &plan), TDM_OK)
      << tdm_last_error();
  tdm_plan_destroy(plan);
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

TEST(PhasesError, ExternalSteps) {
  expectFailure(tdm_plan_set_external(nullptr, nullptr, nullptr),
                TDM_INVALID_ARGUMENT,
                "tdm_plan_set_external: plan is NULL; pass one from "
                "tdm_plan_create");
  expectRefused([](tdm_kernel_desc &desc) { desc.num_externals = 1; },
                "externals is NULL but num_externals is 1");
  static const tdm_external_desc noName[] = {{nullptr, 0}};
  expectRefused(
      [](tdm_kernel_desc &desc) {
        desc.externals = noName;
        desc.num_externals = 1;
      },
      "external step 0 has no name; set tdm_external_desc.name");
  static const tdm_external_desc last[] = {{"step", 1}};
  expectRefused(
      [](tdm_kernel_desc &desc) {
        desc.externals = last;
        desc.num_externals = 1;
      },
      "external step 0 follows phase 1 of a kernel of 2 phases; list steps by "
      "ascending phase, before the last one");
}

/// The results of a step may replace its operands, in the same memory.
TEST(PhasesError, ReceivedPlanesReplaceSentOnes) {
  tdm_kernel_desc desc = externalDesc();
  tdm_plane_desc planes[] = {desc.planes[0], desc.planes[0]};
  planes[1].access = TDM_ACCESS_READ;
  planes[0].kind = TDM_ROLE_SENT;
  planes[1].name = "result";
  desc.planes = planes;
  float values[2] = {};
  for (tdm_role kind : {TDM_ROLE_RECEIVED, TDM_ROLE_STATE}) {
    planes[1].kind = kind;
    OwnedKernel kernel(desc);
    TensorList list;
    list.add(2, {values, values});
    tdm_plan *plan = nullptr;
    tdm_status status = tdm_plan_create(kernel, list.data(), 1, &plan);
    EXPECT_EQ(status, kind == TDM_ROLE_RECEIVED ? TDM_OK : TDM_OVERLAP);
    tdm_plan_destroy(plan);
  }
}
