//===- CUDACaptureTest.cpp - Captures and copies on a GPU -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests the runtime while this or another thread captures a stream,
// and copies while streams run that do not wait for the legacy default stream.
//
//===----------------------------------------------------------------------===//

#include "TestDevice.h"
#include "TestStream.h"

#include <memory>

using namespace tandem::cts;

namespace {
/// A plan of the sgd kernel over one tensor, and a stream of an application.
class Captures : public DeviceTest {
protected:
  static constexpr int size = 5000;

  void SetUp() override {
    DeviceTest::SetUp();
    stream = createStream();
    kernel = std::make_unique<DeviceKernel>(device, GetParam(), sgdDesc());
    param = std::make_unique<Array>(device, std::vector<float>(size));
    grad = std::make_unique<Array>(device, std::vector<float>(size, 1.0f));
    list.add(size, {param->data(), grad->data()});
    plan = std::make_unique<OwnedPlan>(*kernel, list);
  }

  void TearDown() override {
    plan.reset();
    kernel.reset();
    param.reset();
    grad.reset();
    if (stream)
      destroyStream(stream);
    DeviceTest::TearDown();
  }

  /// Launches a plan with \p rows rows of arguments, of which the last one has
  /// \p lr.
  static tdm_status launch(tdm_plan *plan, void *stream, double lr,
                           int64_t rows = 1) {
    std::vector<double> hypers(2 * rows, 0.0);
    hypers[2 * rows - 2] = lr;
    std::vector<int64_t> steps(rows, 1);
    tdm_async_args args = {sizeof(args), stream, hypers.data(), steps.data(),
                           rows,         0,      nullptr,       nullptr};
    return tdm_plan_launch_async(plan, &args);
  }

  /// Ends a capture, which must be valid, and discards its graph.
  void endEmptyCapture() { destroyGraph(endCapture(stream)); }

  using Array = DeviceArray<float>;
  void *stream = nullptr;
  std::unique_ptr<DeviceKernel> kernel;
  std::unique_ptr<OwnedPlan> plan;
  std::unique_ptr<Array> param, grad;
  TensorList list;
};
} // namespace

INSTANTIATE_TEST_SUITE_P(On, Captures, testing::Values("cuda"), nameOfDriver);

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// A non-blocking stream sees copies from the host and within the device after
/// they return.
TEST_P(Captures, CopiesHaveBeenDoneWhenTheyReturn) {
  Array source(device, std::vector<float>(size, 7.0f));
  ASSERT_EQ(tdm_device_copy(device, param->data(), source.data(),
                            size * sizeof(float)),
            TDM_OK);
  ASSERT_EQ(launch(*plan, stream, 2.0), TDM_OK) << tdm_last_error();
  synchronize(stream);
  EXPECT_EQ(param->read(), std::vector<float>(size, 5.0f));
  param->write(std::vector<float>(size, 1.0f));
  ASSERT_EQ(launch(*plan, stream, 2.0), TDM_OK) << tdm_last_error();
  synchronize(stream);
  EXPECT_EQ(param->read(), std::vector<float>(size, -1.0f));
}

TEST_P(Captures, CopiesWaitForAllStreams) {
  for (bool isBlocking : {false, true}) {
    param->write(std::vector<float>(size, 1.0f));
    void *other = createStream(isBlocking);
    ASSERT_EQ(launch(*plan, other, 2.0), TDM_OK) << tdm_last_error();
    EXPECT_EQ(param->read(), std::vector<float>(size, -1.0f));
    destroyStream(other);
  }
}

TEST_P(Captures, ACopyDuringACaptureIsAnError) {
  beginCapture(stream);
  float value = 0;
  expectFailureSaying(
      tdm_device_copy(device, &value, param->data(), sizeof(value)),
      TDM_INVALID_STATE,
      "a stream is being captured; do this before the capture or after it");
  expectInvalidatedCapture(stream);
}

//===----------------------------------------------------------------------===//
// Calls that are allowed during a capture
//===----------------------------------------------------------------------===//

TEST_P(Captures, KernelsAreLoaded) {
  beginCapture(stream);
  auto other = std::make_unique<DeviceKernel>(device, GetParam(), countDesc());
  other.reset();
  endEmptyCapture();
}

TEST_P(Captures, MemoryAndPlansComeAndGo) {
  beginCapture(stream);
  void *memory = nullptr;
  EXPECT_EQ(tdm_device_allocate(device, 1000, &memory), TDM_OK)
      << tdm_last_error();
  EXPECT_EQ(tdm_device_free(device, memory), TDM_OK) << tdm_last_error();
  {
    OwnedPlan other(*kernel, list);
  }
  endEmptyCapture();
}

/// While another stream is captured, a plan in one stream gets more arguments
/// than it has room for. The old memory is released only after it has been
/// read.
TEST_P(Captures, OtherStreamsLaunchWithMoreArguments) {
  void *other = createStream();
  ASSERT_EQ(launch(*plan, other, 1.0), TDM_OK) << tdm_last_error();
  beginCapture(stream);
  for (int64_t rows : {100, 10000}) {
    list[0].scalar_row = rows - 1;
    ASSERT_EQ(tdm_plan_update(*plan, list.data(), 1), TDM_OK);
    EXPECT_EQ(launch(*plan, other, 1.0, rows), TDM_OK) << tdm_last_error();
  }
  endEmptyCapture();
  EXPECT_EQ(param->read(), std::vector<float>(size, -3.0f));
  destroyStream(other);
}

/// The host is far enough ahead to wait until arguments and tables have been
/// read.
TEST_P(Captures, OtherStreamsLaunchFarAhead) {
  void *other = createStream();
  Array moved(device, std::vector<float>(size));
  TensorList second;
  second.add(size, {moved.data(), grad->data()});
  ASSERT_EQ(launch(*plan, other, 1.0), TDM_OK) << tdm_last_error();
  beginCapture(stream);
  for (int i = 0; i < 500; ++i) {
    TensorList &next = i % 2 ? list : second;
    ASSERT_EQ(tdm_plan_update(*plan, next.data(), 1), TDM_OK);
    ASSERT_EQ(launch(*plan, other, 1.0), TDM_OK) << tdm_last_error();
  }
  endEmptyCapture();
  EXPECT_EQ(param->read(), std::vector<float>(size, -251.0f));
  EXPECT_EQ(moved.read(), std::vector<float>(size, -250.0f));
  destroyStream(other);
}

/// A garbage collector may destroy plans during a capture.
TEST_P(Captures, PlansThatHaveBeenLaunchedGo) {
  void *other = createStream();
  ASSERT_EQ(launch(*plan, other, 1.0), TDM_OK) << tdm_last_error();
  beginCapture(stream);
  plan.reset();
  kernel.reset();
  endEmptyCapture();
  EXPECT_EQ(param->read(), std::vector<float>(size, -1.0f));
  destroyStream(other);
}

/// A plan may be destroyed after the stream of its latest launch.
TEST_P(Captures, StreamsThatHaveBeenDestroyedAreNotUsed) {
  void *other = createStream();
  ASSERT_EQ(launch(*plan, other, 1.0), TDM_OK) << tdm_last_error();
  synchronize(other);
  destroyStream(other);
  list[0].scalar_row = 999;
  ASSERT_EQ(tdm_plan_update(*plan, list.data(), 1), TDM_OK);
  ASSERT_EQ(launch(*plan, stream, 1.0, 1000), TDM_OK) << tdm_last_error();
  synchronize(stream);
  EXPECT_EQ(param->read(), std::vector<float>(size, -2.0f));
}

//===----------------------------------------------------------------------===//
// Calls that are not allowed
//===----------------------------------------------------------------------===//

/// The legacy default stream waits for blocking streams.
TEST_P(Captures, ALaunchInTheDefaultStreamIsAnErrorBesideABlockingCapture) {
  void *blocking = createStream(/*isBlocking=*/true);
  beginCapture(blocking);
  expectFailureSaying(
      launch(*plan, nullptr, 1.0), TDM_INVALID_STATE,
      "a stream is being captured; do this before the capture or after it");
  destroyGraph(endCapture(blocking));
  ASSERT_EQ(launch(*plan, nullptr, 1.0), TDM_OK) << tdm_last_error();
  EXPECT_EQ(param->read(), std::vector<float>(size, -1.0f));
  destroyStream(blocking);
}
