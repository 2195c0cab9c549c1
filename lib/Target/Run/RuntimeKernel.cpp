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

#include "tandem/Target/Run.h"
#include <limits>

using namespace mlir::tandem;

static constexpr double infinity = std::numeric_limits<double>::infinity();

tdm_hyper_desc
mlir::tandem::getRuntimeHyper(const KernelSignature::Hyper &hyper) {
  tdm_hyper_desc desc = {hyper.name.c_str(), 0.0, infinity, 0, 1, 0.0};
  if (hyper.domain == Domain::any) {
    desc.min = -infinity;
    desc.min_open = 1;
  }
  if (hyper.domain == Domain::unit)
    desc.max = 1.0;
  if (hyper.domain == Domain::epsilon)
    desc.min_positive = hyper.minPositive;
  return desc;
}

static tdm_plane_desc getPlane(const KernelSignature::PlaneEntry &plane) {
  uint32_t access = (plane.isRead ? TDM_ACCESS_READ : 0u) |
                    (plane.isWritten ? TDM_ACCESS_WRITE : 0u);
  return {plane.name.c_str(), plane.bits, access, uint32_t(plane.group)};
}

static tdm_integer_desc getInteger(const KernelSignature::Integer &integer) {
  return {integer.name.c_str(), integer.kind == RoleKind::step ? 1 : INT64_MIN};
}

llvm::Expected<tdm_kernel *>
mlir::tandem::createRuntimeKernel(const CompiledKernel &kernel) {
  const KernelSignature &signature = kernel.signature;
  if (!kernel.entry)
    return llvm::createStringError(
        "kernel '" + signature.name +
        "' has no CPU code; compile it for target 'cpu'");
  auto planes = llvm::map_to_vector(signature.planes, getPlane);
  auto hypers = llvm::map_to_vector(signature.hypers, getRuntimeHyper);
  auto integers = llvm::map_to_vector(signature.integers, getInteger);
  tdm_kernel_desc desc = {};
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
  desc.entry = reinterpret_cast<tdm_cpu_entry>(kernel.entry);
  desc.prologue = reinterpret_cast<tdm_cpu_prologue>(kernel.prologue);
  tdm_kernel *handle = nullptr;
  if (tdm_kernel_create(&desc, &handle) != TDM_OK)
    return llvm::createStringError(tdm_last_error());
  return handle;
}
