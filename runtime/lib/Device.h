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

/// A device, which its kernels and plans share.
class Device {
public:
  virtual ~Device() = default;

  virtual tdm_status query(tdm_device_info &info) const = 0;
  virtual tdm_status allocate(size_t bytes, void *&memory) const = 0;
  virtual tdm_status free(void *memory) const = 0;
  virtual tdm_status copy(void *to, const void *from, size_t bytes) const = 0;
  virtual tdm_status synchronize() const = 0;

  /// Returns the rank of an image, or 0 if the device cannot run it. The image
  /// with the highest rank is loaded.
  virtual int64_t rank(const tdm_image &image) const = 0;
  /// Returns which target to compile for if a kernel has no image for the
  /// device: "this device or an earlier one".
  virtual const char *getAdvice() const = 0;
  /// Loads an image with the functions that \p info names to the device.
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
