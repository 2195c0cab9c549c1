//===- RuntimeKernel.cpp - Kernels for the runtime ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the creation of runtime handles for compiled kernels.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/CompilerError.h"
#include "tandem/Target/Run.h"

using namespace mlir;
using namespace tandem;

/// Returns the kernel that the runtime has created, or the runtime's error.
static llvm::Expected<tdm_kernel *> check(tdm_status status,
                                          tdm_kernel *&handle) {
  if (status != TDM_OK)
    return takeRuntimeError(TandemErrorTarget);
  return handle;
}

/// Returns the field of the description that holds an epilogue's code.
static tdm_cpu_entry &getEpilogue(tdm_kernel_desc &desc, tdm_granularity per) {
  switch (per) {
  case TDM_PER_ELEMENT:
    return desc.epilogue;
  case TDM_PER_ROW:
    return desc.epilogue_rows;
  case TDM_PER_COLUMN:
    return desc.epilogue_columns;
  case TDM_PER_BLOCK:
    return desc.epilogue_blocks;
  }
  llvm_unreachable("every granularity is listed");
}

/// Creates a kernel whose code is in this process, for a device.
static llvm::Expected<tdm_kernel *> createHere(const CompiledKernel &kernel,
                                               const tdm_device *device) {
  tdm_device_info where = {};
  where.struct_size = sizeof(where);
  if (device && tdm_device_query(device, &where) != TDM_OK)
    return takeRuntimeError(TandemErrorTarget);
  if (device && llvm::StringRef(where.target) != kernel.target)
    return ErrorBuilder(TandemErrorTarget)
           << "kernel '" << Named{TDM_MESSAGE_GRAPH, kernel.info->graph}
           << "' was compiled for this process; compile it for '"
           << Named{TDM_MESSAGE_TARGET, where.target} << "'";
  tdm_kernel_desc desc = *kernel.info->desc;
  auto reductions =
      llvm::map_to_vector(kernel.reductionEntries, [](void *code) {
        return reinterpret_cast<tdm_cpu_entry>(code);
      });
  desc.entry = reinterpret_cast<tdm_cpu_entry>(kernel.entry);
  desc.prologue = reinterpret_cast<tdm_cpu_prologue>(kernel.prologue);
  desc.reduction_entries = reductions.data();
  for (auto [epilogue, code] :
       llvm::zip(getEpilogues(*kernel.info), kernel.epilogues))
    getEpilogue(desc, epilogue.per) = reinterpret_cast<tdm_cpu_entry>(code);
  tdm_kernel *handle = nullptr;
  return check(tdm_kernel_create(&desc, &handle), handle);
}

llvm::Expected<tdm_kernel *>
tandem::createRuntimeKernel(const CompiledKernel &kernel,
                            const tdm_device *device) {
  if (kernel.code)
    return createHere(kernel, device);
  tdm_kernel *handle = nullptr;
  if (kernel.package) {
    const char *isa = kernel.isa.empty() ? nullptr : kernel.isa.c_str();
    return check(tdm_package_load(kernel.package, kernel.info->name, device,
                                  isa, &handle),
                 handle);
  }
  if (device)
    return check(tdm_kernel_load(device, kernel.info.get(), &handle), handle);
  tdm_device *cpu = nullptr;
  tdm_status status = tdm_device_open("cpu", 0, &cpu);
  if (status == TDM_OK)
    status = tdm_kernel_load(cpu, kernel.info.get(), &handle);
  tdm_device_close(cpu);
  return check(status, handle);
}
