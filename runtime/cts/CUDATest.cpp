//===- CUDATest.cpp - Plans on a GPU --------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests what only plans on a GPU have: launches that wait for
// nothing, arguments in the device's memory, steps that are skipped, graphs.
// The driver is the library that stands in for it, which does the work in a
// stream as late as it may.
//
//===----------------------------------------------------------------------===//

#include "FakeCUDA.h"
#include "TestDevice.h"

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
    stream = fakecuda::createStream();
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
      fakecuda::destroyStream(stream);
    DeviceTest::TearDown();
  }

  tdm_status launch(double lr, const void *skip = nullptr) {
    double hypers[] = {lr, 1e-8};
    int64_t step = 1;
    tdm_async_args args = {sizeof(args), stream, hypers, &step, 1, 0,
                           skip,         nullptr};
    tdm_status status = tdm_plan_launch_async(*plan, &args);
    // What has been copied is not looked at again.
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

INSTANTIATE_TEST_SUITE_P(On, CUDA, testing::Values(TDM_DEVICE_CUDA),
                         nameOfKind);

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

/// Three lists, which never come to the same of eight buffers soon again.
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

/// Each tensor by itself, as where gradients are released one by one.
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

/// A launch over the same tensors copies no tables: two kernels, and the word
/// of flags is cleared.
TEST_P(CUDA, TheSameTensorsCostFewCalls) {
  ASSERT_EQ(launch(1), TDM_OK);
  long before = fakecuda::calls(),
       copies = fakecuda::callsOf("cuMemcpyHtoDAsync_v2");
  ASSERT_EQ(tdm_plan_update(*plan, tensors.data(), count), TDM_OK);
  ASSERT_EQ(launch(1), TDM_OK);
  EXPECT_EQ(fakecuda::calls() - before, 5);
  EXPECT_EQ(fakecuda::callsOf("cuMemcpyHtoDAsync_v2"), copies);
}

TEST_P(CUDA, StreamsOfOnePlanThatTheCallerOrders) {
  ASSERT_EQ(launch(1), TDM_OK);
  void *first = stream;
  fakecuda::synchronize(first);
  stream = fakecuda::createStream();
  ASSERT_EQ(launch(2), TDM_OK);
  fakecuda::synchronize(stream);
  fakecuda::destroyStream(stream);
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
    void *ownStream = fakecuda::createStream();
    for (int i = 0; i < 200; ++i) {
      double hypers[] = {lr, 0};
      int64_t step = 1;
      tdm_async_args args = {sizeof(args), ownStream, hypers, &step, 1, 0,
                             nullptr,      nullptr};
      ASSERT_EQ(tdm_plan_launch_async(own, &args), TDM_OK) << tdm_last_error();
    }
    fakecuda::synchronize(ownStream);
    EXPECT_EQ(values.read(), std::vector<float>(20000, -200 * lr));
    fakecuda::destroyStream(ownStream);
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
  // The word of one launch is not that of the next.
  grad[1].write(std::vector<float>(size, 1.0f));
  ASSERT_EQ(launch(1), TDM_OK) << tdm_last_error();
  expectAll(param, -2.0f);
}

/// As where launches look at all gradients before others write.
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
  // What others have found stays.
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
  fakecuda::beginCapture(stream);
  ASSERT_EQ(launchOnDevice(hypers, step), TDM_OK) << tdm_last_error();
  int graph = fakecuda::endCapture(stream);
  expectAll(param, -1.0f);
  for (double lr : {2.0, 4.0}) {
    hypers.write({lr, 0.0});
    fakecuda::launchGraph(graph, stream);
    fakecuda::synchronize(stream);
  }
  expectAll(param, -7.0f);
  fakecuda::destroyGraph(graph);
}

/// Also where the list is new to the device, and whatever the plan does later.
TEST_P(CUDA, AGraphKeepsItsTensors) {
  DeviceArray<double> hypers(device, {1.0, 0.0});
  DeviceArray<int64_t> step(device, {1});
  ASSERT_EQ(launchOnDevice(hypers, step), TDM_OK);
  ASSERT_EQ(tdm_plan_update(*plan, moved.data(), count), TDM_OK);
  long copies = fakecuda::callsOf("cuMemcpyHtoDAsync_v2");
  fakecuda::beginCapture(stream);
  ASSERT_EQ(launchOnDevice(hypers, step), TDM_OK) << tdm_last_error();
  int graph = fakecuda::endCapture(stream);
  EXPECT_EQ(fakecuda::callsOf("cuMemcpyHtoDAsync_v2"), copies + 1);
  ASSERT_EQ(tdm_plan_update(*plan, tensors.data(), count), TDM_OK);
  ASSERT_EQ(launch(8), TDM_OK);
  TensorList one;
  one.add(7, {param[0].data(), grad[0].data()});
  ASSERT_EQ(tdm_plan_update(*plan, one.data(), 1), TDM_OK);
  fakecuda::launchGraph(graph, stream);
  fakecuda::launchGraph(graph, stream);
  fakecuda::synchronize(stream);
  expectAll(param, -9.0f);
  expectAll(other, -2.0f);
  fakecuda::destroyGraph(graph);
}

TEST_P(CUDA, AGraphSkipsByItsWord) {
  DeviceArray<double> hypers(device, {1.0, 0.0});
  DeviceArray<int64_t> step(device, {1});
  DeviceArray<float> foundInf(device, {1.0f});
  fakecuda::beginCapture(stream);
  tdm_async_args args = {sizeof(args),    stream, hypers.data(),
                         step.data(),     1,      1,
                         foundInf.data(), nullptr};
  ASSERT_EQ(tdm_plan_launch_async(*plan, &args), TDM_OK) << tdm_last_error();
  int graph = fakecuda::endCapture(stream);
  fakecuda::launchGraph(graph, stream);
  expectAll(param, 0.0f);
  foundInf.write({0.0f});
  fakecuda::launchGraph(graph, stream);
  expectAll(param, -1.0f);
  fakecuda::destroyGraph(graph);
}

/// As where a garbage collector comes by.
TEST_P(CUDA, WhatIsGivenBackDuringACaptureDoesNotHarmIt) {
  auto unused = std::make_unique<OwnedPlan>(*kernel, tensors);
  auto code = std::make_unique<DeviceKernel>(device, GetParam(), sgdDesc());
  DeviceArray<double> hypers(device, {1.0, 0.0});
  DeviceArray<int64_t> step(device, {1});
  fakecuda::beginCapture(stream);
  unused.reset();
  code.reset();
  ASSERT_EQ(launchOnDevice(hypers, step), TDM_OK) << tdm_last_error();
  int graph = fakecuda::endCapture(stream);
  EXPECT_EQ(fakecuda::takeViolations(), "");
  fakecuda::launchGraph(graph, stream);
  expectAll(param, -1.0f);
  fakecuda::destroyGraph(graph);
}

TEST_P(CUDA, AGraphHasNoHyperparametersOfTheHost) {
  fakecuda::beginCapture(stream);
  expectFailure(launch(1), TDM_INVALID_STATE,
                "kernel 'sgd': the stream is being captured, and a graph would "
                "repeat the hyperparameters of this call; pass them in the "
                "device's memory");
  fakecuda::destroyGraph(fakecuda::endCapture(stream));
  ASSERT_EQ(launch(1), TDM_OK);
  expectAll(param, -1.0f);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// Adds its one scalar, which the prologue makes of nothing, to each byte.
static tdm_kernel_desc constantDesc() {
  tdm_kernel_desc desc = countDesc();
  desc.name = "constant";
  desc.num_scalars = 1;
  desc.entry = [](const void *tensors, const void *, const uint32_t *scalars,
                  void *, uint32_t *, int64_t, int64_t) {
    Record record(tensors, 0, 1);
    for (int64_t i = 0; i < record.columns(); ++i)
      record.plane<uint8_t>(0)[i] += scalars[0];
  };
  desc.prologue = [](const double *, const int64_t *, uint32_t *scalars,
                     int64_t) { scalars[0] = 7; };
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
  fakecuda::beginCapture(stream);
  EXPECT_EQ(tdm_plan_launch_async(own, &args), TDM_OK) << tdm_last_error();
  int graph = fakecuda::endCapture(stream);
  fakecuda::launchGraph(graph, stream);
  EXPECT_EQ(bytes.read(), std::vector<uint8_t>(5, 14));
  fakecuda::destroyGraph(graph);
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

namespace {
/// All that an application does with a device, until something fails.
class Session {
public:
  tdm_status run(std::string &message) {
    for (auto step : {&Session::open, &Session::launch, &Session::move,
                      &Session::capture, &Session::read})
      if (tdm_status status = (this->*step)()) {
        message = tdm_last_error();
        return status;
      }
    return TDM_OK;
  }

  ~Session() {
    fakecuda::failNothing();
    tdm_plan_destroy(plan);
    tdm_kernel_destroy(kernel);
    for (void *memory : planes)
      tdm_device_free(device, memory);
    tdm_device_close(device);
    fakecuda::destroyStream(stream);
  }

private:
  tdm_status open() {
    int32_t count = 0;
    if (tdm_status status = tdm_device_count(TDM_DEVICE_CUDA, &count))
      return status;
    if (tdm_status status = tdm_device_open(TDM_DEVICE_CUDA, 0, &device))
      return status;
    tdm_device_info info = {};
    info.struct_size = sizeof(info);
    if (tdm_status status = tdm_device_query(device, &info))
      return status;
    for (void *&memory : planes)
      if (tdm_status status = tdm_device_allocate(device, 4 * size, &memory))
        return status;
    tdm_kernel_desc desc = sumDesc();
    FakeCode code(desc);
    return tdm_kernel_create_cuda(device, &desc, &code.code, &kernel);
  }

  tdm_status launch() {
    std::vector<float> ones(size, 1.0f);
    if (tdm_status status =
            tdm_device_copy(device, planes[0], ones.data(), 4 * size))
      return status;
    list.add(size, {planes[0]});
    if (tdm_status status = tdm_plan_create(kernel, list.data(), 1, &plan))
      return status;
    return tdm_plan_launch(plan, nullptr, nullptr, 0, 0, nullptr);
  }

  tdm_status move() {
    moved.add(size, {planes[1]});
    if (tdm_status status = tdm_plan_update(plan, moved.data(), 1))
      return status;
    return launchAsync();
  }

  tdm_status launchAsync() {
    tdm_async_args args = {};
    args.struct_size = sizeof(args);
    args.stream = stream;
    args.skip = planes[0];
    return tdm_plan_launch_async(plan, &args);
  }

  tdm_status capture() {
    if (tdm_status status = tdm_plan_update(plan, list.data(), 1))
      return status;
    fakecuda::beginCapture(stream);
    tdm_status status = launchAsync();
    fakecuda::destroyGraph(fakecuda::endCapture(stream));
    if (status)
      return status;
    return tdm_plan_update(plan, moved.data(), 1);
  }

  tdm_status read() {
    double metrics[2];
    uint32_t flags;
    if (tdm_status status = launchAsync())
      return status;
    if (tdm_status status = tdm_plan_metrics(plan, 0, metrics, 2))
      return status;
    if (tdm_status status = tdm_plan_flags(plan, &flags))
      return status;
    return tdm_device_synchronize(device);
  }

  static constexpr int64_t size = 5000;
  void *stream = fakecuda::createStream();
  tdm_device *device = nullptr;
  tdm_kernel *kernel = nullptr;
  tdm_plan *plan = nullptr;
  void *planes[2] = {};
  TensorList list, moved;
};
} // namespace

TEST(CUDAError, EveryCallMayFail) {
  if (!isFakeDriver())
    GTEST_SKIP() << "a real driver does not fail on demand";
  int failures = 0;
  for (bool done = false; !done; ++failures) {
    fakecuda::failCall(failures, /*unknown error=*/999);
    std::string message;
    tdm_status status = Session().run(message);
    std::string call = fakecuda::failedCall();
    fakecuda::failNothing();
    done = call.empty();
    SCOPED_TRACE("call " + std::to_string(failures) + ", " + call);
    EXPECT_EQ(status, done ? TDM_OK : TDM_DEVICE_ERROR);
    if (call == "cuLinkAddData_v2")
      call = "kernel 'sum': the driver cannot compile its PTX: " + call;
    EXPECT_EQ(message, done ? "" : call + " failed: CUDA_ERROR_UNKNOWN");
    EXPECT_EQ(fakecuda::takeViolations(), "");
    ASSERT_EQ(fakecuda::living(), "");
  }
  EXPECT_GT(failures, 60);
}

TEST(CUDAError, OutOfMemory) {
  if (!isFakeDriver())
    GTEST_SKIP() << "a real driver does not fail on demand";
  OpenDevice device(TDM_DEVICE_CUDA);
  void *memory = nullptr;
  expectFailure(tdm_device_allocate(device, size_t(1) << 40, &memory),
                TDM_OUT_OF_MEMORY,
                "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (out of "
                "memory)");
}

//===----------------------------------------------------------------------===//
// No driver
//===----------------------------------------------------------------------===//

namespace {
/// A variable of the environment, for a while.
class Variable {
public:
  Variable(const char *name, const std::string &value)
      : name(name), before(std::getenv(name)) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { setenv(name, before.c_str(), 1); }

private:
  const char *name;
  std::string before;
};
} // namespace

TEST(CUDAError, WithoutADriverThereAreNoDevices) {
  Variable driver("TANDEM_CUDA_DRIVER", "/nonexistent/libcuda.so.1");
  int32_t count = 7;
  EXPECT_EQ(tdm_device_count(TDM_DEVICE_CUDA, &count), TDM_OK);
  EXPECT_EQ(count, 0);
  tdm_device *device = nullptr;
  expectFailure(tdm_device_open(TDM_DEVICE_CUDA, 0, &device), TDM_UNAVAILABLE,
                "there is no CUDA driver: /nonexistent/libcuda.so.1: cannot "
                "open shared object file: No such file or directory; install "
                "NVIDIA's driver, or name its library in TANDEM_CUDA_DRIVER");
}

TEST(CUDAError, ALibraryThatIsNoDriver) {
  Variable driver("TANDEM_CUDA_DRIVER", "libm.so.6");
  tdm_device *device = nullptr;
  expectFailure(tdm_device_open(TDM_DEVICE_CUDA, 0, &device), TDM_UNAVAILABLE,
                "the CUDA driver 'libm.so.6' has no cuInit; update it");
}

TEST(CUDAError, NoSuchDevice) {
  if (!isFakeDriver())
    GTEST_SKIP() << "a real driver has the devices that there are";
  tdm_device *device = nullptr;
  expectFailure(tdm_device_open(TDM_DEVICE_CUDA, 1, &device), TDM_UNAVAILABLE,
                "there is no CUDA device 1; the driver has 1 device");
  fakecuda::setDevices(0, 90);
  expectFailure(tdm_device_open(TDM_DEVICE_CUDA, 0, &device), TDM_UNAVAILABLE,
                "there is no CUDA device 0; the driver has 0 devices");
  fakecuda::setDevices(1, 90);
}
