//===- TestDevice.h - Devices for tests -------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the devices that tests run on, and arrays in their memory.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_TESTDEVICE_H
#define TANDEM_RUNTIME_CTS_TESTDEVICE_H

#include "TestKernels.h"
#include "tandem-runtime/tandem_package.h"

namespace tandem::cts {

/// Functions that compute totals on a GPU, by name, which are not in a
/// description.
using Totals = std::vector<std::pair<std::string, tdm_cpu_entry>>;

/// Owns a device, by default the CPU.
class OpenDevice {
public:
  explicit OpenDevice(const char *driver = "cpu") {
    EXPECT_EQ(tdm_device_open(driver, 0, &device), TDM_OK) << tdm_last_error();
  }
  ~OpenDevice() { tdm_device_close(device); }
  OpenDevice(const OpenDevice &) = delete;
  operator tdm_device *() const { return device; }

private:
  tdm_device *device = nullptr;
};

/// A test that runs on the device of each driver. If there is no GPU, a library
/// stands in for CUDA's driver, and calls kernels as functions of this process.
/// With a real driver, tests run the PTX of the same functions, in the file
/// that TANDEM_TEST_PTX names.
class DeviceTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override;
  void TearDown() override;
  bool isCUDA() const { return std::string(GetParam()) == "cuda"; }

  tdm_device *device = nullptr;
};

/// Returns the name of a parameter's driver, for INSTANTIATE_TEST_SUITE_P.
std::string nameOfDriver(const testing::TestParamInfo<const char *> &info);
#define ON_EACH_DEVICE(suite)                                                  \
  INSTANTIATE_TEST_SUITE_P(On, suite, testing::Values("cpu", "cuda"),          \
                           nameOfDriver)

/// Returns whether the driver is the stand-in library.
bool isFakeDriver();

/// The image that a package would hold for a kernel with code for CUDA. With
/// the stand-in library it is PTX that only names functions, which are
/// registered there.
class TestCode {
public:
  explicit TestCode(const tdm_kernel_desc &desc, const Totals &totals = {});
  TestCode(const TestCode &) = delete;

  tdm_kernel_info info = {};
  std::vector<tdm_image> images;
  std::string ptx;

private:
  const char *add(const std::string &name, tdm_cpu_entry entry);
  static void checkRealPTX(const std::string &name);

  std::vector<std::string> names;
  std::vector<tdm_part_info> phases, epilogues;
};

/// Owns a kernel on a device.
class DeviceKernel {
public:
  DeviceKernel(const tdm_device *device, const char *driver,
               const tdm_kernel_desc &desc, const Totals &totals = {});
  ~DeviceKernel() { tdm_kernel_destroy(kernel); }
  DeviceKernel(const DeviceKernel &) = delete;
  operator tdm_kernel *() const { return kernel; }

private:
  tdm_kernel *kernel = nullptr;
};

/// Memory of a device that is initialized from a vector.
template <typename T>
class DeviceArray {
public:
  DeviceArray(const tdm_device *device, const std::vector<T> &values)
      : device(device), size(values.size()) {
    EXPECT_EQ(tdm_device_allocate(device, size * sizeof(T), &memory), TDM_OK)
        << tdm_last_error();
    write(values);
  }
  DeviceArray(DeviceArray &&other) noexcept
      : device(other.device), size(other.size), memory(other.memory) {
    other.memory = nullptr;
  }
  ~DeviceArray() { tdm_device_free(device, memory); }

  T *data() const { return static_cast<T *>(memory); }
  std::vector<T> read() const {
    std::vector<T> values(size);
    EXPECT_EQ(tdm_device_copy(device, values.data(), memory, size * sizeof(T)),
              TDM_OK)
        << tdm_last_error();
    return values;
  }
  void write(const std::vector<T> &values) {
    EXPECT_EQ(tdm_device_copy(device, memory, values.data(), size * sizeof(T)),
              TDM_OK)
        << tdm_last_error();
  }

private:
  const tdm_device *device;
  size_t size;
  void *memory = nullptr;
};

} // namespace tandem::cts

#endif // TANDEM_RUNTIME_CTS_TESTDEVICE_H
