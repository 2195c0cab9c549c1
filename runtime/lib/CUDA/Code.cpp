//===- Code.cpp - A kernel's code on a GPU --------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the choice and loading of a kernel's code on a GPU.
//
//===----------------------------------------------------------------------===//

#include "Code.h"

#include "CodeCache.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>

using namespace tandem::runtime;
using namespace tandem::runtime::cuda;

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

static tdm_status checkPart(const Kernel &kernel, const tdm_part_info &part,
                            const char *what, uint32_t index) {
  if (!part.entry)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << what << " " << index << " has no entry; name its function";
  bool isKnown =
      part.per <= TDM_PER_COLUMN || (part.per == TDM_PER_BLOCK && kernel.block);
  if (!isKnown || (part.per != TDM_PER_ELEMENT && !kernel.matrix))
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << what << " " << index << " has granularity " << int(part.per)
           << "; use a tdm_granularity, and TDM_PER_ELEMENT but in a matrix "
           << "kernel";
  return TDM_OK;
}

static tdm_status checkList(const Kernel &kernel, const void *list,
                            uint32_t count, const char *name) {
  if (count && !list)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << name << " is NULL but num_" << name << " is " << count;
  return TDM_OK;
}

static tdm_status checkImages(const Kernel &kernel, const tdm_cuda_code &code) {
  for (uint32_t i = 0; i < code.num_images; ++i) {
    const tdm_image &image = code.images[i];
    if (!image.target || !image.data || !image.size)
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << "image " << i << " has no "
             << (image.target ? "data" : "target") << "; pass compiled code";
  }
  return TDM_OK;
}

tdm_status tandem::runtime::cuda::copyParts(Kernel &kernel,
                                            const tdm_cuda_code &code) {
  const std::tuple<const void *, uint32_t, const char *> lists[] = {
      {code.phases, code.num_phases, "phases"},
      {code.commits, code.num_commits, "commits"},
      {code.images, code.num_images, "images"}};
  for (auto [list, count, name] : lists)
    if (tdm_status status = checkList(kernel, list, count, name))
      return status;
  if (!code.num_phases ||
      code.phases[code.num_phases - 1].per != TDM_PER_ELEMENT)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "there is no last phase over elements; pass the launches of a "
           << "step";
  if (kernel.numScalars && !code.prologue)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "prologue is NULL but num_scalars is " << kernel.numScalars
           << "; name the compiled prologue";
  for (uint32_t i = 0; i < code.num_phases; ++i) {
    if (tdm_status status = checkPart(kernel, code.phases[i], "phase", i))
      return status;
    kernel.phases.push_back(
        {nullptr, code.phases[i].per, code.phases[i].continues != 0});
  }
  if (tdm_status status = checkContinuations(kernel))
    return status;
  for (uint32_t i = 0; i < code.num_commits; ++i)
    if (tdm_status status = checkPart(kernel, code.commits[i], "commit", i))
      return status;
  return checkImages(kernel, code);
}

//===----------------------------------------------------------------------===//
// The choice of an image
//===----------------------------------------------------------------------===//

namespace {
/// What a target stands for: sm_90a is capability 90 and nothing else.
struct Target {
  explicit Target(const char *text) {
    if (std::strncmp(text, "sm_", 3) != 0)
      return;
    char *end = nullptr;
    capability = static_cast<int>(std::strtol(text + 3, &end, 10));
    isSpecific = *end != '\0';
  }

  /// How well an image serves a device: 0 not at all.
  int rank(tdm_image_kind kind, int device) const {
    bool isOwn = capability == device;
    bool isEarlier = !isSpecific && capability > 0 && capability <= device;
    if (kind == TDM_IMAGE_CUBIN) {
      // Machine code runs on later chips of the same generation.
      bool runs = isOwn || (isEarlier && capability / 10 == device / 10);
      return runs ? 1000000 + capability : 0;
    }
    bool compiles = kind == TDM_IMAGE_PTX && (isOwn || isEarlier);
    return compiles ? 10 * capability + isSpecific : 0;
  }

  int capability = 0;
  bool isSpecific = false;
};
} // namespace

static tdm_status failNoImage(const Kernel &kernel, const tdm_cuda_code &code,
                              int capability) {
  Failure failure = kernel.fail(TDM_UNAVAILABLE);
  failure << "no image runs on sm_" << capability << "; there ";
  if (!code.num_images)
    failure << "is none";
  else
    failure << (code.num_images == 1 ? "is one for " : "are some for ");
  for (uint32_t i = 0; i < code.num_images; ++i)
    failure << (i ? ", " : "") << code.images[i].target;
  return failure << "; compile it for this device or an earlier one";
}

tdm_status Code::load(const tdm_device &device, const Kernel &kernel,
                      const tdm_cuda_code &code,
                      std::shared_ptr<const Code> &result) {
  auto owner = std::static_pointer_cast<const CUDADevice>(device.device);
  const tdm_image *best = nullptr;
  int bestRank = 0;
  for (uint32_t i = 0; i < code.num_images; ++i) {
    const tdm_image &image = code.images[i];
    int rank = Target(image.target).rank(image.kind, owner->getCapability());
    if (rank > bestRank) {
      best = &image;
      bestRank = rank;
    }
  }
  if (!best)
    return failNoImage(kernel, code, owner->getCapability());
  auto loaded = std::make_shared<Code>(owner);
  loaded->flags = code.flags;
  tdm_status status = owner->inContext([&]() -> tdm_status {
    if (tdm_status status = loaded->loadImage(kernel, *best))
      return status;
    return loaded->findParts(kernel, code);
  });
  if (status)
    return status;
  result = std::move(loaded);
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

Code::~Code() {
  if (module)
    device->release([&] { device->driver.moduleUnload(module); });
}

tdm_status Code::loadImage(const Kernel &kernel, const tdm_image &image) {
  if (image.sha256) {
    Digest digest = digestOf(image.data, image.size);
    if (std::memcmp(digest.data(), image.sha256, digest.size()) != 0)
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << "the image for " << image.target
             << " is not what its SHA-256 says; compile it again";
  }
  const void *machineCode = image.data;
  std::string compiled;
  if (image.kind == TDM_IMAGE_PTX) {
    if (tdm_status status = compile(kernel, image, compiled))
      return status;
    machineCode = compiled.data();
  }
  return device->driver.call(device->driver.moduleLoadDataEx, &module,
                             machineCode, 0u, nullptr, nullptr);
}

tdm_status Code::compile(const Kernel &kernel, const tdm_image &image,
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
  CodeCache cache;
  if (cache.read(key, machineCode))
    return TDM_OK;
  if (tdm_status status = link(kernel, image, machineCode))
    return status;
  cache.write(key, machineCode.data(), machineCode.size());
  return TDM_OK;
}

tdm_status Code::link(const Kernel &kernel, const tdm_image &image,
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

tdm_status Code::find(const Kernel &kernel, const std::string &name,
                      int threads, Part &part) {
  const Driver &driver = device->driver;
  Result result =
      driver.moduleGetFunction(&part.function, module, name.c_str());
  if (result == Result::NotFound)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "its code has no function '" << name << "'; compile it again";
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

tdm_status Code::findTotals(const Kernel &kernel, uint32_t phase,
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
      {ofTensors, "_totals", &parts.totals},
      {ofModel, "_model", &parts.model},
      {ofRows, "_row_totals", &parts.rowTotals},
      {ofColumns, "_column_totals", &parts.columnTotals}};
  for (auto [isWanted, suffix, part] : wanted)
    if (isWanted)
      if (tdm_status status = find(kernel, entry + suffix, blockThreads, *part))
        return status;
  return TDM_OK;
}

tdm_status Code::findParts(const Kernel &kernel, const tdm_cuda_code &code) {
  if (kernel.numScalars)
    if (tdm_status status = find(kernel, code.prologue, 1, prologue))
      return status;
  phases.resize(code.num_phases);
  for (uint32_t i = 0; i < code.num_phases; ++i) {
    const char *entry = code.phases[i].entry;
    if (tdm_status status = find(kernel, entry, blockThreads, phases[i].entry))
      return status;
    if (tdm_status status = findTotals(kernel, i, entry))
      return status;
    bool continues = i > 0 && code.phases[i].continues;
    if (!continues && kernel.endOfLaunch(i) > i + 1)
      if (tdm_status status = find(kernel, std::string(entry) + "_bands",
                                   blockThreads, phases[i].bands))
        return status;
  }
  commits.resize(code.num_commits);
  for (uint32_t i = 0; i < code.num_commits; ++i) {
    commits[i].per = code.commits[i].per;
    if (tdm_status status =
            find(kernel, code.commits[i].entry, blockThreads, commits[i].part))
      return status;
  }
  return TDM_OK;
}
