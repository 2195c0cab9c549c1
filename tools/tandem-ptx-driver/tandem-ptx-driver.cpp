//===- tandem-ptx-driver.cpp - The PTX evaluator as CUDA's driver ---------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the few functions of CUDA's driver API that a test of
// PTX instructions calls. The PTX evaluator decodes each module once and runs
// its launches, and device memory is host memory. Nothing is asynchronous. If
// an error occurs, the call returns a CUresult, and the evaluator's message
// goes to stderr if TANDEM_PTX_DRIVER_VERBOSE is set.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/PTX/Evaluator.h"

#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <cstring>
#include <map>

using namespace tandem::reference;

namespace {

/// The values of CUresult that this driver returns.
enum Result : uint32_t {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  InvalidPTX = 218,
  NotFound = 500,
  LaunchFailed = 719
};

struct Function {
  const PTXModule *module;
  std::string name;
};

struct Module {
  PTXModule ptx;
  std::vector<std::unique_ptr<Function>> functions;
};

/// Returns the size in bytes of each allocation, by address.
std::map<uint64_t, uint64_t> &allocations() {
  static std::map<uint64_t, uint64_t> map;
  return map;
}

Result complain(llvm::Error error, Result result) {
  std::string message = llvm::toString(std::move(error));
  if (std::getenv("TANDEM_PTX_DRIVER_VERBOSE"))
    llvm::errs() << message << '\n';
  return result;
}

/// Returns whether the bytes are in one allocation.
bool isAllocated(uint64_t address, uint64_t bytes) {
  auto next = allocations().upper_bound(address);
  if (next == allocations().begin())
    return false;
  const auto &[begin, size] = *std::prev(next);
  return address - begin <= size && bytes <= size - (address - begin);
}

llvm::Error launch(const Function &function, void **parameters, Dim3 grid,
                   Dim3 block) {
  MemoryMap memory;
  for (const auto &[address, bytes] : allocations())
    if (llvm::Error error = memory.addWritable(
            "memory", reinterpret_cast<void *>(address), bytes))
      return error;
  std::vector<uint64_t> bits;
  for (unsigned bytes : function.module->getParameterSizes(function.name)) {
    uint64_t value = 0;
    std::memcpy(&value, parameters[bits.size()], bytes);
    bits.push_back(value);
  }
  return function.module->launch(function.name, bits, grid, block, memory);
}

} // namespace

//===----------------------------------------------------------------------===//
// The driver's functions
//===----------------------------------------------------------------------===//

#define DRIVER_API extern "C" __attribute__((visibility("default"))) Result

DRIVER_API cuInit(unsigned) { return Success; }

DRIVER_API cuCtxCreate_v2(void **context, unsigned, int) {
  *context = nullptr;
  return Success;
}

DRIVER_API cuStreamSynchronize(void *) { return Success; }

DRIVER_API cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = *total = size_t(1) << 30;
  return Success;
}

DRIVER_API cuModuleLoadData(Module **module, const char *text) {
  llvm::Expected<PTXModule> ptx = PTXModule::parse(text);
  if (!ptx)
    return complain(ptx.takeError(), InvalidPTX);
  *module = new Module{std::move(*ptx), {}};
  return Success;
}

DRIVER_API cuModuleUnload(Module *module) {
  delete module;
  return Success;
}

DRIVER_API cuModuleGetFunction(Function **function, Module *module,
                               const char *name) {
  for (const std::string &kernel : module->ptx.getKernelNames())
    if (kernel == name) {
      module->functions.push_back(
          std::make_unique<Function>(Function{&module->ptx, kernel}));
      *function = module->functions.back().get();
      return Success;
    }
  return NotFound;
}

DRIVER_API cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  constexpr size_t kAlignment = 256;
  size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void *memory = bytes ? std::aligned_alloc(kAlignment, rounded) : nullptr;
  if (!memory)
    return bytes ? OutOfMemory : InvalidValue;
  *address = reinterpret_cast<uint64_t>(memory);
  allocations()[*address] = bytes;
  return Success;
}

DRIVER_API cuMemFree_v2(uint64_t address) {
  if (!allocations().erase(address))
    return InvalidValue;
  std::free(reinterpret_cast<void *>(address));
  return Success;
}

DRIVER_API cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
  if (!isAllocated(to, bytes))
    return InvalidValue;
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return Success;
}

DRIVER_API cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
  if (!isAllocated(from, bytes))
    return InvalidValue;
  std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
  return Success;
}

DRIVER_API cuLaunchKernel(const Function *function, unsigned gridX,
                          unsigned gridY, unsigned gridZ, unsigned blockX,
                          unsigned blockY, unsigned blockZ, unsigned, void *,
                          void **parameters, void **) {
  llvm::Error error = launch(*function, parameters, Dim3{gridX, gridY, gridZ},
                             Dim3{blockX, blockY, blockZ});
  return error ? complain(std::move(error), LaunchFailed) : Success;
}
