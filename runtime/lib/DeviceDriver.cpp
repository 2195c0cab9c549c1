//===- DeviceDriver.cpp - Families of devices -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the list of device drivers.
//
//===----------------------------------------------------------------------===//

#include "DeviceDriver.h"

#include "CUDA/CUDADriver.h"

#include <cstring>
#include <mutex>
#include <vector>

using namespace tandem::runtime;

namespace {
/// The drivers of this process, in the order of their registration.
struct DriverList {
  /// Returns the list, which is never destroyed, since devices may be closed
  /// while the process shuts down.
  static DriverList &get() {
    static auto *list =
        new DriverList{{}, {&getCPUDriver(), &cuda::getDriver()}};
    return *list;
  }

  const DeviceDriver *find(const char *name) const {
    for (const DeviceDriver *driver : drivers)
      if (!std::strcmp(driver->getName(), name))
        return driver;
    return nullptr;
  }

  std::mutex mutex;
  std::vector<const DeviceDriver *> drivers;
};
} // namespace

tdm_status tandem::runtime::findDriver(const char *function, const char *name,
                                       const DeviceDriver *&driver) {
  DriverList &list = DriverList::get();
  std::lock_guard<std::mutex> lock(list.mutex);
  if (!name)
    return Failure(TDM_INVALID_ARGUMENT)
           << function << ": driver is NULL; name one, such as \"cpu\"";
  driver = list.find(name);
  if (driver)
    return TDM_OK;
  Failure failure(TDM_INVALID_ARGUMENT);
  failure << function << ": there is no driver '" << name << "'; there are ";
  for (size_t i = 0; i < list.drivers.size(); ++i)
    failure << (i ? ", " : "") << list.drivers[i]->getName();
  return failure << "; register others with tdm_driver_register first";
}

tdm_status
tandem::runtime::addDriver(std::unique_ptr<const DeviceDriver> driver) {
  DriverList &list = DriverList::get();
  std::lock_guard<std::mutex> lock(list.mutex);
  if (list.find(driver->getName()))
    return Failure(TDM_INVALID_STATE)
           << "tdm_driver_register: there is a driver '" << driver->getName()
           << "' already; register it once, or by another name";
  list.drivers.push_back(driver.get());
  driver.release();
  return TDM_OK;
}
