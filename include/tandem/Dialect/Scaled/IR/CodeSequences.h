//===- CodeSequences.h - Sequences that codes share -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares sequences that the codes of the scaled dialect share.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCALED_IR_CODESEQUENCES_H
#define TANDEM_DIALECT_SCALED_IR_CODESEQUENCES_H

#include "tandem/Support/FloatEmulation.h"

namespace mlir::scaled {

/// The bits of |y|, at most those of `largest`, also where y is not a number.
Value clampMagnitude(tandem::SequenceBuilder &b, Value y, double largest);

/// The bits of y in the format, as i32: `code`, of its magnitude in the bits
/// that the format has for it, with y's sign, or what stands for a y that was
/// not finite before it was scaled.
Value encodeFloat(tandem::SequenceBuilder &b, Value y, Value isFinite,
                  Value code, tandem::FloatFormat format);

/// The f32 of a float's bits, an integer of its width or a wider one.
Value decodeFloat(tandem::SequenceBuilder &b, Value code,
                  tandem::FloatFormat format);

} // namespace mlir::scaled

#endif // TANDEM_DIALECT_SCALED_IR_CODESEQUENCES_H
