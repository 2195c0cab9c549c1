//===- PackedKernel.h - Kernels of packages in Python -----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares kernels that the runtime reads from packages, without the
// compiler.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_PACKEDKERNEL_H
#define TANDEM_PYTHON_PACKEDKERNEL_H

#include "tandem-c/Tandem.h"
#include <string>

/// A kernel of a package, and which of its images to run.
class PackedKernel {
public:
  /// The package's only kernel if `name` is empty. For target "cpu" `isa` is
  /// the instruction set of its code, or "native". Raises a ValueError where
  /// there is no such file, kernel or image.
  PackedKernel(const std::string &path, const std::string &name,
               std::string target, std::string isa);
  ~PackedKernel() { tdm_package_close(package); }
  PackedKernel(const PackedKernel &) = delete;
  PackedKernel &operator=(const PackedKernel &) = delete;

  const tdm_kernel_info &getInfo() const { return info; }
  /// The image for the target; null for the CPU, which gets its own.
  const tdm_image *getImage() const { return image; }

  /// The runtime's handle on a device, the CPU if it is null; the caller
  /// destroys it.
  tdm_kernel *create(const tdm_device *device) const;
  /// The compiler's handle, which the caller destroys before this.
  TandemKernel *open() const;

private:
  void find(const std::string &name);
  const tdm_image *findImage(const std::string &path) const;

  tdm_package *package = nullptr;
  tdm_kernel_info info = {};
  const tdm_image *image = nullptr;
  std::string target, isa;
};

#endif // TANDEM_PYTHON_PACKEDKERNEL_H
