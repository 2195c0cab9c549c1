//===- MetricsTest.cpp - Sums over chunks and tensors ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tests of the metrics' values and of the shape of their
// sums.
//
//===----------------------------------------------------------------------===//

#include "TestDevice.h"

#include <cmath>
#include <cstring>

using namespace tandem::cts;

/// With this spread sums of values are inexact in f64, so they depend on the
/// order.
static constexpr int spread = 6;

static uint64_t bitsOf(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// Computes the tree as specified: pad to a power of two, then add neighbours
/// until one value is left.
static double referenceTree(std::vector<double> level) {
  size_t size = 1;
  while (size < level.size())
    size *= 2;
  level.resize(size, -0.0);
  for (; size > 1; size /= 2)
    for (size_t i = 0; i < size / 2; ++i)
      level[i] = level[2 * i] + level[2 * i + 1];
  return level[0];
}

static double referenceSum(const std::vector<float> &values) {
  return referenceTree(std::vector<double>(values.begin(), values.end()));
}

static void expectMetrics(tdm_plan *plan, int64_t tensor, double sum,
                          double count) {
  double metrics[2];
  ASSERT_EQ(tdm_plan_metrics(plan, tensor, metrics, 2), TDM_OK)
      << tdm_last_error();
  EXPECT_EQ(bitsOf(metrics[0]), bitsOf(sum)) << "tensor " << tensor;
  EXPECT_EQ(bitsOf(metrics[1]), bitsOf(count)) << "tensor " << tensor;
}

using Metrics = DeviceTest;
ON_EACH_DEVICE(Metrics);

TEST_P(Metrics, NaNHasNoSignAndNoPayload) {
  DeviceKernel kernel(device, GetParam(), sumDesc());
  std::vector<float> numbers(5000, 1.0f);
  const uint32_t negativeNaN = 0xFFC12345;
  std::memcpy(&numbers[4500], &negativeNaN, sizeof(negativeNaN));
  DeviceArray<float> values(device, numbers);
  TensorList list;
  list.add(numbers.size(), {values.data()});
  OwnedPlan plan(kernel, list);
  launchPlain(plan, 1);
  double metrics[2];
  for (int64_t tensor : {int64_t(0), int64_t(TDM_ALL_TENSORS)}) {
    ASSERT_EQ(tdm_plan_metrics(plan, tensor, metrics, 2), TDM_OK);
    EXPECT_EQ(bitsOf(metrics[0]), 0x7FF8000000000000u);
  }
}

TEST_P(Metrics, OneTreeOverElementsThenTensors) {
  DeviceKernel kernel(device, GetParam(), sumDesc());
  const size_t sizes[] = {1, 17, 4097, 300000, 4096, 1000000, 40960};
  std::vector<DeviceArray<float>> values;
  std::vector<double> sums;
  TensorList list;
  double elements = 0;
  for (size_t size : sizes) {
    auto numbers = randomFloats(size, static_cast<unsigned>(size), spread);
    values.emplace_back(device, numbers);
    sums.push_back(referenceSum(numbers));
    list.add(size, {values.back().data()});
    elements += static_cast<double>(size);
  }
  OwnedPlan plan(kernel, list);
  for (int threads : {1, 2, 3, 8}) {
    launchPlain(plan, threads);
    for (size_t i = 0; i < values.size(); ++i)
      expectMetrics(plan, i, sums[i], static_cast<double>(sizes[i]));
    expectMetrics(plan, TDM_ALL_TENSORS, referenceTree(sums), elements);
  }
}

TEST_P(Metrics, ATensorDoesNotDependOnItsNeighbours) {
  DeviceKernel kernel(device, GetParam(), sumDesc());
  auto numbers = randomFloats(50000, 4, spread);
  DeviceArray<float> values(device, numbers),
      many(device, std::vector<float>(9000000, 1.0f));
  TensorList single, among;
  single.add(50000, {values.data()});
  among.add(50000, {values.data()});
  among.add(9000000, {many.data()});
  OwnedPlan small(kernel, single), large(kernel, among);
  EXPECT_GT(launchPlain(small, 1).chunks, 1);
  launchPlain(large, 2);
  expectMetrics(small, 0, referenceSum(numbers), 50000);
  expectMetrics(large, 0, referenceSum(numbers), 50000);
}

TEST_P(Metrics, EmptyTensorsAreNegativeZero) {
  DeviceKernel kernel(device, GetParam(), sumDesc());
  DeviceArray<float> value(device, {-0.0f});
  TensorList list;
  list.add(0, {nullptr});
  list.add(1, {value.data()});
  OwnedPlan plan(kernel, list);
  launchPlain(plan, 1);
  expectMetrics(plan, 0, -0.0, -0.0);
  expectMetrics(plan, TDM_ALL_TENSORS, -0.0, 1.0);
  TensorList none;
  OwnedPlan empty(kernel, none);
  launchPlain(empty, 1);
  expectMetrics(empty, TDM_ALL_TENSORS, -0.0, -0.0);
}

TEST(MetricsError, Arguments) {
  OwnedKernel kernel(sumDesc());
  std::vector<float> values(5000, 1.0f);
  TensorList list;
  list.add(5000, {values.data()});
  OwnedPlan plan(kernel, list);
  double metrics[2] = {7, 7};
  expectFailure(tdm_plan_metrics(plan, 0, metrics, 2), TDM_INVALID_STATE,
                "kernel 'sum': no launch has run over the plan's tensors; "
                "launch it first");
  launchPlain(plan, 1);
  expectFailure(tdm_plan_metrics(plan, 1, metrics, 2), TDM_INVALID_ARGUMENT,
                "kernel 'sum': there is no tensor 1 in a plan of 1; pass one "
                "of them or TDM_ALL_TENSORS");
  expectFailure(tdm_plan_metrics(plan, 0, metrics, 1), TDM_INVALID_ARGUMENT,
                "kernel 'sum': the number of metrics asked for is 1 but the "
                "kernel records 2");
  expectFailure(tdm_plan_metrics(plan, 0, nullptr, 2), TDM_INVALID_ARGUMENT,
                "kernel 'sum': values is NULL; pass room for 2 doubles");
  EXPECT_EQ(metrics[0], 7);
}
