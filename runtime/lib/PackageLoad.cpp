//===- PackageLoad.cpp - Kernels from packages ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the creation of kernels from packages.
//
//===----------------------------------------------------------------------===//

#include "DeviceDriver.h"
#include "Kernel.h"
#include "Package.h"

using namespace tandem::runtime;

/// Stores the caller's device in \p chosen, or the CPU if it is NULL.
static tdm_status orCPU(const tdm_device *device, tdm_device &chosen) {
  if (device) {
    chosen = *device;
    return TDM_OK;
  }
  chosen.driver = &getCPUDriver();
  return chosen.driver->open(0, chosen.device);
}

tdm_status tdm_package_load(const tdm_package *package, const char *name,
                            const tdm_device *device, const char *target,
                            tdm_kernel **kernel) {
  return guarded("tdm_package_load", [&]() -> tdm_status {
    if (!package || !kernel)
      return Failure(TDM_INVALID_ARGUMENT)
             << "tdm_package_load: " << (package ? "kernel" : "package")
             << " is NULL; pass a package, and where to store the kernel";
    const Package &opened = *package->package;
    uint32_t index;
    if (tdm_status status = opened.find(name, index))
      return status;
    tdm_device chosen;
    if (tdm_status status = orCPU(device, chosen))
      return status;
    auto handle = std::make_unique<tdm_kernel>();
    if (tdm_status status = loadKernel(
            chosen, opened.getKernel(index).getInfo(), target, handle->kernel))
      return opened.failAgain(status);
    *kernel = handle.release();
    return TDM_OK;
  });
}
