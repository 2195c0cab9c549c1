//===- LoadPackage.cpp - Kernels from packages ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements kernels that the runtime has found in a package: what
// the compiler would have said of them.
//
//===----------------------------------------------------------------------===//

#include "tandem-runtime/tandem_package.h"
#include "tandem/Target/Package.h"

using namespace mlir;
using namespace mlir::tandem;

static Granularity getGranularity(uint32_t per) {
  return per == TDM_PER_ROW      ? Granularity::row
         : per == TDM_PER_COLUMN ? Granularity::column
         : per == TDM_PER_BLOCK  ? Granularity::block
                                 : Granularity::element;
}

static Scope getScope(tdm_scope scope) {
  switch (scope) {
  case TDM_SCOPE_TENSOR:
    return Scope::tensor;
  case TDM_SCOPE_MODEL:
    return Scope::model;
  case TDM_SCOPE_ROW:
    return Scope::row;
  case TDM_SCOPE_COLUMN:
    return Scope::column;
  case TDM_SCOPE_BLOCK:
    return Scope::block;
  }
  llvm_unreachable("the runtime knows these scopes");
}

static RoleKind getRole(tdm_role role) {
  switch (role) {
  case TDM_ROLE_PARAM:
    return RoleKind::param;
  case TDM_ROLE_GRAD:
    return RoleKind::grad;
  case TDM_ROLE_STATE:
    return RoleKind::state;
  case TDM_ROLE_HYPER:
    return RoleKind::hyper;
  case TDM_ROLE_STEP:
    return RoleKind::step;
  case TDM_ROLE_SEED:
    return RoleKind::seed;
  case TDM_ROLE_INPUT:
    return RoleKind::input;
  case TDM_ROLE_OUTPUT:
    return RoleKind::output;
  case TDM_ROLE_SAVED:
    return RoleKind::saved;
  case TDM_ROLE_RESTORED:
    return RoleKind::restored;
  }
  llvm_unreachable("the runtime knows these roles");
}

static Group getGroup(const tdm_plane_desc &desc) {
  if (desc.group == TDM_WHOLE_TENSOR)
    return Group::tensor();
  if (desc.group == TDM_WHOLE_ROW)
    return Group::row();
  return {std::max(desc.group, 1u), std::max(desc.rows, 1u)};
}

static KernelSignature::PlaneEntry getPlane(const tdm_plane_desc &desc,
                                            const tdm_plane_info &info) {
  KernelSignature::PlaneEntry plane;
  plane.name = desc.name;
  plane.role = info.role;
  plane.kind = getRole(info.kind);
  plane.type = info.type;
  plane.bits = desc.bits;
  plane.isRead = desc.access & TDM_ACCESS_READ;
  plane.isWritten = desc.access & TDM_ACCESS_WRITE;
  plane.isVisible = info.visible;
  plane.group = getGroup(desc);
  plane.isKept = info.kept;
  plane.isTransposed = desc.transposed;
  plane.history = desc.values;
  plane.per = getGranularity(desc.per);
  return plane;
}

static KernelSignature::Hyper getHyper(const tdm_hyper_desc &desc,
                                       const tdm_hyper_info &info) {
  std::optional<double> defaultValue;
  if (info.has_default)
    defaultValue = info.default_value;
  return {desc.name,          defaultValue,       desc.min,         desc.max,
          desc.min_open != 0, desc.max_open != 0, desc.min_positive};
}

static KernelSignature::Reduction getReduction(const tdm_reduction_desc &desc) {
  ReduceKind kind = desc.kind == TDM_REDUCTION_SUM   ? ReduceKind::sum
                    : desc.kind == TDM_REDUCTION_MAX ? ReduceKind::max
                                                     : ReduceKind::min;
  return {kind, desc.phase, getScope(desc.scope)};
}

static KernelSignature getSignature(const tdm_kernel_info &info) {
  const tdm_kernel_desc &desc = *info.desc;
  KernelSignature signature;
  signature.name = info.graph;
  signature.strategy = info.strategy;
  signature.compute = info.compute;
  signature.numScalars = desc.num_scalars;
  signature.numMetrics = desc.workspace_doubles_per_chunk;
  signature.hasFlags = info.flags & TDM_FLAG_NON_FINITE;
  signature.isMatrix = desc.matrix;
  signature.isFlatGraph = info.flat_graph;
  signature.block = desc.block;
  for (uint32_t i = 0; i < desc.num_planes; ++i)
    signature.planes.push_back(getPlane(desc.planes[i], info.planes[i]));
  for (uint32_t i = 0; i < desc.num_hypers; ++i)
    signature.hypers.push_back(getHyper(desc.hypers[i], info.hypers[i]));
  for (uint32_t i = 0; i < desc.num_integers; ++i)
    signature.integers.push_back(
        {desc.integers[i].name, getRole(info.integers[i])});
  for (uint32_t i = 0; i < desc.num_reductions; ++i)
    signature.reductions.push_back(getReduction(desc.reductions[i]));
  signature.phases.clear();
  for (uint32_t i = 0; i < info.num_phases; ++i)
    signature.phases.push_back(
        {getGranularity(info.phases[i].per), info.phases[i].continues != 0});
  for (uint32_t i = 0; i < info.num_commits; ++i)
    signature.commits.push_back(getGranularity(info.commits[i].per));
  return signature;
}

static llvm::Expected<std::string> getPTX(const tdm_kernel_info &info,
                                          StringRef path, StringRef chip) {
  std::vector<StringRef> chips;
  for (uint32_t i = 0; i < info.num_images; ++i) {
    const tdm_image &image = info.images[i];
    if (image.kind != TDM_IMAGE_PTX)
      continue;
    if (image.target == chip)
      return std::string(static_cast<const char *>(image.data), image.size);
    chips.push_back(image.target);
  }
  return llvm::createStringError(
      "package '" + path + "' has no PTX for " + chip + "; it has " +
      (chips.empty() ? "none" : "that for " + llvm::join(chips, ", ")) +
      "; write it again with target " + chip);
}

llvm::Expected<std::unique_ptr<CompiledKernel>>
mlir::tandem::loadKernel(StringRef path, StringRef name, StringRef target,
                         StringRef isa) {
  auto fail = [] { return llvm::createStringError(tdm_last_error()); };
  tdm_package *package = nullptr;
  if (tdm_package_open(path.str().c_str(), &package) != TDM_OK)
    return fail();
  auto result = std::make_unique<CompiledKernel>();
  result->package.reset(package, tdm_package_close);
  uint32_t index;
  tdm_kernel_info info = {};
  info.struct_size = sizeof(info);
  std::string wanted = name.str();
  if (tdm_package_find(package, name.empty() ? nullptr : wanted.c_str(),
                       &index) != TDM_OK ||
      tdm_package_kernel(package, index, &info) != TDM_OK)
    return fail();
  result->signature = getSignature(info);
  result->kernelIR = info.ir;
  result->nameInPackage = info.name;
  result->target = target.str();
  if (target == "cpu") {
    result->isa = isa == "native" ? "" : isa.str();
    return result;
  }
  auto ptx = getPTX(info, path, target);
  if (!ptx)
    return ptx.takeError();
  result->ptx = std::move(*ptx);
  return result;
}
