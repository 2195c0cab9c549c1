//===- Chip.cpp - NVIDIA chips --------------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parsing of chip names.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/FloatCodesToNVVM/Chip.h"

using namespace tandem;

std::optional<Chip> Chip::parse(llvm::StringRef name) {
  unsigned version;
  if (!name.consume_front("sm_") || name.consumeInteger(10, version))
    return std::nullopt;
  return Chip{version};
}
