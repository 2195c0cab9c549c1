//===- Storages.h - Descriptions of storages --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares descriptions of storages for hosts, for which a storage is
// an opaque text such as "#tandem.float<bf16>".
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
  /// no plane shows their values, or the one that does has fewer than 16 bits.
  bool isCoded = false;
  /// Whether it is one plane of floats.
  bool isPlain = false;
  /// Whether a kernel under the f32 policy can use it.
  bool hasF32Value = false;
  /// The signedness of codes of #scaled.dynamic.
  std::optional<scaled::Signedness> dynamicCode;
  /// The number of consecutive elements that share a scale if the storage has
  /// only codes without a range and an f32 scale made from the largest
  /// magnitude of each group; otherwise 0.
  int64_t plainGroup = 0;
  /// The same codes under f32 scales that are given, if its own are f32, bf16
  /// or f16 and it has no transposed copy; otherwise empty.
  std::string withGivenScales;
  /// The same storage without the planes that only the next store reads.
  std::string withoutHistory;
  /// The same storage without a transposed copy.
  std::string withoutTranspose;
  /// The same storage, but one that rounds to nearest.
  std::string toNearest;
};

/// Parses and describes a storage.
llvm::Expected<StorageDescription> describeStorage(llvm::StringRef text);

/// Describes one plane of floats: #tandem.float<format>.
llvm::Expected<StorageDescription> describeFloats(llvm::StringRef format);

/// Describes the storage `codes` with a visible copy of its values in `format`,
/// bf16 or f16.
llvm::Expected<StorageDescription> describeWorking(llvm::StringRef format,
                                                   llvm::StringRef codes);

/// Describes a storage for sums of gradients over backward passes, with f32
/// values: "f32", "bf16x2" or "bf16+i8".
llvm::Expected<StorageDescription> describeSums(llvm::StringRef format);

/// Describes codes of an 8-bit float under an f32 scale for the whole tensor,
/// with a transposed copy of the codes or without one.
llvm::Expected<StorageDescription> describeMatrixCodes(llvm::StringRef format,
                                                       bool isTransposed);

/// Describes floats of `format` (f32, bf16 or f16) that hold only the numbers
/// of a float with fewer bits, `number`: ExMy with x exponent and y mantissa
/// bits, E8M3.
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
