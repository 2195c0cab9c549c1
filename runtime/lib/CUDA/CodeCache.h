//===- CodeCache.h - Machine code kept on disk ------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the directory in which the runtime caches machine code
// that the driver has compiled from PTX.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_CODECACHE_H
#define TANDEM_RUNTIME_LIB_CUDA_CODECACHE_H

#include "SHA256.h"

#include <string>

namespace tandem::runtime::cuda {

/// A cache of files by key, in a directory that only its owner can write. Any
/// failure is treated as a miss, since the cache only saves time.
class CodeCache {
public:
  /// Uses the directory that the environment names, which is created if needed.
  CodeCache();

  /// Reads the code for \p key. Returns false unless the file is intact: it was
  /// written for this key, and its digest matches its bytes.
  bool read(const Digest &key, std::string &code) const;

  /// Stores the code for \p key.
  void write(const Digest &key, const void *code, size_t size) const;

private:
  std::string pathOf(const Digest &key) const;

  /// The path of the cache; empty if the cache is disabled.
  std::string directory;
};

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_CODECACHE_H
