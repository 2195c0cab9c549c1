//===- KernelLoad.cpp - Kernels from images -------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the creation of kernels from images: it selects the
// image for a device and checks its hash.
//
//===----------------------------------------------------------------------===//

#include "DeviceDriver.h"
#include "Kernel.h"
#include "SHA256.h"

#include <cstring>

using namespace tandem::runtime;

static tdm_status checkImages(const Kernel &kernel,
                              const tdm_kernel_info &info) {
  if (info.num_images && !info.images)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "images is NULL but num_images is " << info.num_images;
  for (uint32_t i = 0; i < info.num_images; ++i) {
    const tdm_image &image = info.images[i];
    const char *missing = !image.kind                  ? "kind"
                          : !image.target              ? "target"
                          : !image.data || !image.size ? "data"
                                                       : nullptr;
    if (missing)
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << "image " << i << " has no " << missing
             << "; pass compiled code";
  }
  return TDM_OK;
}

/// Returns the image that the device prefers, or NULL if it can run none.
static const tdm_image *chooseImage(const Device &device,
                                    const tdm_kernel_info &info,
                                    const char *target) {
  const tdm_image *best = nullptr;
  int64_t bestRank = 0;
  for (uint32_t i = 0; i < info.num_images; ++i) {
    const tdm_image &image = info.images[i];
    if (target && std::strcmp(target, image.target))
      continue;
    int64_t rank = device.rank(image);
    if (rank > bestRank) {
      best = &image;
      bestRank = rank;
    }
  }
  return best;
}

/// Fails with a message that lists the available images.
static tdm_status failToChoose(const Kernel &kernel, const tdm_device &device,
                               const tdm_kernel_info &info,
                               const char *target) {
  tdm_device_info what = {};
  what.struct_size = sizeof(what);
  if (tdm_status status = tdm_device_query(&device, &what))
    return status;
  Failure failure = kernel.fail(TDM_UNAVAILABLE);
  failure << "no image ";
  if (target)
    failure << "for " << target << " ";
  failure << "runs on " << what.target << "; there ";
  if (!info.num_images)
    failure << "is none";
  else
    failure << (info.num_images == 1 ? "is one for " : "are some for ");
  for (uint32_t i = 0; i < info.num_images; ++i)
    failure << (i ? ", " : "") << info.images[i].target;
  return failure << "; compile it for " << device.device->getAdvice();
}

static tdm_status checkHash(const Kernel &kernel, const tdm_image &image) {
  if (!image.sha256)
    return TDM_OK;
  Digest digest = digestOf(image.data, image.size);
  if (!std::memcmp(digest.data(), image.sha256, digest.size()))
    return TDM_OK;
  return kernel.fail(TDM_INVALID_PACKAGE)
         << "the image for " << image.target
         << " is not what its SHA-256 says; compile it again";
}

tdm_status tandem::runtime::loadKernel(const tdm_device &device,
                                       const tdm_kernel_info &info,
                                       const char *target,
                                       std::shared_ptr<const Kernel> &kernel) {
  auto result = std::make_shared<Kernel>();
  if (tdm_status status = describeKernel(info, *result))
    return status;
  if (tdm_status status = checkImages(*result, info))
    return status;
  const tdm_image *image = chooseImage(*device.device, info, target);
  if (!image)
    return failToChoose(*result, device, info, target);
  if (tdm_status status = checkHash(*result, *image))
    return status;
  if (tdm_status status =
          device.device->load(*result, info, *image, result->executable))
    return status;
  result->target = image->target;
  kernel = std::move(result);
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// C interface
//===----------------------------------------------------------------------===//

static tdm_status checkArguments(const tdm_device *device,
                                 const tdm_kernel_info *info,
                                 tdm_kernel **kernel) {
  if (!device || !kernel)
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_kernel_load: " << (device ? "kernel" : "device")
           << " is NULL; pass an open device, and where to store the kernel";
  if (!info || info->struct_size != sizeof(tdm_kernel_info) || !info->desc ||
      !info->desc->name)
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_kernel_load: info is not what tdm_package_kernel of this "
           << "runtime stores; pass that";
  return TDM_OK;
}

tdm_status tdm_kernel_load(const tdm_device *device,
                           const tdm_kernel_info *info, tdm_kernel **kernel) {
  return guarded("tdm_kernel_load", [&]() -> tdm_status {
    if (tdm_status status = checkArguments(device, info, kernel))
      return status;
    auto handle = std::make_unique<tdm_kernel>();
    if (tdm_status status =
            loadKernel(*device, *info, /*target=*/nullptr, handle->kernel))
      return status;
    *kernel = handle.release();
    return TDM_OK;
  });
}
