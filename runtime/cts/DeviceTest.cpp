//===- DeviceTest.cpp - Plans on every device -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tests of plans that are the same on all devices.
//
//===----------------------------------------------------------------------===//

#include "TestDevice.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace tandem::cts;

namespace {
using Devices = DeviceTest;
} // namespace
ON_EACH_DEVICE(Devices);

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

TEST_P(Devices, CanBeAskedWhatTheyAre) {
  int32_t count = 0;
  ASSERT_EQ(tdm_device_count(GetParam(), &count), TDM_OK);
  EXPECT_GE(count, 1);
  tdm_device_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(tdm_device_query(device, &info), TDM_OK) << tdm_last_error();
  EXPECT_STREQ(info.driver, GetParam());
  EXPECT_EQ(info.ordinal, 0);
  EXPECT_EQ(std::strncmp(info.target, isCUDA() ? "sm_" : "cpu", 3), 0);
  EXPECT_GT(info.multiprocessors, 0);
  EXPECT_EQ(info.memory > 0, isCUDA());
}

TEST_P(Devices, CopyBothWaysAndWithin) {
  std::vector<int> numbers = {1, 2, 3, 4};
  DeviceArray<int> first(device, numbers), second(device, {0, 0, 0, 0});
  ASSERT_EQ(tdm_device_copy(device, second.data() + 1, first.data(), 8),
            TDM_OK);
  EXPECT_EQ(second.read(), (std::vector<int>{0, 1, 2, 0}));
  EXPECT_EQ(tdm_device_synchronize(device), TDM_OK);
}

TEST(DevicesError, Arguments) {
  OpenDevice cpu;
  int32_t count;
  tdm_device *device = nullptr;
  expectFailure(tdm_device_count("none", &count), TDM_INVALID_ARGUMENT,
                "tdm_device_count: there is no driver 'none'; there are cpu, "
                "cuda; register others with tdm_driver_register first");
  expectFailure(tdm_device_open(nullptr, 0, &device), TDM_INVALID_ARGUMENT,
                "tdm_device_open: driver is NULL; name one, such as \"cpu\"");
  expectFailure(tdm_device_open("cpu", 1, &device), TDM_UNAVAILABLE,
                "there is no CPU 1; the only one is number 0");
  expectFailure(tdm_device_open("cpu", 0, nullptr), TDM_INVALID_ARGUMENT,
                "tdm_device_open: device is NULL");
  tdm_device_info info = {};
  expectFailure(tdm_device_query(cpu, &info), TDM_INVALID_ARGUMENT,
                "tdm_device_query: struct_size is 0 but this runtime's is " +
                    std::to_string(sizeof(info)) +
                    "; set it to sizeof(tdm_device_info) of the matching "
                    "header");
  expectFailure(tdm_device_copy(nullptr, &count, &count, 4),
                TDM_INVALID_ARGUMENT,
                "tdm_device_copy: device is NULL; pass one from "
                "tdm_device_open");
  expectFailure(tdm_device_copy(cpu, &count, nullptr, 4), TDM_INVALID_ARGUMENT,
                "tdm_device_copy: from is NULL");
  EXPECT_EQ(tdm_device_free(cpu, nullptr), TDM_OK);
  tdm_device_close(nullptr);
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

TEST_P(Devices, ElementsOfAnySizeAndAlignmentAreProcessedOnce) {
  DeviceKernel kernel(device, GetParam(), countDesc());
  std::vector<int64_t> sizes, begins;
  int64_t total = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    sizes.push_back(i % 7 == 0 ? 0 : i * i % 4111);
    begins.push_back(total);
    // Tensors begin at any address, with gaps between them.
    total += sizes.back() + i % 3;
  }
  sizes.push_back(500000);
  begins.push_back(total);
  total += 500000;
  DeviceArray<uint8_t> counts(device, std::vector<uint8_t>(total));
  TensorList list;
  std::vector<uint8_t> expected(total);
  for (size_t i = 0; i < sizes.size(); ++i) {
    list.add(sizes[i], {counts.data() + begins[i]});
    std::fill_n(expected.begin() + begins[i], sizes[i], uint8_t(2));
  }
  OwnedPlan plan(kernel, list);
  launchPlain(plan, 2);
  launchPlain(plan, 1);
  EXPECT_EQ(counts.read(), expected);
}

TEST_P(Devices, EntriesOfGroups) {
  DeviceKernel kernel(device, GetParam(), groupDesc());
  DeviceArray<uint8_t> codes(device, std::vector<uint8_t>(10000, 1));
  DeviceArray<uint16_t> scales(device, std::vector<uint16_t>(313, 5));
  TensorList list;
  list.add(10000, {codes.data(), scales.data()});
  OwnedPlan plan(kernel, list);
  launchPlain(plan, 2);
  EXPECT_EQ(codes.read(), std::vector<uint8_t>(10000, 6));
  std::vector<uint16_t> expected(313, 32);
  expected.back() = 16;
  EXPECT_EQ(scales.read(), expected);
}

TEST_P(Devices, RowsOfHyperparametersByTensor) {
  DeviceKernel kernel(device, GetParam(), sgdDesc());
  std::vector<float> gradients = randomFloats(30000, 3);
  DeviceArray<float> param(device, std::vector<float>(30000)),
      grad(device, gradients);
  TensorList list;
  for (int i = 0; i < 3; ++i)
    list.add(10000, {param.data() + i * 10000, grad.data() + i * 10000})
        .scalar_row = 2 - i;
  OwnedPlan plan(kernel, list);
  const double lrs[] = {0.5, 0.25, 2.0};
  launchSgd(plan, {lrs[0], lrs[1], lrs[2]}, 2);
  std::vector<float> after = param.read();
  for (int i = 0; i < 30000; ++i)
    ASSERT_EQ(after[i], 0.0f + float(-lrs[2 - i / 10000]) * gradients[i]);
}

TEST_P(Devices, UpdatesOfPointersSizesAndRows) {
  DeviceKernel kernel(device, GetParam(), sgdDesc());
  DeviceArray<float> first(device, std::vector<float>(30000)),
      second(device, std::vector<float>(30000)),
      grad(device, std::vector<float>(30000, 1.0f));
  TensorList three, moved, one;
  for (int i = 0; i < 3; ++i) {
    three.add(10000, {first.data() + i * 10000, grad.data() + i * 10000});
    moved.add(10000, {second.data() + i * 10000, grad.data() + i * 10000});
  }
  one.add(100, {second.data(), grad.data()});
  OwnedPlan plan(kernel, three);
  launchSgd(plan, {1.0}, 1);
  ASSERT_EQ(tdm_plan_update(plan, moved.data(), 3), TDM_OK);
  launchSgd(plan, {2.0}, 1);
  moved[2].scalar_row = 3000;
  ASSERT_EQ(tdm_plan_update(plan, moved.data(), 3), TDM_OK);
  std::vector<double> lrs(3001, 4.0);
  lrs[3000] = 8.0;
  launchSgd(plan, lrs, 1);
  ASSERT_EQ(tdm_plan_update(plan, one.data(), 1), TDM_OK);
  launchSgd(plan, {16.0}, 1);
  ASSERT_EQ(tdm_plan_update(plan, nullptr, 0), TDM_OK);
  launchSgd(plan, {16.0}, 1);
  EXPECT_EQ(first.read(), std::vector<float>(30000, -1.0f));
  std::vector<float> expected(30000, -6.0f);
  std::fill_n(expected.begin(), 100, -22.0f);
  std::fill(expected.begin() + 20000, expected.end(), -10.0f);
  EXPECT_EQ(second.read(), expected);
}

TEST_P(Devices, FlagsAreTheLatestLaunchs) {
  DeviceKernel kernel(device, GetParam(), sgdDesc());
  DeviceArray<float> param(device, std::vector<float>(5000)),
      grad(device, std::vector<float>(5000));
  TensorList list;
  list.add(5000, {param.data(), grad.data()});
  OwnedPlan plan(kernel, list);
  uint32_t flags = 7;
  expectFailure(tdm_plan_flags(plan, &flags), TDM_INVALID_STATE,
                "kernel 'sgd': no launch has run over the plan's tensors; "
                "launch it first");
  std::vector<float> bad(5000);
  bad[4321] = std::numeric_limits<float>::infinity();
  grad.write(bad);
  EXPECT_EQ(launchSgd(plan, {1.0}, 1).flags, TDM_FLAG_NON_FINITE);
  ASSERT_EQ(tdm_plan_flags(plan, &flags), TDM_OK);
  EXPECT_EQ(flags, TDM_FLAG_NON_FINITE);
  grad.write(std::vector<float>(5000));
  EXPECT_EQ(launchSgd(plan, {1.0}, 1).flags, 0u);
  ASSERT_EQ(tdm_plan_flags(plan, &flags), TDM_OK);
  EXPECT_EQ(flags, 0u);
}

TEST_P(Devices, APlanOutlivesItsKernelAndDevice) {
  OpenDevice other(GetParam());
  DeviceArray<float> param(device, {0}), grad(device, {1});
  TensorList list;
  list.add(1, {param.data(), grad.data()});
  tdm_plan *plan = nullptr;
  {
    DeviceKernel kernel(other, GetParam(), sgdDesc());
    ASSERT_EQ(tdm_plan_create(kernel, list.data(), 1, &plan), TDM_OK);
  }
  launchSgd(plan, {1.0}, 1);
  EXPECT_EQ(param.read(), std::vector<float>{-1.0f});
  tdm_plan_destroy(plan);
}

TEST_P(Devices, APlanWithoutTensorsCanBeLaunched) {
  DeviceKernel kernel(device, GetParam(), sgdDesc());
  TensorList none;
  OwnedPlan plan(kernel, none);
  EXPECT_EQ(launchSgd(plan, {1.0}, 1).chunks, 0);
}
