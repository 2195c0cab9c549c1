//===- StandInErrorTest.cpp - Errors of a driver --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests errors of the driver. Tests whose suite begins with StandIn
// need the stand-in library, which produces errors that a real driver does not
// produce on demand.
//
//===----------------------------------------------------------------------===//

#include "FakeCUDA.h"
#include "TestDevice.h"

#include <cstdlib>

using namespace tandem::cts;

namespace {
/// All steps of an application with a device, until one fails.
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
    if (tdm_status status = tdm_device_count("cuda", &count))
      return status;
    if (tdm_status status = tdm_device_open("cuda", 0, &device))
      return status;
    tdm_device_info info = {};
    info.struct_size = sizeof(info);
    if (tdm_status status = tdm_device_query(device, &info))
      return status;
    for (void *&memory : planes)
      if (tdm_status status = tdm_device_allocate(device, 4 * size, &memory))
        return status;
    tdm_kernel_desc desc = sumDesc();
    TestCode code(desc);
    return tdm_kernel_load(device, &code.info, &kernel);
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

TEST(StandInError, EveryCallMayFail) {
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

TEST(StandInError, OutOfMemory) {
  OpenDevice device("cuda");
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
/// Sets an environment variable while this object lives.
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
  EXPECT_EQ(tdm_device_count("cuda", &count), TDM_OK);
  EXPECT_EQ(count, 0);
  tdm_device *device = nullptr;
  expectFailure(tdm_device_open("cuda", 0, &device), TDM_UNAVAILABLE,
                "there is no CUDA driver: /nonexistent/libcuda.so.1: cannot "
                "open shared object file: No such file or directory; install "
                "NVIDIA's driver, or name its library in TANDEM_CUDA_DRIVER");
}

TEST(CUDAError, ALibraryThatIsNoDriver) {
  Variable driver("TANDEM_CUDA_DRIVER", "libm.so.6");
  tdm_device *device = nullptr;
  expectFailure(tdm_device_open("cuda", 0, &device), TDM_UNAVAILABLE,
                "the CUDA driver 'libm.so.6' has no cuInit; update it");
}

TEST(StandInError, NoSuchDevice) {
  tdm_device *device = nullptr;
  expectFailure(tdm_device_open("cuda", 1, &device), TDM_UNAVAILABLE,
                "there is no CUDA device 1; the driver has 1 device");
  fakecuda::setDevices(0, 90);
  expectFailure(tdm_device_open("cuda", 0, &device), TDM_UNAVAILABLE,
                "there is no CUDA device 0; the driver has 0 devices");
  fakecuda::setDevices(1, 90);
}
