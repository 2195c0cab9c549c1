//===- Description.h - Descriptions of kernels ------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how the compiler describes a kernel: by the runtime's
// tdm_kernel_info, which packages store and hosts read.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_DESCRIPTION_H
#define TANDEM_TARGET_DESCRIPTION_H

#include "tandem-runtime/tandem_package.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/LLVM.h"
#include "tandem/Target/Target.h"
#include <deque>

namespace tandem {

/// The texts that descriptions point to. They keep their addresses.
class DescriptionTexts {
public:
  const char *add(const llvm::Twine &text) {
    return texts.emplace_back(text.str()).c_str();
  }

private:
  std::deque<std::string> texts;
};

/// Returns the dialect's kind of a role of the runtime.
RoleKind getRoleKind(tdm_role kind);

/// Describes a plane of a tensor called `role`.
tdm_plane_desc describePlane(const Plane &plane, llvm::StringRef role,
                             bool isVisible, DescriptionTexts &texts);

/// The description of a kernel that is being compiled, and what it points to.
class KernelDescription {
public:
  /// Describes everything except the code of a kernel that is not split into
  /// phases yet.
  KernelDescription(KernelOp kernel, llvm::StringRef strategy);
  KernelDescription(const KernelDescription &) = delete;

  /// Adds the launches that -tandem-split-phases has made from the kernel.
  void addLaunches(StepOp step);
  /// Adds the kernel as MLIR text.
  void setIR(const llvm::Twine &text) { info.ir = texts.add(text); }
  /// Adds the code for a target.
  void addImage(Image code);

  const tdm_kernel_info &getInfo() const { return info; }

private:
  void addPlanes(KernelOp kernel, unsigned tensor);
  void addScalars(KernelOp kernel);
  void addTensors(KernelOp kernel);
  tdm_part_info getPart(LaunchOp launch);

  DescriptionTexts texts;
  std::vector<tdm_plane_desc> planes;
  std::vector<tdm_hyper_desc> hypers;
  std::vector<tdm_integer_desc> integers;
  std::vector<tdm_tensor_info> tensors;
  std::vector<tdm_reduction_desc> reductions;
  std::vector<tdm_part_info> phases, epilogues;
  std::vector<uint32_t> reductionGranularities, fusedWithPrevious;
  std::vector<tdm_external_desc> externals;
  std::deque<Image> codes;
  std::vector<tdm_image> images;
  tdm_kernel_desc desc = {};
  tdm_kernel_info info = {};
};

//===----------------------------------------------------------------------===//
// Queries of a description
//===----------------------------------------------------------------------===//

inline llvm::ArrayRef<tdm_plane_desc> getPlanes(const tdm_kernel_info &info) {
  return {info.desc->planes, info.desc->num_planes};
}
inline llvm::ArrayRef<tdm_hyper_desc> getHypers(const tdm_kernel_info &info) {
  return {info.desc->hypers, info.desc->num_hypers};
}
inline llvm::ArrayRef<tdm_integer_desc>
getIntegers(const tdm_kernel_info &info) {
  return {info.desc->integers, info.desc->num_integers};
}
inline llvm::ArrayRef<tdm_reduction_desc>
getReductions(const tdm_kernel_info &info) {
  return {info.desc->reductions, info.desc->num_reductions};
}
inline llvm::ArrayRef<tdm_external_desc>
getExternals(const tdm_kernel_info &info) {
  return {info.desc->externals, info.desc->num_externals};
}
inline llvm::ArrayRef<tdm_part_info> getPhases(const tdm_kernel_info &info) {
  return {info.phases, info.num_phases};
}
inline llvm::ArrayRef<tdm_part_info> getEpilogues(const tdm_kernel_info &info) {
  return {info.epilogues, info.num_epilogues};
}
inline llvm::ArrayRef<tdm_tensor_info> getTensors(const tdm_kernel_info &info) {
  return {info.tensors, info.num_tensors};
}
inline llvm::ArrayRef<tdm_image> getImages(const tdm_kernel_info &info) {
  return {info.images, info.num_images};
}

inline llvm::StringRef getBytes(const tdm_image &image) {
  return {static_cast<const char *>(image.data), image.size};
}

inline bool isRead(const tdm_plane_desc &plane) {
  return plane.access & TDM_ACCESS_READ;
}
inline bool isWritten(const tdm_plane_desc &plane) {
  return plane.access & TDM_ACCESS_WRITE;
}
/// Returns whether each element has its own entry.
inline bool hasEntryPerElement(const tdm_plane_desc &plane) {
  return tdm_plane_elements_per_entry(&plane) == 1;
}

/// Names the elements that share an entry: "each 128", "the tensor", "each
/// row", "each 128x128".
std::string getSharingText(const tdm_plane_desc &plane);

/// Returns the bits of a plane for each element of a large tensor, or 0 for
/// entries that rows, columns and tensors share.
double getBitsPerElement(const tdm_plane_desc &plane);

/// Returns the bytes of weight, gradient and states per parameter.
double getBytesPerParameter(const tdm_kernel_info &info);

/// Returns "adamw under bf16", or only the name for a kernel with its own
/// storages.
std::string getTitle(const tdm_kernel_info &info);

} // namespace tandem

#endif // TANDEM_TARGET_DESCRIPTION_H
