//===- Storages.h - What a host can know of a storage -----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares descriptions of storages for hosts, which pass storages
// around as text, "#tandem.float<bf16>", and do not take it apart.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_STORAGES_H
#define TANDEM_TARGET_STORAGES_H

#include "tandem/Support/LLVM.h"
#include "tandem/Target/Compiler.h"

namespace tandem {

/// A storage's properties, and storages that are derived from it.
struct StorageDescription {
  /// The storage as MLIR prints it.
  std::string text;
  /// Its planes, whose names are suffixes: "", ".scale".
  std::vector<tdm_plane_desc> planes;
  DescriptionTexts texts;
  /// Whether elements are codes and not numbers that a framework computes with:
  /// they have no plane that shows their values, or fewer than 16 bits.
  bool isCoded = false;
  /// Whether it is one plane of floats.
  bool isPlain = false;
  /// Whether a kernel under the f32 policy can have it.
  bool hasF32Value = false;
  /// Whether codes are those of #scaled.dynamic, and their sign.
  std::optional<scaled::Signedness> dynamicCode;
  /// The consecutive elements that share a scale, if all there is are codes
  /// without a range and an f32 scale made from the largest magnitude of each
  /// group; otherwise 0.
  int64_t plainGroup = 0;
  /// The same codes under f32 scales that are given, where its own are f32,
  /// bf16 or f16; empty if it has none.
  std::string withGivenScales;
  /// The same storage without the planes that only the next store reads.
  std::string withoutHistory;
  /// The same storage without a transposed copy.
  std::string withoutTranspose;
};

/// Reads a storage.
llvm::Expected<StorageDescription> describeStorage(llvm::StringRef text);

/// One plane of floats: #tandem.float<format>.
llvm::Expected<StorageDescription> describeFloats(llvm::StringRef format);

/// The storage `codes` with a visible copy of its values in `format`, bf16 or
/// f16.
llvm::Expected<StorageDescription> describeWorking(llvm::StringRef format,
                                                   llvm::StringRef codes);

/// Codes of an 8-bit float under an f32 scale for the whole tensor, with a
/// transposed copy of the codes or without one.
llvm::Expected<StorageDescription> describeMatrixCodes(llvm::StringRef format,
                                                       bool isTransposed);

/// Floats of `format` (f32, bf16 or f16) that hold only the numbers of a float
/// with fewer bits, `number`: ExMy with x exponent and y mantissa bits, E8M3.
///
/// \param rounding how digits that the number lacks are dropped: toward_zero,
/// nearest or stochastic.
/// \param clamp which magnitudes beyond x exponent bits are clamped: those
/// above the largest number ("outside"), those below the smallest normal one
/// except zero ("inside"), "both" or "none". With 8 bits there are none.
llvm::Expected<StorageDescription> describeMasked(llvm::StringRef format,
                                                  llvm::StringRef number,
                                                  llvm::StringRef rounding,
                                                  llvm::StringRef clamp);

} // namespace tandem

#endif // TANDEM_TARGET_STORAGES_H
