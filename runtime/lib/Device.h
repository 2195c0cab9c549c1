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

#include <memory>

namespace tandem::runtime {

/// A device, shared by what lives on it.
class Device {
public:
  virtual ~Device() = default;

  virtual tdm_status query(tdm_device_info &info) const = 0;
  virtual tdm_status allocate(size_t bytes, void *&memory) const = 0;
  virtual tdm_status free(void *memory) const = 0;
  virtual tdm_status copy(void *to, const void *from, size_t bytes) const = 0;
  virtual tdm_status synchronize() const = 0;
};

} // namespace tandem::runtime

/// The C interface's handle.
struct tdm_device {
  tdm_device_kind kind;
  std::shared_ptr<const tandem::runtime::Device> device;
};

#endif // TANDEM_RUNTIME_LIB_DEVICE_H
