//===- Device.cpp - Where kernels run -------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the CPU as a device, and the C interface of all devices.
//
//===----------------------------------------------------------------------===//

#include "Device.h"

#include "CPU/ThreadPool.h"
#include "CUDA/CUDADevice.h"

#include <cstdlib>
#include <cstring>

using namespace tandem::runtime;

//===----------------------------------------------------------------------===//
// The CPU
//===----------------------------------------------------------------------===//

namespace {
class CPUDevice : public Device {
public:
  tdm_status query(tdm_device_info &info) const override {
    std::strcpy(info.name, "CPU");
    std::strcpy(info.target, "cpu");
    info.multiprocessors = ThreadPool::defaultThreads();
    return TDM_OK;
  }

  tdm_status allocate(size_t bytes, void *&memory) const override {
    memory = ::operator new(bytes, std::align_val_t(alignment));
    return TDM_OK;
  }

  tdm_status free(void *memory) const override {
    ::operator delete(memory, std::align_val_t(alignment));
    return TDM_OK;
  }

  tdm_status copy(void *to, const void *from, size_t bytes) const override {
    if (bytes)
      std::memmove(to, from, bytes);
    return TDM_OK;
  }

  tdm_status synchronize() const override { return TDM_OK; }

private:
  static constexpr size_t alignment = 64;
};
} // namespace

//===----------------------------------------------------------------------===//
// C interface
//===----------------------------------------------------------------------===//

static tdm_status failUnknownKind(const char *function, int32_t kind) {
  return Failure(TDM_INVALID_ARGUMENT)
         << function << ": kind is " << kind
         << "; pass TDM_DEVICE_CPU or TDM_DEVICE_CUDA";
}

static tdm_status failNull(const char *function, const char *argument) {
  return Failure(TDM_INVALID_ARGUMENT)
         << function << ": " << argument << " is NULL";
}

static tdm_status failNullDevice(const char *function) {
  return Failure(TDM_INVALID_ARGUMENT)
         << function << ": device is NULL; pass one from tdm_device_open";
}

static bool isKind(int32_t kind) {
  return kind == TDM_DEVICE_CPU || kind == TDM_DEVICE_CUDA;
}

tdm_status tdm_device_count(int32_t kind, int32_t *count) {
  return guarded("tdm_device_count", [&]() -> tdm_status {
    if (!count)
      return failNull("tdm_device_count", "count");
    if (!isKind(kind))
      return failUnknownKind("tdm_device_count", kind);
    if (kind == TDM_DEVICE_CUDA)
      return cuda::CUDADevice::count(*count);
    *count = 1;
    return TDM_OK;
  });
}

tdm_status tdm_device_open(int32_t kind, int32_t ordinal, tdm_device **device) {
  return guarded("tdm_device_open", [&]() -> tdm_status {
    if (!device)
      return failNull("tdm_device_open", "device");
    if (!isKind(kind))
      return failUnknownKind("tdm_device_open", kind);
    auto handle = std::make_unique<tdm_device>();
    handle->kind = static_cast<tdm_device_kind>(kind);
    if (kind == TDM_DEVICE_CUDA) {
      std::shared_ptr<const cuda::CUDADevice> opened;
      if (tdm_status status = cuda::CUDADevice::open(ordinal, opened))
        return status;
      handle->device = std::move(opened);
    } else if (ordinal != 0) {
      return Failure(TDM_UNAVAILABLE)
             << "there is no CPU " << ordinal << "; the only one is number 0";
    } else {
      handle->device = std::make_shared<CPUDevice>();
    }
    *device = handle.release();
    return TDM_OK;
  });
}

tdm_status tdm_device_query(const tdm_device *device, tdm_device_info *info) {
  if (!device)
    return failNullDevice("tdm_device_query");
  if (!info)
    return failNull("tdm_device_query", "info");
  if (info->struct_size != sizeof(tdm_device_info))
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_device_query: struct_size is " << info->struct_size
           << " but this runtime's is " << sizeof(tdm_device_info)
           << "; set it to sizeof(tdm_device_info) of the matching header";
  return guarded("tdm_device_query", [&]() -> tdm_status {
    tdm_device_info result = {};
    result.struct_size = sizeof(result);
    result.kind = device->kind;
    if (tdm_status status = device->device->query(result))
      return status;
    *info = result;
    return TDM_OK;
  });
}

tdm_status tdm_device_allocate(const tdm_device *device, size_t bytes,
                               void **memory) {
  if (!device)
    return failNullDevice("tdm_device_allocate");
  if (!memory)
    return failNull("tdm_device_allocate", "memory");
  return guarded("tdm_device_allocate", [&] {
    return device->device->allocate(bytes ? bytes : 1, *memory);
  });
}

tdm_status tdm_device_free(const tdm_device *device, void *memory) {
  if (!device)
    return failNullDevice("tdm_device_free");
  if (!memory)
    return TDM_OK;
  return guarded("tdm_device_free",
                 [&] { return device->device->free(memory); });
}

tdm_status tdm_device_copy(const tdm_device *device, void *to, const void *from,
                           size_t bytes) {
  if (!device)
    return failNullDevice("tdm_device_copy");
  if (bytes && !(to && from))
    return failNull("tdm_device_copy", to ? "from" : "to");
  return guarded("tdm_device_copy",
                 [&] { return device->device->copy(to, from, bytes); });
}

tdm_status tdm_device_synchronize(const tdm_device *device) {
  if (!device)
    return failNullDevice("tdm_device_synchronize");
  return guarded("tdm_device_synchronize",
                 [&] { return device->device->synchronize(); });
}

void tdm_device_close(tdm_device *device) { delete device; }
