//===- PackageLoad.cpp - Kernels from packages ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the choice of an image and the creation of kernels from
// packages.
//
//===----------------------------------------------------------------------===//

#include "CPU/Library.h"
#include "Kernel.h"
#include "Package.h"
#include "SHA256.h"

#include <cstring>

using namespace tandem::runtime;

namespace {
/// A kernel and the library that has its code.
struct LoadedKernel {
  std::shared_ptr<const Library> library;
  std::shared_ptr<const Kernel> kernel;
};
} // namespace

/// The best image for this processor, or that for \p target.
static const tdm_image *chooseImage(const std::vector<tdm_image> &images,
                                    const char *target) {
  const tdm_image *best = nullptr;
  int bestRank = 0;
  for (const tdm_image &image : images) {
    if (image.kind != TDM_IMAGE_LIBRARY ||
        (target && std::strcmp(target, image.target)))
      continue;
    int rank = rankInstructionSet(image.target);
    if (rank > bestRank) {
      best = &image;
      bestRank = rank;
    }
  }
  return best;
}

/// Says which images there are instead.
static tdm_status failToChoose(Failure failure,
                               const std::vector<tdm_image> &images,
                               const char *target) {
  failure << "has no code for "
          << (target ? target : "the instruction set of this processor")
          << (target ? " that this processor can run" : "") << "; it has ";
  for (size_t i = 0; i < images.size(); ++i)
    failure << (i ? ", " : "") << images[i].target;
  return failure << (images.empty() ? "none" : "")
                 << "; write it again with target x86-64, which every x86-64 "
                    "processor runs";
}

static bool isIntact(const tdm_image &image) {
  SHA256 sha;
  sha.add(image.data, image.size);
  Digest digest = sha.finish();
  return !std::memcmp(image.sha256, digest.data(), digest.size());
}

/// Puts the package's name before the latest failure's message.
static tdm_status failAgain(const Package &package, tdm_status status) {
  std::string reason = lastMessage();
  return package.fail(status) << reason;
}

static tdm_status load(const Package &package, const PackedKernel &packed,
                       const tdm_image &image,
                       std::shared_ptr<const Kernel> &kernel) {
  if (!isIntact(image))
    return package.fail(TDM_INVALID_PACKAGE)
           << "has damaged code for " << image.target << "; write it again";
  auto loaded = std::make_shared<LoadedKernel>();
  if (tdm_status status = Library::load(image, loaded->library))
    return failAgain(package, status);
  PackedKernel::Bound bound;
  auto find = [&](const char *name) { return loaded->library->find(name); };
  if (const char *missing = packed.bind(find, bound))
    return package.fail(TDM_INVALID_PACKAGE)
           << "lacks function '" << missing << "' in its code for "
           << image.target << "; write it again";
  if (tdm_status status = createKernel(&bound.desc, loaded->kernel))
    return failAgain(package, status);
  kernel = std::shared_ptr<const Kernel>(loaded, loaded->kernel.get());
  return TDM_OK;
}

tdm_status tdm_package_load(const tdm_package *package, const char *name,
                            const char *target, tdm_kernel **kernel) {
  return guarded("tdm_package_load", [&]() -> tdm_status {
    if (!package || !kernel)
      return Failure(TDM_INVALID_ARGUMENT)
             << "tdm_package_load: " << (package ? "kernel" : "package")
             << " is NULL; pass a package, and where to store the kernel";
    const Package &opened = *package->package;
    uint32_t index;
    if (tdm_status status = opened.find(name, index))
      return status;
    const tdm_image *image = chooseImage(opened.images(index), target);
    if (!image)
      return failToChoose(opened.fail(TDM_UNAVAILABLE), opened.images(index),
                          target);
    auto handle = std::make_unique<tdm_kernel>();
    if (tdm_status status =
            load(opened, opened.getKernel(index), *image, handle->kernel))
      return status;
    *kernel = handle.release();
    return TDM_OK;
  });
}

tdm_status tdm_package_create_cuda(const tdm_kernel_info *info,
                                   const tdm_image *images, uint32_t num_images,
                                   const tdm_device *device,
                                   tdm_kernel **kernel) {
  if (!info || info->struct_size != sizeof(tdm_kernel_info))
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_package_create_cuda: info is not what tdm_package_kernel of "
           << "this runtime stores; pass that";
  tdm_cuda_code code = {};
  code.struct_size = sizeof(code);
  code.prologue = info->prologue;
  code.phases = info->phases;
  code.num_phases = info->num_phases;
  code.commits = info->commits;
  code.num_commits = info->num_commits;
  code.images = images;
  code.num_images = num_images;
  code.flags = info->flags;
  return tdm_kernel_create_cuda(device, info->desc, &code, kernel);
}

tdm_status tdm_package_load_cuda(const tdm_package *package, const char *name,
                                 const tdm_device *device,
                                 tdm_kernel **kernel) {
  uint32_t index = 0;
  if (tdm_status status = tdm_package_find(package, name, &index))
    return status;
  tdm_kernel_info info = {};
  info.struct_size = sizeof(info);
  if (tdm_status status = tdm_package_kernel(package, index, &info))
    return status;
  return tdm_package_create_cuda(&info, info.images, info.num_images, device,
                                 kernel);
}
