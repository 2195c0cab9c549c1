//===- CUDADevice.cpp - A GPU ---------------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a GPU, and owners of the driver's resources.
//
//===----------------------------------------------------------------------===//

#include "CUDADevice.h"

#include "CUDADriver.h"
#include "CUDAExecutable.h"

#include <cstdio>

using namespace tandem::runtime;
using namespace tandem::runtime::cuda;

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

tdm_status CUDADevice::count(int32_t &count) {
  const Driver *driver = nullptr;
  tdm_status status = Driver::get(driver);
  int devices = 0;
  if (!status)
    status = driver->call(driver->deviceGetCount, &devices);
  // It is not an error here if there is no driver or it finds no device.
  if (status == TDM_UNAVAILABLE)
    devices = 0;
  else if (status)
    return status;
  count = devices;
  return TDM_OK;
}

tdm_status CUDADevice::open(int32_t ordinal,
                            std::shared_ptr<const CUDADevice> &device) {
  const Driver *driver = nullptr;
  if (tdm_status status = Driver::get(driver))
    return status;
  int count = 0;
  if (tdm_status status = driver->call(driver->deviceGetCount, &count))
    return status;
  if (ordinal < 0 || ordinal >= count)
    return Failure(TDM_UNAVAILABLE)
           << "there is no CUDA device " << ordinal << "; the driver has "
           << count << (count == 1 ? " device" : " devices");
  auto opened = std::make_shared<CUDADevice>(*driver, ordinal);
  if (tdm_status status = opened->open())
    return status;
  device = std::move(opened);
  return TDM_OK;
}

tdm_status CUDADevice::open() {
  if (tdm_status status = driver.call(driver.deviceGet, &handle, ordinal))
    return status;
  int major = 0, minor = 0, unified = 0;
  const std::pair<Attribute, int *> attributes[] = {
      {Attribute::ComputeCapabilityMajor, &major},
      {Attribute::ComputeCapabilityMinor, &minor},
      {Attribute::MultiprocessorCount, &multiprocessors},
      {Attribute::L2CacheSize, &cacheBytes},
      {Attribute::UnifiedAddressing, &unified}};
  for (auto [attribute, value] : attributes)
    if (tdm_status status =
            driver.call(driver.deviceGetAttribute, value, attribute, handle))
      return status;
  if (!unified)
    return Failure(TDM_UNAVAILABLE)
           << "CUDA device " << ordinal
           << " has addresses of its own; use a 64-bit system and driver";
  capability = 10 * major + minor;
  if (tdm_status status =
          driver.call(driver.primaryCtxRetain, &context, handle))
    return status;
  return inContext([&] {
    return driver.call(driver.streamCreate, &copyStream, streamNonBlocking);
  });
}

CUDADevice::~CUDADevice() {
  // These calls fail only if the process's context no longer exists; nothing is
  // left to release then.
  if (copyStream)
    release([&] { driver.streamDestroy(copyStream); });
  if (context)
    driver.primaryCtxRelease(handle);
}

tdm_status CUDADevice::query(tdm_device_info &info) const {
  int version = 0;
  size_t bytes = 0;
  if (tdm_status status = driver.call(driver.driverGetVersion, &version))
    return status;
  if (tdm_status status = driver.call(driver.deviceTotalMem, &bytes, handle))
    return status;
  if (tdm_status status = driver.call(driver.deviceGetName, info.name,
                                      int(sizeof(info.name)), handle))
    return status;
  std::snprintf(info.target, sizeof(info.target), "sm_%d", capability);
  info.ordinal = ordinal;
  info.memory = bytes;
  info.multiprocessors = multiprocessors;
  info.driver_version = version;
  return TDM_OK;
}

tdm_status CUDADevice::allocate(size_t bytes, void *&memory) const {
  return inContext([&]() -> tdm_status {
    Address address = 0;
    if (tdm_status status = driver.call(driver.memAlloc, &address, bytes))
      return status;
    memory = reinterpret_cast<void *>(address);
    return TDM_OK;
  });
}

tdm_status CUDADevice::free(void *memory) const {
  return inContext([&] {
    return driver.call(driver.memFree, reinterpret_cast<Address>(memory));
  });
}

tdm_status CUDADevice::copy(void *to, const void *from, size_t bytes) const {
  return inContext([&]() -> tdm_status {
    // The stream of the copy does not wait for other streams.
    if (tdm_status status = driver.call(driver.ctxSynchronize))
      return status;
    if (!bytes)
      return TDM_OK;
    if (tdm_status status =
            driver.call(driver.memcpyAsync, reinterpret_cast<Address>(to),
                        reinterpret_cast<Address>(from), bytes, copyStream))
      return status;
    // Copies within the device and copies from pageable memory may return
    // before they are done.
    return driver.call(driver.streamSynchronize, copyStream);
  });
}

tdm_status CUDADevice::synchronize() const {
  return inContext([&] { return driver.call(driver.ctxSynchronize); });
}

tdm_status CUDADevice::load(const Kernel &kernel, const tdm_kernel_info &info,
                            const tdm_image &image,
                            std::shared_ptr<const Executable> &result) const {
  return CUDAExecutable::load(shared_from_this(), kernel, info, image, result);
}

//===----------------------------------------------------------------------===//
// The driver
//===----------------------------------------------------------------------===//

namespace {
class CUDADriver : public DeviceDriver {
public:
  const char *getName() const override { return "cuda"; }

  tdm_status count(int32_t &count) const override {
    return CUDADevice::count(count);
  }

  tdm_status open(int32_t ordinal,
                  std::shared_ptr<const Device> &device) const override {
    std::shared_ptr<const CUDADevice> opened;
    tdm_status status = CUDADevice::open(ordinal, opened);
    device = std::move(opened);
    return status;
  }
};
} // namespace

const DeviceDriver &tandem::runtime::cuda::getDriver() {
  static CUDADriver driver;
  return driver;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

DeviceMemory::~DeviceMemory() {
  if (memory)
    device->release([&] { device->driver.memFree(memory); });
}

tdm_status DeviceMemory::allocate(std::shared_ptr<const CUDADevice> owner,
                                  size_t size) {
  device = std::move(owner);
  tdm_status status =
      device->driver.call(device->driver.memAlloc, &memory, size);
  bytes = status ? 0 : size;
  return status;
}

SharedMemory::~SharedMemory() {
  if (!device)
    return;
  const Driver &driver = device->driver;
  device->release([&] {
    // The device may still be reading it.
    if (used)
      driver.eventSynchronize(event);
    if (event)
      driver.eventDestroy(event);
    if (memory)
      driver.memFreeHost(memory);
  });
}

tdm_status SharedMemory::allocate(std::shared_ptr<const CUDADevice> owner,
                                  size_t size) {
  device = std::move(owner);
  const Driver &driver = device->driver;
  if (tdm_status status = driver.call(driver.memHostAlloc, &memory, size,
                                      hostAllocPortable | hostAllocMapped))
    return status;
  bytes = size;
  return driver.call(driver.eventCreate, &event, eventDisableTiming);
}

tdm_status SharedMemory::use(Stream stream) {
  if (tdm_status status =
          device->driver.call(device->driver.eventRecord, event, stream))
    return status;
  used = true;
  return TDM_OK;
}

tdm_status SharedMemory::wait() const {
  if (!used)
    return TDM_OK;
  return device->driver.call(device->driver.eventSynchronize, event);
}
