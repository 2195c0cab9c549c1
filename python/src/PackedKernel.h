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

/// A kernel of a package, and the image to run.
class PackedKernel {
public:
  /// Reads the kernel `name`, or the only one if it is empty. For target "cpu",
  /// `isa` is the instruction set of its code, or "native". Raises a ValueError
  /// if there is no such file, kernel or image.
  PackedKernel(const std::string &path, const std::string &name,
               std::string target, std::string isa);
  ~PackedKernel() { tdm_package_close(package); }
  PackedKernel(const PackedKernel &) = delete;
  PackedKernel &operator=(const PackedKernel &) = delete;

  const tdm_kernel_info &getInfo() const { return info; }
  /// Returns the image for the target; null for the CPU, whose image the
  /// runtime chooses.
  const tdm_image *getImage() const { return image; }

  /// Creates the runtime's handle on a device, or on the CPU if it is null. The
  /// caller destroys it.
  tdm_kernel *create(const tdm_device *device) const;
  /// Opens the compiler's handle, which the caller must destroy before this
  /// object.
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
