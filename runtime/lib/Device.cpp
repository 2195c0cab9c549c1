//===- Device.cpp - Where kernels run -------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the C interface of devices.
//
//===----------------------------------------------------------------------===//

#include "Device.h"

#include "DeviceDriver.h"

using namespace tandem::runtime;

static tdm_status failNull(const char *function, const char *argument) {
  return Failure(TDM_INVALID_ARGUMENT)
         << function << ": " << argument << " is NULL";
}

static tdm_status failNullDevice(const char *function) {
  return Failure(TDM_INVALID_ARGUMENT)
         << function << ": device is NULL; pass one from tdm_device_open";
}

tdm_status tdm_device_count(const char *driver, int32_t *count) {
  return guarded("tdm_device_count", [&]() -> tdm_status {
    if (!count)
      return failNull("tdm_device_count", "count");
    const DeviceDriver *found = nullptr;
    if (tdm_status status = findDriver("tdm_device_count", driver, found))
      return status;
    return found->count(*count);
  });
}

tdm_status tdm_device_open(const char *driver, int32_t ordinal,
                           tdm_device **device) {
  return guarded("tdm_device_open", [&]() -> tdm_status {
    if (!device)
      return failNull("tdm_device_open", "device");
    auto handle = std::make_unique<tdm_device>();
    if (tdm_status status =
            findDriver("tdm_device_open", driver, handle->driver))
      return status;
    if (tdm_status status = handle->driver->open(ordinal, handle->device))
      return status;
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
    result.driver = device->driver->getName();
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
