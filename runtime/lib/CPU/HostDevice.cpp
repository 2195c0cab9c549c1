//===- HostDevice.cpp - Devices that are this process ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements devices that use the memory of this process, and the CPU
// as such a device.
//
//===----------------------------------------------------------------------===//

#include "HostDevice.h"

#include "DeviceDriver.h"
#include "InstructionSets.h"
#include "Library.h"
#include "ThreadPool.h"

#include <cstring>
#include <new>

using namespace tandem::runtime;

static constexpr std::align_val_t alignment{64};

tdm_status HostDevice::allocate(size_t bytes, void *&memory) const {
  memory = ::operator new(bytes, alignment);
  return TDM_OK;
}

tdm_status HostDevice::free(void *memory) const {
  ::operator delete(memory, alignment);
  return TDM_OK;
}

tdm_status HostDevice::copy(void *to, const void *from, size_t bytes) const {
  if (bytes)
    std::memmove(to, from, bytes);
  return TDM_OK;
}

tdm_status HostDevice::load(const Kernel &kernel, const tdm_kernel_info &info,
                            const tdm_image &image,
                            std::shared_ptr<const Executable> &result) const {
  std::shared_ptr<const HostLibrary> library;
  if (tdm_status status = openLibrary(image, library))
    return kernel.failAgain(status);
  return HostExecutable::link(kernel, info, std::move(library), result);
}

//===----------------------------------------------------------------------===//
// The CPU
//===----------------------------------------------------------------------===//

namespace {
class CPUDevice : public HostDevice {
public:
  tdm_status query(tdm_device_info &info) const override {
    std::strcpy(info.name, "CPU");
    std::strcpy(info.target, "cpu");
    info.multiprocessors = ThreadPool::defaultThreads();
    return TDM_OK;
  }

  int64_t rank(const tdm_image &image) const override {
    return std::strcmp(image.kind, TDM_IMAGE_LIBRARY)
               ? 0
               : rankInstructionSet(image.target);
  }

  const char *getAdvice() const override { return adviseInstructionSet(); }

private:
  tdm_status
  openLibrary(const tdm_image &image,
              std::shared_ptr<const HostLibrary> &library) const override {
    return Library::load(image, library);
  }
};

class CPUDriver : public DeviceDriver {
public:
  const char *getName() const override { return "cpu"; }

  tdm_status count(int32_t &count) const override {
    count = 1;
    return TDM_OK;
  }

  tdm_status open(int32_t ordinal,
                  std::shared_ptr<const Device> &device) const override {
    if (ordinal != 0)
      return Failure(TDM_UNAVAILABLE)
             << "there is no CPU " << ordinal << "; the only one is number 0";
    device = std::make_shared<CPUDevice>();
    return TDM_OK;
  }
};
} // namespace

const DeviceDriver &tandem::runtime::getCPUDriver() {
  static CPUDriver driver;
  return driver;
}
