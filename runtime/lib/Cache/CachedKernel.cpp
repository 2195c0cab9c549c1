//===- CachedKernel.cpp - Kernels in the cache ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the C interface of the cache.
//
//===----------------------------------------------------------------------===//

#include "CPU/Library.h"
#include "CodeCache.h"
#include "Package.h"
#include "tandem-runtime/tandem_cache.h"

#include <atomic>
#include <cstring>

using namespace tandem::runtime;

static_assert(std::tuple_size_v<Digest> == TDM_CACHE_KEY_SIZE);

/// The number of kernels that were taken from the cache.
static std::atomic<uint64_t> numHits;

//===----------------------------------------------------------------------===//
// The folder
//===----------------------------------------------------------------------===//

uint32_t tdm_cache_is_enabled(void) { return CacheSettings::get().isOn(); }

tdm_status tdm_cache_query(tdm_cache_info *info) {
  return guarded("tdm_cache_query", [&]() -> tdm_status {
    if (!info || info->struct_size != sizeof(tdm_cache_info))
      return Failure(TDM_INVALID_ARGUMENT)
             << "tdm_cache_query: info is NULL or its struct_size is not "
                "sizeof(tdm_cache_info); set it";
    static thread_local std::string path;
    CacheSettings settings = CacheSettings::get();
    path = settings.folder;
    *info = {};
    info->struct_size = sizeof(tdm_cache_info);
    info->folder = path.c_str();
    info->enabled = settings.isOn();
    info->limit = settings.limit;
    info->hits = numHits;
    std::string problem;
    if (path.empty())
      return TDM_OK;
    CacheFolder folder(path, /*isCreated=*/false, problem);
    if (!folder)
      return TDM_OK;
    for (const CacheFolder::File &file : listEntries(folder)) {
      ++info->entries;
      info->bytes += file.size;
    }
    return TDM_OK;
  });
}

tdm_status tdm_cache_clear(void) {
  return guarded("tdm_cache_clear", [&]() -> tdm_status {
    CacheSettings settings = CacheSettings::get();
    if (settings.folder.empty())
      return TDM_OK;
    std::string problem;
    CacheFolder folder(settings.folder, /*isCreated=*/false, problem);
    if (!problem.empty())
      return Failure(TDM_INVALID_ARGUMENT)
             << "the cache's folder '" << settings.folder << "' " << problem
             << "; name the right one in TANDEM_CACHE_DIR";
    if (!folder)
      return TDM_OK;
    for (const CacheFolder::File &file : listEntries(folder))
      folder.remove(file.name);
    return TDM_OK;
  });
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

struct tdm_cached_kernel {
  std::unique_ptr<const Package> package;
  /// The package's description, without code that is loaded.
  tdm_kernel_info info;
  std::shared_ptr<const HostLibrary> library;
};

/// Reads a kernel from an entry. The entry is intact, so that failures are
/// those of the system, or of an entry that another runtime has written.
static tdm_status openEntry(const std::string &bytes,
                            tdm_cached_kernel &kernel) {
  AlignedBytes aligned(bytes.size());
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  if (tdm_status status =
          Package::read(std::move(aligned), "in the cache", kernel.package,
                        /*isHashed=*/true))
    return status;
  kernel.info = kernel.package->getKernel(0).getInfo();
  kernel.info.format = 0;
  if (kernel.info.num_images != 1)
    return Failure(TDM_INVALID_PACKAGE) << "it has not one image";
  const tdm_image &image = kernel.info.images[0];
  if (std::strcmp(image.kind, TDM_IMAGE_LIBRARY) ||
      std::strcmp(image.target, TDM_CACHE_TARGET))
    return TDM_OK;
  kernel.info.images = nullptr;
  kernel.info.num_images = 0;
  return Library::load(image, kernel.library);
}

tdm_status tdm_cached_kernel_open(const uint8_t *key,
                                  tdm_cached_kernel **kernel) {
  return guarded("tdm_cached_kernel_open", [&]() -> tdm_status {
    if (!key || !kernel)
      return Failure(TDM_INVALID_ARGUMENT)
             << "tdm_cached_kernel_open: " << (key ? "kernel" : "key")
             << " is NULL; pass a key, and where to store the kernel";
    *kernel = nullptr;
    Digest digest;
    std::memcpy(digest.data(), key, digest.size());
    std::string bytes;
    if (!CodeCache(kernelSuffix).read(digest, bytes))
      return TDM_OK;
    auto opened = std::make_unique<tdm_cached_kernel>();
    if (openEntry(bytes, *opened) != TDM_OK) {
      logOnce(CacheLog::load,
              std::string("a kernel in the cache of compiled code cannot be "
                          "used: ") +
                  lastMessage() + "; it is compiled again");
      return TDM_OK;
    }
    ++numHits;
    *kernel = opened.release();
    return TDM_OK;
  });
}

void tdm_cached_kernel_close(tdm_cached_kernel *kernel) { delete kernel; }

const tdm_kernel_info *tdm_cached_kernel_info(const tdm_cached_kernel *kernel) {
  return &kernel->info;
}

void *tdm_cached_kernel_find(const tdm_cached_kernel *kernel,
                             const char *name) {
  return kernel->library ? kernel->library->find(name) : nullptr;
}

void tdm_cached_kernel_store(const uint8_t *key, const void *package,
                             size_t size) {
  guarded("tdm_cached_kernel_store", [&]() -> tdm_status {
    Digest digest;
    std::memcpy(digest.data(), key, digest.size());
    CodeCache(kernelSuffix).write(digest, package, size);
    return TDM_OK;
  });
}
