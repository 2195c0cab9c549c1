//===- CUDATest.cpp - Plans on a GPU --------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests the features of plans that only GPUs have: asynchronous
// launches, arguments in the device's memory, skipped launches, and graphs.
// Without a GPU the driver is the stand-in library, which runs the work in a
// stream as late as the rules allow.
//
//===----------------------------------------------------------------------===//

#include "FakeCUDA.h"
#include "TestDevice.h"
#include "TestStream.h"

#include <cstdlib>
#include <limits>
#include <memory>
#include <thread>

using namespace tandem::cts;

namespace {
/// A plan of the sgd kernel over some tensors, in a stream.
class CUDA : public DeviceTest {
protected:
  static constexpr int count = 3, size = 5000;

  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped())
      return;
    stream = createStream();
    kernel = std::make_unique<DeviceKernel>(device, GetParam(), sgdDesc());
    for (auto *list : {&tensors, &moved})
      for (int i = 0; i < count; ++i) {
        auto &params = list == &tensors ? param : other;
        params.emplace_back(device, std::vector<float>(size));
        if (list == &tensors)
          grad.emplace_back(device, std::vector<float>(size, 1.0f));
        list->add(size, {params.back().data(), grad[i].data()});
      }
    plan = std::make_unique<OwnedPlan>(*kernel, tensors);
  }

  void TearDown() override {
    plan.reset();
    kernel.reset();
    param.clear();
    other.clear();
    grad.clear();
    if (stream)
      destroyStream(stream);
    DeviceTest::TearDown();
  }

  tdm_status launch(double lr, const void *skip = nullptr) {
    double hypers[] = {lr, 1e-8};
    int64_t step = 1;
    tdm_async_args args = {sizeof(args), stream, hypers, &step, 1, 0,
                           skip,         nullptr};
    tdm_status status = tdm_plan_launch_async(*plan, &args);
    // The launch has copied its arguments and does not read them again.
    hypers[0] = std::numeric_limits<double>::quiet_NaN();
    return status;
  }

  tdm_status launchOnDevice(const DeviceArray<double> &hypers,
                            const DeviceArray<int64_t> &step) {
    tdm_async_args args = {sizeof(args), stream, hypers.data(),
                           step.data(),  1,      1,
                           nullptr,      nullptr};
    return tdm_plan_launch_async(*plan, &args);
  }

  static void expectAll(const std::vector<DeviceArray<float>> &arrays,
                        float value) {
    for (const DeviceArray<float> &array : arrays)
      EXPECT_EQ(array.read(), std::vector<float>(size, value));
  }

  /// Returns the number of waiting calls that the stand-in driver has counted.
  /// A real driver counts none, so these tests then check only the results.
  static long waits() {
    long calls = 0;
    for (const char *name :
         {"cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize"})
      calls += fakecuda::callsOf(name);
    return calls;
  }

  void *stream = nullptr;
  std::unique_ptr<DeviceKernel> kernel;
  std::unique_ptr<OwnedPlan> plan;
  std::vector<DeviceArray<float>> param, other, grad;
  TensorList tensors, moved;
};
} // namespace

INSTANTIATE_TEST_SUITE_P(On, CUDA, testing::Values("cuda"), nameOfDriver);

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

TEST_P(CUDA, LaunchesWaitForNothing) {
  long before = waits();
  double sum = 0;
  for (int i = 1; i <= 100; ++i) {
    ASSERT_EQ(launch(i), TDM_OK) << tdm_last_error();
    sum += i;
  }
  EXPECT_EQ(waits(), before);
  expectAll(param, static_cast<float>(-sum));
}

TEST_P(CUDA, AHostFarAheadWaitsButNothingIsLost) {
  double sum = 0;
  for (int i = 1; i <= 1000; ++i) {
    ASSERT_EQ(launch(i), TDM_OK) << tdm_last_error();
    sum += i;
  }
  expectAll(param, static_cast<float>(-sum));
}

TEST_P(CUDA, UpdatesWaitForNothing) {
  ASSERT_EQ(launch(1), TDM_OK);
  long before = waits();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(tdm_plan_update(*plan, moved.data(), count), TDM_OK);
    ASSERT_EQ(launch(2), TDM_OK) << tdm_last_error();
    ASSERT_EQ(tdm_plan_update(*plan, tensors.data(), count), TDM_OK);
    ASSERT_EQ(launch(4), TDM_OK) << tdm_last_error();
  }
  EXPECT_EQ(waits(), before);
  expectAll(param, -13.0f);
  expectAll(other, -6.0f);
}

/// Three lists alternate, so that none soon gets the same one of eight buffers.
TEST_P(CUDA, ManyUpdatesAhead) {
  TensorList mixed;
  for (int i = 0; i < count; ++i)
    mixed.add(size, {(i ? param : other)[i].data(), grad[i].data()});
  TensorList *lists[] = {&tensors, &moved, &mixed};
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(tdm_plan_update(*plan, lists[i % 3]->data(), count), TDM_OK);
    ASSERT_EQ(launch(1), TDM_OK) << tdm_last_error();
  }
  EXPECT_EQ(param[0].read(), std::vector<float>(size, -17.0f));
  EXPECT_EQ(param[1].read(), std::vector<float>(size, -33.0f));
  EXPECT_EQ(other[0].read(), std::vector<float>(size, -33.0f));
  EXPECT_EQ(other[1].read(), std::vector<float>(size, -17.0f));
}

/// Each tensor is launched separately, as when gradients are released one by
/// one.
TEST_P(CUDA, TensorsOfOtherSizesNeedNoOtherMemory) {
  TensorList small;
  small.add(3, {param[0].data(), grad[0].data()});
  ASSERT_EQ(launch(1), TDM_OK);
  long before = waits(), allocations = fakecuda::callsOf("cuMemAlloc_v2"),
       freed = fakecuda::callsOf("cuMemFree_v2");
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(tdm_plan_update(*plan, small.data(), 1), TDM_OK);
    ASSERT_EQ(launch(2), TDM_OK) << tdm_last_error();
    ASSERT_EQ(tdm_plan_update(*plan, tensors.data(), count), TDM_OK);
    ASSERT_EQ(launch(4), TDM_OK) << tdm_last_error();
  }
  EXPECT_EQ(waits(), before);
  EXPECT_EQ(fakecuda::callsOf("cuMemAlloc_v2"), allocations);
  EXPECT_EQ(fakecuda::callsOf("cuMemFree_v2"), freed);
  std::vector<float> want(size, -13.0f);
  EXPECT_EQ(param[1].read(), want);
  std::fill_n(want.begin(), 3, -19.0f);
  EXPECT_EQ(param[0].read(), want);
}

/// A launch over the same tensors copies no tables. It launches two kernels,
/// clears the word of flags, and records an event after which the arguments
/// have been read.
TEST_P(CUDA, TheSameTensorsCostFewCalls) {
  ASSERT_EQ(launch(1), TDM_OK);
  long before = fakecuda::calls(),
       copies = fakecuda::callsOf("cuMemcpyHtoDAsync_v2");
  ASSERT_EQ(tdm_plan_update(*plan, tensors.data(), count), TDM_OK);
  ASSERT_EQ(launch(1), TDM_OK);
  if (isFakeDriver()) {
    EXPECT_EQ(fakecuda::calls() - before, 6);
  }
  EXPECT_EQ(fakecuda::callsOf("cuMemcpyHtoDAsync_v2"), copies);
}

TEST_P(CUDA, StreamsOfOnePlanThatTheCallerOrders) {
  ASSERT_EQ(launch(1), TDM_OK);
  void *first = stream;
  synchronize(first);
  stream = createStream();
  ASSERT_EQ(launch(2), TDM_OK);
  synchronize(stream);
  destroyStream(stream);
  stream = first;
  expectAll(param, -3.0f);
}

TEST_P(CUDA, PlansLaunchFromManyThreads) {
  auto launchOften = [&](float lr) {
    DeviceArray<float> values(device, std::vector<float>(20000)),
        ones(device, std::vector<float>(20000, 1.0f));
    TensorList list;
    for (int i = 0; i < 4; ++i)
      list.add(5000, {values.data() + 5000 * i, ones.data() + 5000 * i});
    OwnedPlan own(*kernel, list);
    void *ownStream = createStream();
    for (int i = 0; i < 200; ++i) {
      double hypers[] = {lr, 0};
      int64_t step = 1;
      tdm_async_args args = {sizeof(args), ownStream, hypers, &step, 1, 0,
                             nullptr,      nullptr};
      ASSERT_EQ(tdm_plan_launch_async(own, &args), TDM_OK) << tdm_last_error();
    }
    synchronize(ownStream);
    EXPECT_EQ(values.read(), std::vector<float>(20000, -200 * lr));
    destroyStream(ownStream);
  };
  std::thread first(launchOften, 0.5f), second(launchOften, 0.25f);
  launchOften(2.0f);
  first.join();
  second.join();
}

//===----------------------------------------------------------------------===//
// Arguments in the device's memory
//===----------------------------------------------------------------------===//

TEST_P(CUDA, HyperparametersOnTheDevice) {
  DeviceArray<double> hypers(device, {3.0, 0.0});
  DeviceArray<int64_t> step(device, {1});
  ASSERT_EQ(launchOnDevice(hypers, step), TDM_OK) << tdm_last_error();
  hypers.write({-5.0, 0.0});
  ASSERT_EQ(launchOnDevice(hypers, step), TDM_OK)
      << "their domains are not checked";
  expectAll(param, 2.0f);
}

TEST_P(CUDA, ASkippedLaunchDoesNothing) {
  DeviceArray<float> foundInf(device, {0.0f});
  ASSERT_EQ(launch(1, foundInf.data()), TDM_OK) << tdm_last_error();
  foundInf.write({1.0f});
  grad[1].write(
      std::vector<float>(size, std::numeric_limits<float>::infinity()));
  ASSERT_EQ(launch(1, foundInf.data()), TDM_OK) << tdm_last_error();
  uint32_t flags = 7;
  ASSERT_EQ(tdm_plan_flags(*plan, &flags), TDM_OK);
  EXPECT_EQ(flags, 0u) << "nothing has looked at the gradients";
  expectAll(param, -1.0f);
  // The flag of one launch does not affect the next one.
  grad[1].write(std::vector<float>(size, 1.0f));
  ASSERT_EQ(launch(1), TDM_OK) << tdm_last_error();
  expectAll(param, -2.0f);
}

/// Some launches check all gradients before others write.
TEST_P(CUDA, ALaunchIsSkippedByTheFlagsOfOthers) {
  DeviceArray<uint32_t> words(device, {5, 6});
  DeviceArray<float> foundInf(device, {0.0f});
  std::vector<float> ones(size, 1.0f), bad = ones;
  bad[size - 1] = std::numeric_limits<float>::infinity();
  TensorList elsewhere;
  elsewhere.add(size, {other[0].data(), grad[2].data()});
  OwnedPlan looks(*kernel, elsewhere);
  double hypers[] = {1, 0};
  int64_t step = 1;
  auto look = [&](const void *skip) {
    tdm_async_args args = {sizeof(args), stream,      hypers, &step, 1, 0,
                           skip,         words.data()};
    return tdm_plan_launch_async(looks, &args);
  };
  for (bool isBad : {true, false}) {
    grad[2].write(isBad ? bad : ones);
    ASSERT_EQ(look(nullptr), TDM_OK) << tdm_last_error();
    ASSERT_EQ(launch(1, words.data()), TDM_OK) << tdm_last_error();
    uint32_t flags = 7;
    ASSERT_EQ(tdm_plan_flags(looks, &flags), TDM_OK);
    EXPECT_EQ(flags, isBad ? TDM_FLAG_NON_FINITE : 0u);
    expectAll(param, isBad ? 0.0f : -1.0f);
  }
  // A nonzero value from earlier launches is preserved.
  for (const void *skip : {static_cast<const void *>(foundInf.data()),
                           static_cast<const void *>(words.data())}) {
    foundInf.write({1.0f});
    ASSERT_EQ(look(skip), TDM_OK) << tdm_last_error();
    EXPECT_EQ(words.read(), (std::vector<uint32_t>{0x3F800000, 0}));
  }
}

TEST_P(CUDA, FlagsElsewhereMustBeAligned) {
  DeviceArray<uint32_t> words(device, {0, 0});
  double hypers[] = {1, 0};
  int64_t step = 1;
  tdm_async_args args = {sizeof(args), stream,      hypers, &step, 1, 0,
                         nullptr,      words.data()};
  args.flags = static_cast<char *>(args.flags) + 2;
  expectFailureSaying(tdm_plan_launch_async(*plan, &args), TDM_INVALID_ARGUMENT,
                      "which is not aligned to words of 4 bytes; align it");
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

TEST_P(CUDA, AGraphReadsItsArgumentsWhenItRuns) {
  DeviceArray<double> hypers(device, {1.0, 0.0});
  DeviceArray<int64_t> step(device, {1});
  ASSERT_EQ(launchOnDevice(hypers, step), TDM_OK);
  beginCapture(stream);
  ASSERT_EQ(launchOnDevice(hypers, step), TDM_OK) << tdm_last_error();
  int graph = endCapture(stream);
  expectAll(param, -1.0f);
  for (double lr : {2.0, 4.0}) {
    hypers.write({lr, 0.0});
    launchGraph(graph, stream);
    synchronize(stream);
  }
  expectAll(param, -7.0f);
  destroyGraph(graph);
}

/// This also holds if the list is not on the device yet, and regardless of
/// later updates of the plan.
TEST_P(CUDA, AGraphKeepsItsTensors) {
  DeviceArray<double> hypers(device, {1.0, 0.0});
  DeviceArray<int64_t> step(device, {1});
  ASSERT_EQ(launchOnDevice(hypers, step), TDM_OK);
  ASSERT_EQ(tdm_plan_update(*plan, moved.data(), count), TDM_OK);
  long copies = fakecuda::callsOf("cuMemcpyHtoDAsync_v2");
  beginCapture(stream);
  ASSERT_EQ(launchOnDevice(hypers, step), TDM_OK) << tdm_last_error();
  int graph = endCapture(stream);
  if (isFakeDriver()) {
    EXPECT_EQ(fakecuda::callsOf("cuMemcpyHtoDAsync_v2"), copies + 1);
  }
  ASSERT_EQ(tdm_plan_update(*plan, tensors.data(), count), TDM_OK);
  ASSERT_EQ(launch(8), TDM_OK);
  TensorList one;
  one.add(7, {param[0].data(), grad[0].data()});
  ASSERT_EQ(tdm_plan_update(*plan, one.data(), 1), TDM_OK);
  launchGraph(graph, stream);
  launchGraph(graph, stream);
  synchronize(stream);
  expectAll(param, -9.0f);
  expectAll(other, -2.0f);
  destroyGraph(graph);
}

TEST_P(CUDA, AGraphSkipsByItsWord) {
  DeviceArray<double> hypers(device, {1.0, 0.0});
  DeviceArray<int64_t> step(device, {1});
  DeviceArray<float> foundInf(device, {1.0f});
  beginCapture(stream);
  tdm_async_args args = {sizeof(args),    stream, hypers.data(),
                         step.data(),     1,      1,
                         foundInf.data(), nullptr};
  ASSERT_EQ(tdm_plan_launch_async(*plan, &args), TDM_OK) << tdm_last_error();
  int graph = endCapture(stream);
  launchGraph(graph, stream);
  expectAll(param, 0.0f);
  foundInf.write({0.0f});
  launchGraph(graph, stream);
  expectAll(param, -1.0f);
  destroyGraph(graph);
}

/// A garbage collector may destroy objects during a capture.
TEST_P(CUDA, WhatIsGivenBackDuringACaptureDoesNotHarmIt) {
  auto unused = std::make_unique<OwnedPlan>(*kernel, tensors);
  auto code = std::make_unique<DeviceKernel>(device, GetParam(), sgdDesc());
  DeviceArray<double> hypers(device, {1.0, 0.0});
  DeviceArray<int64_t> step(device, {1});
  beginCapture(stream);
  unused.reset();
  code.reset();
  ASSERT_EQ(launchOnDevice(hypers, step), TDM_OK) << tdm_last_error();
  int graph = endCapture(stream);
  EXPECT_EQ(fakecuda::takeViolations(), "");
  launchGraph(graph, stream);
  expectAll(param, -1.0f);
  destroyGraph(graph);
}

TEST_P(CUDA, AGraphHasNoHyperparametersOfTheHost) {
  beginCapture(stream);
  expectFailure(launch(1), TDM_INVALID_STATE,
                "kernel 'sgd': the stream is being captured, and a graph would "
                "repeat the hyperparameters of this call; pass them in the "
                "device's memory");
  destroyGraph(endCapture(stream));
  ASSERT_EQ(launch(1), TDM_OK);
  expectAll(param, -1.0f);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

static tdm_kernel_desc constantDesc() {
  tdm_kernel_desc desc = countDesc();
  desc.name = "constant";
  desc.num_scalars = 1;
  desc.entry = code::constantEntry;
  desc.prologue = code::constantPrologue;
  return desc;
}

TEST_P(CUDA, ScalarsThatAreConstantsTakeNoArguments) {
  DeviceKernel constant(device, GetParam(), constantDesc());
  DeviceArray<uint8_t> bytes(device, std::vector<uint8_t>(5));
  TensorList one;
  one.add(5, {bytes.data()});
  OwnedPlan own(constant, one);
  tdm_async_args args = {sizeof(args), stream, nullptr, nullptr, 1, 0,
                         nullptr,      nullptr};
  ASSERT_EQ(tdm_plan_launch_async(own, &args), TDM_OK) << tdm_last_error();
  EXPECT_EQ(bytes.read(), std::vector<uint8_t>(5, 7));
  beginCapture(stream);
  EXPECT_EQ(tdm_plan_launch_async(own, &args), TDM_OK) << tdm_last_error();
  int graph = endCapture(stream);
  launchGraph(graph, stream);
  EXPECT_EQ(bytes.read(), std::vector<uint8_t>(5, 14));
  destroyGraph(graph);
}

TEST_P(CUDA, ArgumentsAreChecked) {
  expectFailure(launch(-1), TDM_OUT_OF_DOMAIN,
                "kernel 'sgd': hyper 'lr' of row 0 is -1; it must be at least "
                "0 and less than inf");
  expectFailure(tdm_plan_launch_async(*plan, nullptr), TDM_INVALID_ARGUMENT,
                "tdm_plan_launch_async: args is NULL; pass a tdm_async_args");
  tdm_async_args args = {};
  expectFailure(tdm_plan_launch_async(*plan, &args), TDM_INVALID_ARGUMENT,
                "tdm_plan_launch_async: struct_size is 0 but this runtime's "
                "is " +
                    std::to_string(sizeof(args)) +
                    "; set it to sizeof(tdm_async_args) of the matching "
                    "header");
  args.struct_size = sizeof(args);
  args.rows = 1;
  args.on_device = 1;
  expectFailure(tdm_plan_launch_async(*plan, &args), TDM_INVALID_ARGUMENT,
                "kernel 'sgd': hypers is NULL; pass 1 rows of 2 values, the "
                "first of them 'lr'");
  args.on_device = 0;
  args.rows = 0;
  expectFailure(tdm_plan_launch_async(*plan, &args), TDM_INVALID_ARGUMENT,
                "kernel 'sgd': tensor 0: scalar_row is 0 but the launch has 0 "
                "rows; pass more rows or a lower scalar_row");
  expectFailure(tdm_plan_flags(*plan, nullptr), TDM_INVALID_ARGUMENT,
                "tdm_plan_flags: flags is NULL; pass where to store them");
  expectAll(param, 0.0f);
}

TEST(CUDAError, APlanOnTheCPUHasNoStreams) {
  OwnedKernel kernel(countDesc());
  TensorList none;
  OwnedPlan plan(kernel, none);
  tdm_async_args args = {};
  args.struct_size = sizeof(args);
  expectFailure(tdm_plan_launch_async(plan, &args), TDM_INVALID_STATE,
                "kernel 'count': the kernel runs on the CPU, which has no "
                "streams; call tdm_plan_launch");
}
