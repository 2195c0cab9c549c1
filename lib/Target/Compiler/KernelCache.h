//===- KernelCache.h - Kernels that were compiled before --------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the compiler's use of the cache on disk
// (tandem-runtime/tandem_cache.h). An entry is a package with the description
// of a kernel and one image; to read it takes neither MLIR nor LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_COMPILER_KERNELCACHE_H
#define TANDEM_LIB_TARGET_COMPILER_KERNELCACHE_H

#include "tandem-runtime/tandem_cache.h"
#include "tandem/Target/Compiler.h"
#include <array>
#include <optional>

namespace tandem {

/// A hash of everything that a kernel's description and code depend on.
using KernelKey = std::array<uint8_t, TDM_CACHE_KEY_SIZE>;

/// The place in the cache of the kernel that options make from the text of a
/// module, which takes the place of the option `graph`. Strategies that the
/// options find in files count by their content. There is no place if the cache
/// is off, or if the target's code depends on more.
class KernelEntry {
public:
  /// The options must live as long as this object.
  KernelEntry(std::string text, const CompileOptions &options)
      : text(std::move(text)), options(options), key(findKey()) {}

  /// Returns whether a kernel can be kept here.
  explicit operator bool() const { return key.has_value(); }

  /// Returns the kernel that was kept here, or null. It is like a compiled one.
  std::unique_ptr<CompiledKernel> read() const;

  /// Keeps a compiled kernel, unless a file has changed since this object was
  /// made: the kernel may come from the new one. `image` is the code, as a
  /// shared library if it stays in this process.
  void write(const CompiledKernel &kernel, const Image &image) const;

private:
  std::optional<KernelKey> findKey() const;

  std::string text;
  const CompileOptions &options;
  std::optional<KernelKey> key;
};

} // namespace tandem

#endif // TANDEM_LIB_TARGET_COMPILER_KERNELCACHE_H
