//===- CUDADevice.h - A GPU -------------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares a GPU, and owners of the driver's resources.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_CUDADEVICE_H
#define TANDEM_RUNTIME_LIB_CUDA_CUDADEVICE_H

#include "Device.h"
#include "Driver.h"

#include <utility>

namespace tandem::runtime::cuda {

/// A GPU with its primary context, which other libraries use too.
class CUDADevice : public Device,
                   public std::enable_shared_from_this<CUDADevice> {
public:
  static tdm_status count(int32_t &count);
  static tdm_status open(int32_t ordinal,
                         std::shared_ptr<const CUDADevice> &device);
  CUDADevice(const Driver &driver, int32_t ordinal)
      : driver(driver), ordinal(ordinal) {}
  ~CUDADevice() override;

  tdm_status query(tdm_device_info &info) const override;
  tdm_status allocate(size_t bytes, void *&memory) const override;
  tdm_status free(void *memory) const override;
  tdm_status copy(void *to, const void *from, size_t bytes) const override;
  tdm_status synchronize() const override;
  int64_t rank(const tdm_image &image) const override;
  const char *getAdvice() const override {
    return "this device or an earlier one";
  }
  tdm_status load(const Kernel &kernel, const tdm_kernel_info &info,
                  const tdm_image &image,
                  std::shared_ptr<const Executable> &result) const override;

  /// Returns the compute capability, such as 90 for sm_90.
  int getCapability() const { return capability; }
  int getMultiprocessors() const { return multiprocessors; }
  /// Returns the size of the L2 cache in bytes.
  int64_t getCacheBytes() const { return cacheBytes; }

  /// Runs \p body with the device's context current on this thread. Meanwhile
  /// the thread may allocate memory, load modules and wait for events even if
  /// this or another thread is capturing a stream.
  template <typename Body>
  tdm_status inContext(Body body) const {
    if (tdm_status status = driver.call(driver.ctxPushCurrent, context))
      return status;
    ContextScope entered(driver);
    return body();
  }

  /// Runs \p body in the same way to release resources, which sets no message
  /// and ignores failures: at exit the driver may already be shut down.
  template <typename Body>
  void release(Body body) const {
    if (driver.ctxPushCurrent(context) != Result::Success)
      return;
    ContextScope entered(driver);
    body();
  }

  /// Returns the stream for copies that the host waits for. It is non-blocking,
  /// so that it may be used while a blocking stream is being captured.
  Stream getCopyStream() const { return copyStream; }

  const Driver &driver;

private:
  /// A scope after the context has been pushed. It relaxes the thread's capture
  /// mode; its end restores the mode and pops the context.
  class ContextScope {
  public:
    explicit ContextScope(const Driver &driver) : driver(driver) {
      isRelaxed = driver.exchangeCaptureMode(&mode) == Result::Success;
    }
    ~ContextScope() {
      if (isRelaxed)
        driver.exchangeCaptureMode(&mode);
      Context popped;
      driver.ctxPopCurrent(&popped);
    }
    ContextScope(const ContextScope &) = delete;

  private:
    const Driver &driver;
    CaptureMode mode = CaptureMode::Relaxed;
    bool isRelaxed;
  };

  tdm_status open();

  const int32_t ordinal;
  DeviceHandle handle = 0;
  Context context = nullptr;
  Stream copyStream = nullptr;
  int capability = 0, multiprocessors = 0, cacheBytes = 0;
};

/// Owns memory of the device.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory &&other) noexcept { swap(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    DeviceMemory taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~DeviceMemory();

  /// Allocates memory; the device's context must be current.
  tdm_status allocate(std::shared_ptr<const CUDADevice> device, size_t size);
  Address address() const { return memory; }
  size_t size() const { return bytes; }

private:
  void swap(DeviceMemory &other) {
    std::swap(device, other.device);
    std::swap(memory, other.memory);
    std::swap(bytes, other.bytes);
  }

  std::shared_ptr<const CUDADevice> device;
  Address memory = 0;
  size_t bytes = 0;
};

/// Owns memory of the process that the device also reads and writes, at the
/// same address, and an event that follows the latest such work.
class SharedMemory {
public:
  SharedMemory() = default;
  SharedMemory(SharedMemory &&other) noexcept { swap(other); }
  SharedMemory &operator=(SharedMemory &&other) noexcept {
    SharedMemory taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~SharedMemory();

  /// Allocates memory; the device's context must be current.
  tdm_status allocate(std::shared_ptr<const CUDADevice> device, size_t bytes);
  char *data() const { return static_cast<char *>(memory); }
  size_t size() const { return bytes; }

  /// Marks the memory as in use until \p stream has reached this point.
  tdm_status use(Stream stream);
  /// Waits until the device has finished using the memory.
  tdm_status wait() const;

private:
  void swap(SharedMemory &other) {
    std::swap(device, other.device);
    std::swap(memory, other.memory);
    std::swap(bytes, other.bytes);
    std::swap(event, other.event);
    std::swap(used, other.used);
  }

  std::shared_ptr<const CUDADevice> device;
  void *memory = nullptr;
  size_t bytes = 0;
  Event event = nullptr;
  bool used = false;
};

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_CUDADEVICE_H
