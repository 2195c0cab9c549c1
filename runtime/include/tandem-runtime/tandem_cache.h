//===- tandem_cache.h - The cache of compiled code, C interface -*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the C interface of the cache on disk, in which the
// compiler keeps kernels and the runtime keeps machine code that a driver has
// compiled from PTX. Later processes take them from there instead of compiling
// again.
//
// The cache is a folder: the one that the environment variable TANDEM_CACHE_DIR
// names, by default $XDG_CACHE_HOME/tandem or ~/.cache/tandem. An empty value,
// or TANDEM_CACHE=off, disables it. TANDEM_CACHE_SIZE is the maximum size of
// its files in MiB, 256 by default; those that have not been used for the
// longest time are removed first.
//
// Only this user may be able to write to the folder and its files, and files
// are compared with their hashes. Files and folders that are not so are not
// used; one line on the standard error output says it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_TANDEM_CACHE_H
#define TANDEM_RUNTIME_TANDEM_CACHE_H

#include "tandem-runtime/tandem_package.h"

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// The folder
//===----------------------------------------------------------------------===//

/// The state of the cache.
typedef struct tdm_cache_info {
  /// sizeof(tdm_cache_info), set by the caller.
  size_t struct_size;
  /// The path of the folder; empty if there is none. Valid until the thread
  /// calls tdm_cache_query again.
  const char *folder;
  /// Nonzero if entries are read and kept.
  uint32_t enabled;
  /// The number of entries in the folder, and the bytes of their files.
  uint64_t entries;
  uint64_t bytes;
  /// The maximum of `bytes`.
  uint64_t limit;
  /// The number of kernels that this process has taken from the cache.
  uint64_t hits;
} tdm_cache_info;

/// Returns nonzero if entries are read and kept.
TDM_API uint32_t tdm_cache_is_enabled(void);

/// Stores the state of the cache in \p info.
TDM_API tdm_status tdm_cache_query(tdm_cache_info *info);

/// Removes all entries, also if TANDEM_CACHE is off. Fails if the folder is not
/// one that the cache would use.
TDM_API tdm_status tdm_cache_clear(void);

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// The number of bytes of a key, a SHA-256 of everything that a kernel's
/// description and code depend on.
#define TDM_CACHE_KEY_SIZE 32

/// The target of a shared library whose functions are called in the process
/// that reads it. Images for other targets stay images.
#define TDM_CACHE_TARGET "cpu"

/// A kernel from the cache. Immutable, so that any number of threads may use
/// it.
typedef struct tdm_cached_kernel tdm_cached_kernel;

/// Stores in \p kernel the kernel that was kept under \p key, or NULL if there
/// is none that can be used. Code for TDM_CACHE_TARGET is loaded into this
/// process.
TDM_API tdm_status tdm_cached_kernel_open(const uint8_t *key,
                                          tdm_cached_kernel **kernel);

/// Unloads the kernel's code and closes it. NULL is allowed.
TDM_API void tdm_cached_kernel_close(tdm_cached_kernel *kernel);

/// Returns the description that was kept. It lives as long as \p kernel. Code
/// that is loaded is not among its images.
TDM_API const tdm_kernel_info *
tdm_cached_kernel_info(const tdm_cached_kernel *kernel);

/// Returns the address of a function of the loaded code, or NULL if there is
/// none of this name.
TDM_API void *tdm_cached_kernel_find(const tdm_cached_kernel *kernel,
                                     const char *name);

/// Keeps a kernel under \p key: a package of \p size bytes with one kernel and
/// one image. A failure is not reported, except for the line that is logged.
TDM_API void tdm_cached_kernel_store(const uint8_t *key, const void *package,
                                     size_t size);

#ifdef __cplusplus
}
#endif

#endif // TANDEM_RUNTIME_TANDEM_CACHE_H
