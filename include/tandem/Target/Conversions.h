//===- Conversions.h - From one storage to another --------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the compilation of kernels that have no graph: conversions
// of stored values, sums of codes, checks of gradients. Storages are given as
// MLIR spells them, "#tandem.float<bf16>".
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_CONVERSIONS_H
#define TANDEM_TARGET_CONVERSIONS_H

#include "tandem/Support/LLVM.h"
#include "tandem/Target/Compiler.h"

namespace tandem {

struct ConversionOptions {
  /// The storages to convert from and to.
  std::string source, target;
  /// Whether the value is added, in f32, to the one that the target has.
  bool adds = false;
  /// Whether targets are new. If so, scales that would be given are computed
  /// from the values, and histories begin with them.
  bool isFresh = true;
  /// Whether tensors are matrices, whose groups begin anew in each row.
  bool isMatrix = false;
  /// Whether targets are second moments, in which a positive value must not
  /// become zero.
  bool hasFloor = false;
  /// "cpu" or an NVIDIA chip such as "sm_90".
  std::string chip = "cpu";
};

/// A compiled conversion of tensors.
struct CompiledConversion {
  /// The kernel, which takes the target's planes and then the source's. It
  /// takes matrices as flat tensors if all elements are alike, even if
  /// `isMatrix`. It is null if planes are copied bit for bit, each to the
  /// target's plane of the same number.
  std::unique_ptr<CompiledKernel> kernel;
  /// The numbers of planes of the target and of the source, from the first one,
  /// that the kernel takes. The target's other planes become zero, as do those
  /// of a copy that the source has no plane for.
  unsigned numWritten = 0, numRead = 0;
  /// The number of times that the kernel runs. If it runs more than once,
  /// persistent planes must be zero before: the first run only finds how large
  /// a scale has to be.
  unsigned numLaunches = 1;
};

/// Compiles a conversion. It rounds to nearest, also if the target's storage
/// rounds otherwise, because there is no step whose number random bits could
/// depend on. Sums of planes carry over exactly as far as the target has
/// planes; otherwise the value is the f32 that docs/Numerics.md decodes.
llvm::Expected<CompiledConversion>
compileConversion(const ConversionOptions &options);

/// Compiles a kernel that takes the planes of a target and then those of each
/// source, adds up the sources' values in f32 in their order, and encodes the
/// sum in the target. Its first metric counts the codes that have become the
/// largest number. The target is rounded to nearest.
llvm::Expected<std::unique_ptr<CompiledKernel>>
compileSum(llvm::ArrayRef<std::string> sources, llvm::StringRef target,
           llvm::StringRef chip);

/// Returns the planes of a kernel's gradients that can hold NaN or infinity,
/// which are planes of floats with an entry for each element.
std::vector<unsigned> getCheckedPlanes(const tdm_kernel_info &info);

/// Compiles a kernel for the same target that takes these planes of the flat
/// tensors of `kernel`, and only raises the flag of a gradient that is not
/// finite.
llvm::Expected<std::unique_ptr<CompiledKernel>>
compileFiniteCheck(const CompiledKernel &kernel);

} // namespace tandem

#endif // TANDEM_TARGET_CONVERSIONS_H
