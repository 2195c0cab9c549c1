//===- LoadPackage.cpp - Kernels from packages ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements kernels that the runtime has found in a package.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Package.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
/// A description, and the package that it points to.
struct PackedDescription {
  explicit PackedDescription(tdm_package *package)
      : package(package, tdm_package_close) {
    info.struct_size = sizeof(info);
  }

  std::unique_ptr<tdm_package, decltype(&tdm_package_close)> package;
  tdm_kernel_info info = {};
};
} // namespace

static llvm::Expected<std::string> getPTX(const tdm_kernel_info &info,
                                          StringRef path, StringRef chip) {
  std::vector<StringRef> chips;
  for (const tdm_image &image : getImages(info)) {
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
  auto packed = std::make_shared<PackedDescription>(package);
  tdm_kernel_info &info = packed->info;
  uint32_t index;
  std::string wanted = name.str();
  if (tdm_package_find(package, name.empty() ? nullptr : wanted.c_str(),
                       &index) != TDM_OK ||
      tdm_package_kernel(package, index, &info) != TDM_OK)
    return fail();
  auto result = std::make_unique<CompiledKernel>();
  result->info = {packed, &info};
  result->package = package;
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
