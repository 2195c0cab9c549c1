//===- Library.h - Kernels in shared libraries ------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the loading of shared libraries from memory, and the
// instruction sets that they may need.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CPU_LIBRARY_H
#define TANDEM_RUNTIME_LIB_CPU_LIBRARY_H

#include "HostExecutable.h"

namespace tandem::runtime {

/// A shared library that is loaded into this process.
class Library : public HostLibrary {
public:
  /// Loads an image. The message of a failure does not have the kernel's name
  /// yet.
  static tdm_status load(const tdm_image &image,
                         std::shared_ptr<const HostLibrary> &library);
  ~Library() override;
  Library(const Library &) = delete;
  Library &operator=(const Library &) = delete;

  void *find(const char *name) const override;

private:
  explicit Library(void *handle) : handle(handle) {}

  void *handle;
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CPU_LIBRARY_H
