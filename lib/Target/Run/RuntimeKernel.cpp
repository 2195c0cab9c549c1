//===- RuntimeKernel.cpp - Kernels for the runtime ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the description of a compiled kernel to the runtime.
//
//===----------------------------------------------------------------------===//

#include "tandem-runtime/tandem_package.h"
#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Target/Run.h"

using namespace mlir;
using namespace mlir::tandem;

tdm_granularity mlir::tandem::getRuntimeGranularity(Granularity per) {
  switch (per) {
  case Granularity::element:
    return TDM_PER_ELEMENT;
  case Granularity::row:
    return TDM_PER_ROW;
  case Granularity::column:
    return TDM_PER_COLUMN;
  case Granularity::block:
    return TDM_PER_BLOCK;
  }
  llvm_unreachable("every granularity is listed");
}

static tdm_scope getRuntimeScope(Scope scope) {
  switch (scope) {
  case Scope::model:
    return TDM_SCOPE_MODEL;
  case Scope::row:
    return TDM_SCOPE_ROW;
  case Scope::column:
    return TDM_SCOPE_COLUMN;
  case Scope::block:
    return TDM_SCOPE_BLOCK;
  case Scope::group:
  case Scope::tensor:
    return TDM_SCOPE_TENSOR;
  }
  llvm_unreachable("every scope is listed");
}

static tdm_plane_desc getPlane(const KernelSignature::PlaneEntry &plane) {
  uint32_t access = (plane.isRead ? TDM_ACCESS_READ : 0u) |
                    (plane.isWritten ? TDM_ACCESS_WRITE : 0u);
  uint32_t group = plane.group.isTensor() ? TDM_WHOLE_TENSOR
                   : plane.group.isRow()  ? TDM_WHOLE_ROW
                                          : uint32_t(plane.group.columns);
  return {plane.name.c_str(),
          plane.bits,
          access,
          group,
          uint32_t(plane.history),
          uint32_t(getRuntimeGranularity(plane.per)),
          plane.group.isBlock() ? uint32_t(plane.group.rows) : 1,
          plane.isTransposed};
}

static tdm_hyper_desc getHyper(const KernelSignature::Hyper &hyper) {
  return {hyper.name.c_str(), hyper.min,     hyper.max,
          hyper.minOpen,      hyper.maxOpen, hyper.minPositive};
}

static tdm_integer_desc getInteger(const KernelSignature::Integer &integer) {
  return {integer.name.c_str(), integer.kind == RoleKind::step ? 1 : INT64_MIN};
}

static tdm_reduction_desc
getReduction(const KernelSignature::Reduction &reduction) {
  tdm_reduction_kind kind =
      reduction.kind == ReduceKind::sum   ? TDM_REDUCTION_SUM
      : reduction.kind == ReduceKind::max ? TDM_REDUCTION_MAX
                                          : TDM_REDUCTION_MIN;
  return {kind, reduction.phase, getRuntimeScope(reduction.scope)};
}

RuntimeDescription::RuntimeDescription(const KernelSignature &signature)
    : planes(llvm::map_to_vector(signature.planes, getPlane)),
      hypers(llvm::map_to_vector(signature.hypers, getHyper)),
      integers(llvm::map_to_vector(signature.integers, getInteger)),
      reductions(llvm::map_to_vector(signature.reductions, getReduction)) {
  for (KernelSignature::Phase phase : signature.phases) {
    granularities.push_back(getRuntimeGranularity(phase.per));
    continues.push_back(phase.continues);
  }
  desc.struct_size = sizeof(desc);
  desc.name = signature.name.c_str();
  desc.num_planes = planes.size();
  desc.planes = planes.data();
  desc.num_hypers = hypers.size();
  desc.hypers = hypers.data();
  desc.num_integers = integers.size();
  desc.integers = integers.data();
  desc.num_scalars = signature.numScalars;
  desc.workspace_doubles_per_chunk = signature.numMetrics;
  desc.reductions = reductions.data();
  desc.num_reductions = reductions.size();
  desc.matrix = signature.isMatrix;
  desc.num_early_entries = granularities.size() - 1;
  desc.early_granularities = granularities.data();
  desc.continues = continues.data();
  desc.block = signature.block;
}

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
  return check(tdm_package_load(kernel.package.get(),
                                kernel.nameInPackage.c_str(), isa, &handle),
               handle);
}

llvm::Expected<tdm_kernel *>
mlir::tandem::createRuntimeKernel(const CompiledKernel &kernel) {
  const KernelSignature &signature = kernel.signature;
  if (kernel.package)
    return loadRuntimeKernel(kernel);
  if (!kernel.entry)
    return llvm::createStringError(
        "kernel '" + signature.name +
        "' has no CPU code; compile it for target 'cpu'");
  RuntimeDescription description(signature);
  tdm_kernel_desc desc = description.desc;
  auto early = llvm::map_to_vector(kernel.earlyEntries, [](void *code) {
    return reinterpret_cast<tdm_cpu_entry>(code);
  });
  desc.entry = reinterpret_cast<tdm_cpu_entry>(kernel.entry);
  desc.prologue = reinterpret_cast<tdm_cpu_prologue>(kernel.prologue);
  desc.early_entries = early.data();
  for (auto [per, code] : llvm::zip(signature.commits, kernel.commits)) {
    tdm_cpu_entry &place = per == Granularity::row      ? desc.commit_rows
                           : per == Granularity::column ? desc.commit_columns
                           : per == Granularity::block  ? desc.commit_blocks
                                                        : desc.commit;
    place = reinterpret_cast<tdm_cpu_entry>(code);
  }
  tdm_kernel *handle = nullptr;
  return check(tdm_kernel_create(&desc, &handle), handle);
}

llvm::Expected<tdm_kernel *>
mlir::tandem::createDeviceKernel(const CompiledKernel &kernel,
                                 const tdm_device *device) {
  const KernelSignature &signature = kernel.signature;
  tdm_kernel *handle = nullptr;
  if (kernel.package && kernel.target != "cpu")
    return check(tdm_package_load_cuda(kernel.package.get(),
                                       kernel.nameInPackage.c_str(), device,
                                       &handle),
                 handle);
  if (kernel.ptx.empty())
    return llvm::createStringError("kernel '" + signature.name +
                                   "' has no code for a GPU; compile it for a "
                                   "chip such as 'sm_90'");
  RuntimeDescription description(signature);
  // The names live as long as the description needs them.
  std::vector<std::string> names;
  names.reserve(signature.phases.size() + signature.commits.size());
  auto nameOf = [&](const std::string &part) {
    return names.emplace_back(getEntryName(part)).c_str();
  };
  SmallVector<tdm_part_info> phases, commits;
  for (auto [index, phase] : llvm::enumerate(signature.phases))
    phases.push_back({nameOf(getPhaseName(signature, index)),
                      getRuntimeGranularity(phase.per), phase.continues});
  for (Granularity per : signature.commits)
    commits.push_back({nameOf(getCommitName(signature, per)),
                       getRuntimeGranularity(per), /*continues=*/0});
  std::string prologue = getPrologueName(signature.name);
  tdm_image image = {TDM_IMAGE_PTX, kernel.target.c_str(), kernel.ptx.data(),
                     kernel.ptx.size(), /*sha256=*/nullptr};
  tdm_cuda_code code = {sizeof(code),
                        prologue.c_str(),
                        phases.data(),
                        commits.data(),
                        &image,
                        uint32_t(phases.size()),
                        uint32_t(commits.size()),
                        /*num_images=*/1,
                        signature.hasFlags ? TDM_FLAG_NON_FINITE : 0u};
  return check(
      tdm_kernel_create_cuda(device, &description.desc, &code, &handle),
      handle);
}
