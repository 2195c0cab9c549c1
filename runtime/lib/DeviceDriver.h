//===- DeviceDriver.h - Families of devices ---------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares device drivers and their list.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_DEVICEDRIVER_H
#define TANDEM_RUNTIME_LIB_DEVICEDRIVER_H

#include "Device.h"

namespace tandem::runtime {

/// A family of devices. This class, Device, Executable and Plan hide what
/// differs between devices.
class DeviceDriver {
public:
  virtual ~DeviceDriver() = default;

  /// Returns the name that tdm_device_open takes to find the driver.
  virtual const char *getName() const = 0;
  /// Stores the number of devices, which may be 0.
  virtual tdm_status count(int32_t &count) const = 0;
  virtual tdm_status open(int32_t ordinal,
                          std::shared_ptr<const Device> &device) const = 0;
};

/// Returns the driver of the CPU.
const DeviceDriver &getCPUDriver();

/// Finds a driver; messages name \p function as the caller.
tdm_status findDriver(const char *function, const char *name,
                      const DeviceDriver *&driver);

/// Adds a driver, which is never destroyed. Fails if its name is taken.
tdm_status addDriver(std::unique_ptr<const DeviceDriver> driver);

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_DEVICEDRIVER_H
