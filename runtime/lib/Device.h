//===- Device.h - Where kernels run -----------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the devices that kernels run on.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_DEVICE_H
#define TANDEM_RUNTIME_LIB_DEVICE_H

#include "Failure.h"
#include "tandem-runtime/tandem_package.h"

#include <memory>

namespace tandem::runtime {

class DeviceDriver;
class Executable;
struct Kernel;

/// A device, shared by what lives on it.
class Device {
public:
  virtual ~Device() = default;

  virtual tdm_status query(tdm_device_info &info) const = 0;
  virtual tdm_status allocate(size_t bytes, void *&memory) const = 0;
  virtual tdm_status free(void *memory) const = 0;
  virtual tdm_status copy(void *to, const void *from, size_t bytes) const = 0;
  virtual tdm_status synchronize() const = 0;

  /// Ranks how well an image serves the device, which gets the one of the
  /// highest rank; 0 if it cannot run it.
  virtual int64_t rank(const tdm_image &image) const = 0;
  /// Names a target for a kernel without an image for the device: "this device
  /// or an earlier one".
  virtual const char *getAdvice() const = 0;
  /// Brings the functions that \p info names from an image to the device.
  virtual tdm_status load(const Kernel &kernel, const tdm_kernel_info &info,
                          const tdm_image &image,
                          std::shared_ptr<const Executable> &result) const = 0;
};

} // namespace tandem::runtime

/// The C interface's handle.
struct tdm_device {
  const tandem::runtime::DeviceDriver *driver;
  std::shared_ptr<const tandem::runtime::Device> device;
};

#endif // TANDEM_RUNTIME_LIB_DEVICE_H
