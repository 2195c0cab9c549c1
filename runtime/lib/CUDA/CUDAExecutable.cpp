//===- CUDAExecutable.cpp - A kernel's code on a GPU ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the ranking and loading of a kernel's images on a GPU.
//
//===----------------------------------------------------------------------===//

#include "CUDAExecutable.h"

#include "CUDAPlan.h"
#include "Cache/CodeCache.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>

using namespace tandem::runtime;
using namespace tandem::runtime::cuda;

//===----------------------------------------------------------------------===//
// The rank of an image
//===----------------------------------------------------------------------===//

/// The kinds of images that the driver loads: text and machine code.
static constexpr char ptxKind[] = "PTX", cubinKind[] = "cubin";

namespace {
/// The meaning of a target's name. A suffix restricts code to one capability:
/// sm_90a runs only on capability 90.
struct Target {
  explicit Target(const char *text) {
    if (std::strncmp(text, "sm_", 3) != 0)
      return;
    char *end = nullptr;
    capability = static_cast<int>(std::strtol(text + 3, &end, 10));
    isSpecific = *end != '\0';
  }

  /// Returns the rank of an image for a device; 0 if the device cannot run it.
  int rank(const char *kind, int device) const {
    bool isOwn = capability == device;
    bool isEarlier = !isSpecific && capability > 0 && capability <= device;
    if (!std::strcmp(kind, cubinKind)) {
      // Machine code runs on later chips of the same generation.
      bool runs = isOwn || (isEarlier && capability / 10 == device / 10);
      return runs ? 1000000 + capability : 0;
    }
    bool compiles = !std::strcmp(kind, ptxKind) && (isOwn || isEarlier);
    return compiles ? 10 * capability + isSpecific : 0;
  }

  int capability = 0;
  bool isSpecific = false;
};
} // namespace

int64_t CUDADevice::rank(const tdm_image &image) const {
  return Target(image.target).rank(image.kind, capability);
}

tdm_status CUDAExecutable::load(std::shared_ptr<const CUDADevice> device,
                                const Kernel &kernel,
                                const tdm_kernel_info &info,
                                const tdm_image &image,
                                std::shared_ptr<const Executable> &result) {
  auto loaded = std::make_shared<CUDAExecutable>(device);
  loaded->flags = info.flags;
  tdm_status status = device->inContext([&]() -> tdm_status {
    if (tdm_status status = loaded->loadImage(kernel, image))
      return status;
    return loaded->findParts(kernel, info);
  });
  if (!status)
    result = std::move(loaded);
  return status;
}

std::unique_ptr<Plan>
CUDAExecutable::createPlan(std::shared_ptr<const Kernel> kernel) const {
  return std::make_unique<CUDAPlan>(std::move(kernel), *this);
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

CUDAExecutable::~CUDAExecutable() {
  if (module)
    device->release([&] { device->driver.moduleUnload(module); });
}

tdm_status CUDAExecutable::loadImage(const Kernel &kernel,
                                     const tdm_image &image) {
  const void *machineCode = image.data;
  std::string compiled;
  if (!std::strcmp(image.kind, ptxKind)) {
    if (tdm_status status = compile(kernel, image, compiled))
      return status;
    machineCode = compiled.data();
  }
  return device->driver.call(device->driver.moduleLoadDataEx, &module,
                             machineCode, 0u, nullptr, nullptr);
}

tdm_status CUDAExecutable::compile(const Kernel &kernel, const tdm_image &image,
                                   std::string &machineCode) const {
  int version = 0;
  if (tdm_status status =
          device->driver.call(device->driver.driverGetVersion, &version))
    return status;
  const int32_t compiler[] = {version, device->getCapability()};
  SHA256 hash;
  hash.add(compiler, sizeof(compiler));
  hash.add(image.data, image.size);
  Digest key = hash.finish();
  CodeCache cache(machineCodeSuffix);
  if (cache.read(key, machineCode))
    return TDM_OK;
  if (tdm_status status = link(kernel, image, machineCode))
    return status;
  cache.write(key, machineCode.data(), machineCode.size());
  return TDM_OK;
}

tdm_status CUDAExecutable::link(const Kernel &kernel, const tdm_image &image,
                                std::string &machineCode) const {
  const Driver &driver = device->driver;
  char log[1024] = "";
  JITOption options[] = {JITOption::ErrorLogBuffer,
                         JITOption::ErrorLogBufferBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  LinkState state = nullptr;
  if (tdm_status status =
          driver.call(driver.linkCreate, 2u, options, values, &state))
    return status;
  struct Destroy {
    const Driver &driver;
    LinkState state;
    ~Destroy() { driver.linkDestroy(state); }
  } destroy{driver, state};
  std::string ptx(static_cast<const char *>(image.data), image.size);
  Result result =
      driver.linkAddData(state, JITInput::PTX, ptx.data(), ptx.size() + 1,
                         kernel.name.c_str(), 0, nullptr, nullptr);
  if (result != Result::Success) {
    driver.fail(driver.linkAddData, result);
    std::string reason = log[0] ? log : tdm_last_error();
    return Failure(TDM_DEVICE_ERROR)
           << "kernel '" << kernel.name << "': the driver cannot compile its "
           << "PTX: " << reason;
  }
  void *data = nullptr;
  size_t size = 0;
  if (tdm_status status = driver.call(driver.linkComplete, state, &data, &size))
    return status;
  machineCode.assign(static_cast<const char *>(data), size);
  return TDM_OK;
}

tdm_status CUDAExecutable::find(const Kernel &kernel, const std::string &name,
                                int threads, Part &part) {
  const Driver &driver = device->driver;
  Result result =
      driver.moduleGetFunction(&part.function, module, name.c_str());
  if (result == Result::NotFound)
    return kernel.failMissing(name.c_str());
  if (result != Result::Success)
    return driver.fail(driver.moduleGetFunction, result);
  int allowed = 0, blocks = 0;
  if (tdm_status status =
          driver.call(driver.funcGetAttribute, &allowed,
                      FunctionAttribute::MaxThreadsPerBlock, part.function))
    return status;
  if (allowed < threads)
    return kernel.fail(TDM_UNAVAILABLE)
           << "function '" << name << "' allows blocks of " << allowed
           << " threads on this device, but takes " << threads;
  if (tdm_status status = driver.call(driver.maxActiveBlocks, &blocks,
                                      part.function, threads, size_t(0)))
    return status;
  part.mostBlocks =
      std::max<int64_t>(1, int64_t(blocks) * device->getMultiprocessors());
  return TDM_OK;
}

tdm_status CUDAExecutable::findTotals(const Kernel &kernel, uint32_t phase,
                                      const std::string &entry) {
  bool ofTensors = false, ofModel = false, ofRows = false, ofColumns = false;
  for (const Reduction &reduction : kernel.reductions)
    if (reduction.phase == phase) {
      ofRows |= reduction.scope == TDM_SCOPE_ROW;
      ofColumns |= reduction.scope == TDM_SCOPE_COLUMN;
      ofTensors |= !reduction.isWithinMatrix();
      ofModel |= reduction.scope == TDM_SCOPE_MODEL;
    }
  PhaseParts &parts = phases[phase];
  const std::tuple<bool, const char *, Part *> wanted[] = {
      {ofTensors, TDM_LAUNCH_TOTALS, &parts.totals},
      {ofModel, TDM_LAUNCH_MODEL, &parts.model},
      {ofRows, TDM_LAUNCH_ROW_TOTALS, &parts.rowTotals},
      {ofColumns, TDM_LAUNCH_COLUMN_TOTALS, &parts.columnTotals}};
  for (auto [isWanted, suffix, part] : wanted)
    if (isWanted)
      if (tdm_status status = find(kernel, entry + suffix, blockThreads, *part))
        return status;
  return TDM_OK;
}

tdm_status CUDAExecutable::findParts(const Kernel &kernel,
                                     const tdm_kernel_info &info) {
  if (kernel.numScalars)
    if (tdm_status status = find(kernel, info.prologue, 1, prologue))
      return status;
  phases.resize(info.num_phases);
  for (uint32_t i = 0; i < info.num_phases; ++i) {
    const char *entry = info.phases[i].entry;
    if (tdm_status status = find(kernel, entry, blockThreads, phases[i].entry))
      return status;
    if (tdm_status status = findTotals(kernel, i, entry))
      return status;
    bool fusedWithPrevious = i > 0 && info.phases[i].fused_with_previous;
    if (!fusedWithPrevious && kernel.endOfLaunch(i) > i + 1)
      if (tdm_status status =
              find(kernel, std::string(entry) + TDM_LAUNCH_BANDS, blockThreads,
                   phases[i].bands))
        return status;
  }
  epilogues.resize(info.num_epilogues);
  for (uint32_t i = 0; i < info.num_epilogues; ++i) {
    epilogues[i].per = info.epilogues[i].per;
    if (tdm_status status = find(kernel, info.epilogues[i].entry, blockThreads,
                                 epilogues[i].part))
      return status;
  }
  return TDM_OK;
}
