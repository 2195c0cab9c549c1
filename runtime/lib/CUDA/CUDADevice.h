//===- CUDADevice.h - A GPU -------------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares a GPU, and owners of what the driver hands out.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_CUDADEVICE_H
#define TANDEM_RUNTIME_LIB_CUDA_CUDADEVICE_H

#include "Device.h"
#include "Driver.h"

#include <utility>

namespace tandem::runtime::cuda {

/// A GPU with its primary context, the one that other libraries use too.
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

  /// The compute capability, 90 for sm_90.
  int getCapability() const { return capability; }
  int getMultiprocessors() const { return multiprocessors; }

  /// Runs \p body with the device's context as this thread's. While it runs,
  /// the thread may allocate, load, and wait for events although a stream is
  /// being captured, by itself or by another thread.
  template <typename Body>
  tdm_status inContext(Body body) const {
    if (tdm_status status = driver.call(driver.ctxPushCurrent, context))
      return status;
    ContextScope entered(driver);
    return body();
  }

  /// The same for what must not fail, and leaves no message: giving things
  /// back. The process may have taken down the driver before.
  template <typename Body>
  void release(Body body) const {
    if (driver.ctxPushCurrent(context) != Result::Success)
      return;
    ContextScope entered(driver);
    body();
  }

  /// A stream for copies that the host waits for. It does not block, so that it
  /// may be used while a stream that blocks is being captured.
  Stream getCopyStream() const { return copyStream; }

  const Driver &driver;

private:
  /// A scope in which the context has been pushed for the thread. Its end pops
  /// the context and restores the thread's capture mode.
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
  int capability = 0, multiprocessors = 0;
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

  /// Inside of the device's context.
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

/// Owns memory of the process that the device reads and writes too, at the same
/// address, with an event after the latest such work.
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

  /// Inside of the device's context.
  tdm_status allocate(std::shared_ptr<const CUDADevice> device, size_t bytes);
  char *data() const { return static_cast<char *>(memory); }
  size_t size() const { return bytes; }

  /// Marks the memory as in use until \p stream has reached this point.
  tdm_status use(Stream stream);
  /// Waits until the device has used it.
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
