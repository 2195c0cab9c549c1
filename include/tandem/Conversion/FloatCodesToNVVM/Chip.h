//===- Chip.h - NVIDIA chips ------------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what chips of NVIDIA differ in.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_FLOATCODESTONVVM_CHIP_H
#define TANDEM_CONVERSION_FLOATCODESTONVVM_CHIP_H

#include "llvm/ADT/StringRef.h"
#include <optional>

namespace tandem {

/// An NVIDIA chip by its compute capability: 90 of sm_90 and sm_90a.
struct Chip {
  unsigned version;

  /// The chip of a name like sm_90a.
  static std::optional<Chip> parse(llvm::StringRef name);

  /// Whether bf16 is added and multiplied by instructions of its own.
  bool hasBF16Arithmetic() const { return version >= 90; }
  /// Whether 8-bit floats are converted to and from by instructions.
  bool hasFloat8Conversions() const { return version >= 89; }
};

} // namespace tandem

#endif // TANDEM_CONVERSION_FLOATCODESTONVVM_CHIP_H
