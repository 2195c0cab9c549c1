//===- RuntimeKernel.cpp - Kernels for the runtime ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements handles of the runtime for compiled kernels.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Run.h"

using namespace mlir;
using namespace mlir::tandem;

/// The kernel, unless the runtime has failed to make it.
static llvm::Expected<tdm_kernel *> check(tdm_status status,
                                          tdm_kernel *&handle) {
  if (status != TDM_OK)
    return llvm::createStringError(tdm_last_error());
  return handle;
}

static llvm::Expected<tdm_kernel *>
loadRuntimeKernel(const CompiledKernel &kernel) {
  tdm_kernel *handle = nullptr;
  const char *isa = kernel.isa.empty() ? nullptr : kernel.isa.c_str();
  return check(
      tdm_package_load(kernel.package, kernel.info->name, isa, &handle),
      handle);
}

/// Where a commit's code belongs.
static tdm_cpu_entry &getCommit(tdm_kernel_desc &desc, tdm_granularity per) {
  switch (per) {
  case TDM_PER_ELEMENT:
    return desc.commit;
  case TDM_PER_ROW:
    return desc.commit_rows;
  case TDM_PER_COLUMN:
    return desc.commit_columns;
  case TDM_PER_BLOCK:
    return desc.commit_blocks;
  }
  llvm_unreachable("every granularity is listed");
}

llvm::Expected<tdm_kernel *>
mlir::tandem::createRuntimeKernel(const CompiledKernel &kernel) {
  if (kernel.package)
    return loadRuntimeKernel(kernel);
  if (!kernel.entry)
    return llvm::createStringError(
        "kernel '" + llvm::Twine(kernel.info->graph) +
        "' has no CPU code; compile it for target 'cpu'");
  tdm_kernel_desc desc = *kernel.info->desc;
  auto early = llvm::map_to_vector(kernel.earlyEntries, [](void *code) {
    return reinterpret_cast<tdm_cpu_entry>(code);
  });
  desc.entry = reinterpret_cast<tdm_cpu_entry>(kernel.entry);
  desc.prologue = reinterpret_cast<tdm_cpu_prologue>(kernel.prologue);
  desc.early_entries = early.data();
  for (auto [commit, code] :
       llvm::zip(getCommits(*kernel.info), kernel.commits))
    getCommit(desc, commit.per) = reinterpret_cast<tdm_cpu_entry>(code);
  tdm_kernel *handle = nullptr;
  return check(tdm_kernel_create(&desc, &handle), handle);
}

llvm::Expected<tdm_kernel *>
mlir::tandem::createDeviceKernel(const CompiledKernel &kernel,
                                 const tdm_device *device) {
  const tdm_kernel_info &info = *kernel.info;
  if (kernel.ptx.empty())
    return llvm::createStringError("kernel '" + llvm::Twine(info.graph) +
                                   "' has no code for a GPU; compile it for a "
                                   "chip such as 'sm_90'");
  tdm_kernel *handle = nullptr;
  return check(tdm_package_create_cuda(&info, info.images, info.num_images,
                                       device, &handle),
               handle);
}
