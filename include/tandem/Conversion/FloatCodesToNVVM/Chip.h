//===- Chip.h - NVIDIA chips ------------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the features that distinguish NVIDIA chips.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_FLOATCODESTONVVM_CHIP_H
#define TANDEM_CONVERSION_FLOATCODESTONVVM_CHIP_H

#include "llvm/ADT/StringRef.h"
#include <optional>

namespace tandem {

/// An NVIDIA chip, given by its compute capability: 90 for sm_90 and sm_90a.
struct Chip {
  unsigned version;

  /// Returns the chip with a name like sm_90a, or none if it is not such a
  /// name.
  static std::optional<Chip> parse(llvm::StringRef name);

  /// Returns whether the chip has instructions that add and multiply bf16.
  bool hasBF16Arithmetic() const { return version >= 90; }
  /// Returns whether the chip has instructions that convert 8-bit floats.
  bool hasFloat8Conversions() const { return version >= 89; }
};

} // namespace tandem

#endif // TANDEM_CONVERSION_FLOATCODESTONVVM_CHIP_H
