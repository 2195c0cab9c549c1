//===- Package.h - Packages of kernels --------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the writing of packages, which the runtime reads, and
// kernels that come from one.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_PACKAGE_H
#define TANDEM_TARGET_PACKAGE_H

#include "tandem/Support/LLVM.h"
#include "tandem/Target/Compiler.h"

namespace tandem {

/// A kernel of a package.
struct PackageEntry {
  /// The name by which hosts find the kernel.
  std::string name;
  const CompiledKernel *kernel;
};

/// Returns the bytes of a package of kernels, with an image of each for every
/// target. A target is an instruction set ("x86-64-v3"), a chip ("sm_90", as
/// PTX), or a chip's machine code ("cubin:sm_90", by ptxas; "cubin-O0:sm_90"
/// without optimization). Without targets the package has images for x86-64,
/// x86-64-v3, x86-64-v4, aarch64 and the chips that the kernels were compiled
/// for.
llvm::Expected<std::string> writePackage(ArrayRef<PackageEntry> entries,
                                         ArrayRef<std::string> targets);

/// Returns the bytes of a package of one kernel, under its graph's name, with
/// an image that has been compiled already.
std::string writePackage(const CompiledKernel &kernel, const Image &image);

/// Writes the same to a file, which appears completely or not at all.
llvm::Error savePackage(ArrayRef<PackageEntry> entries,
                        ArrayRef<std::string> targets, StringRef path);

/// Opens the kernel `name` of a package, or its only kernel if `name` is empty.
/// For the target "cpu", `isa` is the instruction set of the code, and "native"
/// the best one that the package has for this machine. For another target the
/// kernel has its image.
llvm::Expected<std::unique_ptr<CompiledKernel>>
loadKernel(StringRef path, StringRef name = "", StringRef target = "cpu",
           StringRef isa = "native");
/// Opens a kernel of a package that has been read; messages call it `path`.
llvm::Expected<std::unique_ptr<CompiledKernel>>
loadKernel(std::shared_ptr<const tdm_package> package, StringRef path,
           StringRef name, StringRef target, StringRef isa);

} // namespace tandem

#endif // TANDEM_TARGET_PACKAGE_H
