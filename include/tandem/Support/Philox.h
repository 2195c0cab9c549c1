//===- Philox.h - Counter-based random bits ---------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the Philox4x32-10 sequence in arith.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_PHILOX_H
#define TANDEM_SUPPORT_PHILOX_H

#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/SequenceBuilder.h"

namespace mlir::tandem {

/// The 16 random bits of an element, zero-extended to i32: half-word
/// `element mod 8` (low half first) of Philox4x32-10 with key = seed and
/// counter = (element div 8 as 64 bits, tensor key, step). Salmon et al., SC
/// 2011.
Value buildRandomBits(SequenceBuilder &b, RandomBitsOp op);

} // namespace mlir::tandem

#endif // TANDEM_SUPPORT_PHILOX_H
