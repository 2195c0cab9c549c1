//===- LoadPackage.cpp - Kernels from packages ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the use of kernels that the runtime has found in a
// package.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/CompilerError.h"
#include "tandem/Target/Package.h"

using namespace mlir;
using namespace tandem;

namespace {
/// A description, and the package that it points into.
struct PackedDescription {
  explicit PackedDescription(std::shared_ptr<const tdm_package> package)
      : package(std::move(package)) {
    info.struct_size = sizeof(info);
  }

  std::shared_ptr<const tdm_package> package;
  tdm_kernel_info info = {};
};
} // namespace

static llvm::Expected<const tdm_image *>
findImage(const tdm_kernel_info &info, StringRef path, StringRef name) {
  std::vector<StringRef> others;
  const Target *target = findTarget(name);
  for (const tdm_image &image : getImages(info)) {
    if (target->isImage(name, image))
      return &image;
    others.push_back(image.target);
  }
  return ErrorBuilder(TandemErrorTarget)
         << "package '" << Named{TDM_MESSAGE_FILE, path} << "' has no code for "
         << Named{TDM_MESSAGE_TARGET, name} << "; it has "
         << (others.empty() ? "none" : "that for " + llvm::join(others, ", "))
         << "; write it again with target " << Named{TDM_MESSAGE_TARGET, name};
}

llvm::Expected<std::unique_ptr<CompiledKernel>>
tandem::loadKernel(std::shared_ptr<const tdm_package> package, StringRef path,
                   StringRef name, StringRef target, StringRef isa) {
  if (llvm::Error error = checkTarget(target))
    return error;
  auto packed = std::make_shared<PackedDescription>(package);
  tdm_kernel_info &info = packed->info;
  uint32_t index;
  std::string wanted = name.str();
  if (tdm_package_find(package.get(), name.empty() ? nullptr : wanted.c_str(),
                       &index) != TDM_OK ||
      tdm_package_kernel(package.get(), index, &info) != TDM_OK)
    return takeRuntimeError(TandemErrorIO);
  auto result = std::make_unique<CompiledKernel>();
  result->info = {packed, &info};
  result->package = package.get();
  result->target = target.str();
  if (!findTarget(target)->hasImages()) {
    result->isa = isa == "native" ? "" : isa.str();
    return result;
  }
  auto image = findImage(info, path, target);
  if (!image)
    return image.takeError();
  result->image = *image;
  return result;
}

llvm::Expected<std::unique_ptr<CompiledKernel>>
tandem::loadKernel(StringRef path, StringRef name, StringRef target,
                   StringRef isa) {
  if (llvm::Error error = checkTarget(target))
    return error;
  tdm_package *package = nullptr;
  if (tdm_package_open(path.str().c_str(), &package) != TDM_OK)
    return takeRuntimeError(TandemErrorIO);
  return loadKernel(std::shared_ptr<tdm_package>(package, tdm_package_close),
                    path, name, target, isa);
}
