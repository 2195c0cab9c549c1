//===- CodeCache.h - Machine code kept on disk ------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the directory in which the runtime keeps machine code that
// the driver has made of PTX.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_CODECACHE_H
#define TANDEM_RUNTIME_LIB_CUDA_CODECACHE_H

#include "SHA256.h"

#include <string>

namespace tandem::runtime::cuda {

/// Files by key in a directory that only its owner can write. Whatever goes
/// wrong is a miss: code from here saves time and nothing else.
class CodeCache {
public:
  /// The directory in the environment, made if it is not there.
  CodeCache();

  /// Reads the code of \p key. False unless the file is whole: it was written
  /// for this key, and its digest is that of its bytes.
  bool read(const Digest &key, std::string &code) const;

  /// Keeps the code of \p key.
  void write(const Digest &key, const void *code, size_t size) const;

private:
  std::string pathOf(const Digest &key) const;

  /// Empty if nothing is to be kept.
  std::string directory;
};

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_CODECACHE_H
