//===- HostDevice.h - Devices that are this process -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares devices that use this process's memory and functions.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CPU_HOSTDEVICE_H
#define TANDEM_RUNTIME_LIB_CPU_HOSTDEVICE_H

#include "Device.h"
#include "HostExecutable.h"

namespace tandem::runtime {

/// A device that uses the memory of the process, and whose kernels are
/// functions that the process can call.
class HostDevice : public Device {
public:
  tdm_status allocate(size_t bytes, void *&memory) const override;
  tdm_status free(void *memory) const override;
  tdm_status copy(void *to, const void *from, size_t bytes) const override;
  tdm_status synchronize() const override { return TDM_OK; }
  tdm_status load(const Kernel &kernel, const tdm_kernel_info &info,
                  const tdm_image &image,
                  std::shared_ptr<const Executable> &result) const override;

protected:
  /// Loads an image into the process. The message of a failure does not have
  /// the kernel's name yet.
  virtual tdm_status
  openLibrary(const tdm_image &image,
              std::shared_ptr<const HostLibrary> &library) const = 0;
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CPU_HOSTDEVICE_H
