//===- PlanTest.cpp - Plans over time -------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tests of updates, and of the data that a plan shares
// with its kernel.
//
//===----------------------------------------------------------------------===//

#include "Allocations.h"
#include "TestKernels.h"

using namespace tandem::cts;

namespace {

/// A plan over three tensors in one of two sets of arrays.
class PlanTest : public testing::Test {
protected:
  PlanTest() : kernel(sgdDesc()) {
    for (int set = 0; set < 2; ++set)
      for (int i = 0; i < 3; ++i)
        lists[set].add(10000, {&param[set][i * 10000], &grad[i * 10000]});
  }

  OwnedKernel kernel;
  std::vector<float> grad = std::vector<float>(30000, 1.0f);
  std::vector<float> param[2] = {std::vector<float>(30000),
                                 std::vector<float>(30000)};
  TensorList lists[2];
};

} // namespace

TEST_F(PlanTest, UpdateMovesToOtherArrays) {
  OwnedPlan plan(kernel, lists[0]);
  launchSgd(plan, {1.0}, 2);
  ASSERT_EQ(tdm_plan_update(plan, lists[1].data(), 3), TDM_OK);
  launchSgd(plan, {2.0}, 2);
  EXPECT_EQ(param[0], std::vector<float>(30000, -1.0f));
  EXPECT_EQ(param[1], std::vector<float>(30000, -2.0f));
}

TEST_F(PlanTest, SteadyStateAllocatesNothing) {
  OwnedPlan plan(kernel, lists[0]);
  const tdm_tensor *data[2] = {lists[0].data(), lists[1].data()};
  double hypers[] = {1.0, 0};
  int64_t step = 1;
  long before = 0;
  EXPECT_GT(allocations(), 0) << "allocations are not counted";
  for (int i = 0; i < 6; ++i) {
    if (i == 3)
      before = allocations();
    tdm_plan_update(plan, data[i % 2], 3);
    tdm_plan_update(plan, data[i % 2], 3);
    tdm_plan_launch(plan, hypers, &step, 1, 3, nullptr);
  }
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(param[1][29999], -3.0f);
}

TEST_F(PlanTest, UpdateOfSizes) {
  OwnedPlan plan(kernel, lists[0]);
  EXPECT_EQ(launchSgd(plan, {1.0}, 1).chunks, 9);
  TensorList shorter;
  shorter.add(100, {param[1].data(), grad.data()});
  ASSERT_EQ(tdm_plan_update(plan, shorter.data(), 1), TDM_OK);
  EXPECT_EQ(launchSgd(plan, {1.0}, 1).chunks, 1);
  EXPECT_EQ(param[1][99], -1.0f);
  EXPECT_EQ(param[1][100], 0.0f);
  ASSERT_EQ(tdm_plan_update(plan, nullptr, 0), TDM_OK);
  EXPECT_EQ(launchSgd(plan, {1.0}, 1).chunks, 0);
  ASSERT_EQ(tdm_plan_update(plan, lists[0].data(), 3), TDM_OK);
  EXPECT_EQ(launchSgd(plan, {1.0}, 1).chunks, 9);
  EXPECT_EQ(param[0][29999], -2.0f);
}

TEST_F(PlanTest, UpdateOfOtherFields) {
  OwnedPlan plan(kernel, lists[0]);
  lists[0][1].scalar_row = 1;
  ASSERT_EQ(tdm_plan_update(plan, lists[0].data(), 3), TDM_OK);
  launchSgd(plan, {1.0, 4.0}, 1);
  EXPECT_EQ(param[0][9999], -1.0f);
  EXPECT_EQ(param[0][10000], -4.0f);
  EXPECT_EQ(param[0][20000], -1.0f);
}

TEST_F(PlanTest, AFailedUpdateKeepsThePlan) {
  OwnedPlan plan(kernel, lists[0]);
  lists[1].planes(2)[0] = nullptr;
  EXPECT_EQ(tdm_plan_update(plan, lists[1].data(), 3), TDM_INVALID_ARGUMENT);
  EXPECT_EQ(tdm_plan_update(plan, lists[1].data(), -3), TDM_INVALID_ARGUMENT);
  launchSgd(plan, {1.0}, 2);
  EXPECT_EQ(param[0], std::vector<float>(30000, -1.0f));
  EXPECT_EQ(param[1], std::vector<float>(30000));
}

TEST_F(PlanTest, APlanOutlivesItsKernel) {
  tdm_kernel_desc desc = sgdDesc();
  tdm_kernel *shortLived = nullptr;
  ASSERT_EQ(tdm_kernel_create(&desc, &shortLived), TDM_OK);
  OwnedPlan plan(shortLived, lists[0]);
  tdm_kernel_destroy(shortLived);
  launchSgd(plan, {1.0}, 2);
  EXPECT_EQ(param[0][0], -1.0f);
}

TEST(Plan, UpdateOfPointersKeepsTheMetrics) {
  OwnedKernel kernel(sumDesc());
  std::vector<float> a(5000, 1.0f), b(5000, 2.0f);
  TensorList first, second, third;
  first.add(5000, {a.data()});
  second.add(5000, {b.data()});
  third.add(4999, {b.data()});
  OwnedPlan plan(kernel, first);
  launchPlain(plan, 1);
  ASSERT_EQ(tdm_plan_update(plan, second.data(), 1), TDM_OK);
  double metrics[2];
  ASSERT_EQ(tdm_plan_metrics(plan, 0, metrics, 2), TDM_OK);
  EXPECT_EQ(metrics[0], 5000.0);
  ASSERT_EQ(tdm_plan_update(plan, third.data(), 1), TDM_OK);
  EXPECT_EQ(tdm_plan_metrics(plan, 0, metrics, 2), TDM_INVALID_STATE);
}

//===----------------------------------------------------------------------===//
// Out of memory
//===----------------------------------------------------------------------===//

/// Repeats \p call with more and more memory until it succeeds, and returns the
/// number of failures.
template <typename Call>
static int callUntilThereIsMemory(const char *function, Call call) {
  for (int failures = 0;; ++failures) {
    tdm_status status;
    {
      FailAllocations fail(failures);
      status = call();
    }
    if (status == TDM_OK)
      return failures;
    expectFailure(status, TDM_OUT_OF_MEMORY,
                  std::string(function) +
                      ": out of memory; free some or use fewer tensors");
    if (failures > 1000)
      return failures;
  }
}

TEST_F(PlanTest, EveryAllocationMayFail) {
  tdm_kernel_desc desc = sgdDesc();
  tdm_kernel *other = nullptr;
  EXPECT_GE(
      callUntilThereIsMemory("tdm_kernel_create",
                             [&] { return tdm_kernel_create(&desc, &other); }),
      4);
  TensorList one, three = lists[0];
  one.add(4, {param[1].data(), grad.data()});
  const tdm_tensor *first = one.data(), *second = three.data();
  tdm_plan *plan = nullptr;
  EXPECT_GE(callUntilThereIsMemory(
                "tdm_plan_create",
                [&] { return tdm_plan_create(other, first, 1, &plan); }),
            4);
  EXPECT_GE(
      callUntilThereIsMemory("tdm_plan_update",
                             [&] { return tdm_plan_update(plan, second, 3); }),
      3);
  double hypers[] = {1.0, 0};
  int64_t step = 1;
  EXPECT_GE(callUntilThereIsMemory("tdm_plan_launch",
                                   [&] {
                                     return tdm_plan_launch(plan, hypers, &step,
                                                            1, 2, nullptr);
                                   }),
            1);
  EXPECT_EQ(param[0], std::vector<float>(30000, -1.0f));
  EXPECT_EQ(param[1], std::vector<float>(30000, 0.0f));
  tdm_plan_destroy(plan);
  tdm_kernel_destroy(other);
}
