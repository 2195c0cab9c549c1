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

#include "tandem/Dialect/Arith/Utils/FloatEmulation.h"
#include "tandem/Support/LLVM.h"

namespace tandem::scaled {

/// Returns the bits of |y|, clamped to those of `largest`, also if y is NaN.
Value clampMagnitude(tandem::SequenceBuilder &b, Value y, double largest);

/// Returns y, or `smallest` if y is less and its value is positive.
/// `isPositive` is an i1, or null if nothing is to be raised.
Value raiseToSmallest(tandem::SequenceBuilder &b, Value y, Value isPositive,
                      float smallest);

/// Does the same for an f32 that is stored in a format without a scale.
Value raiseToSmallest(tandem::SequenceBuilder &b, Value x, Type format);

/// Returns the bits by which y is rounded by dither or stochastically. Dithered
/// bits are complemented if y is negative, so that the same bits send both
/// signs towards positive infinity.
Value orientBits(tandem::SequenceBuilder &b, Value y, Value random,
                 tandem::RoundingMode rounding);

/// Rounds a level in [0, 2^15) to one of the two integers around it, an i32:
/// the next one if the level's fraction times 2^16, rounded, and the bits add
/// up to at least 2^16.
Value roundLevel(tandem::SequenceBuilder &b, Value level, Value random);

/// Returns the bits that `roundSignedLevel` adds to a level with y's sign.
Value orientSignedBits(tandem::SequenceBuilder &b, Value y, Value random,
                       tandem::RoundingMode rounding);

/// Returns the integer nearest to a level of less than 2^22, as i32. Ties go to
/// the even integer.
Value roundSigned(tandem::SequenceBuilder &b, Value level);

/// Returns, as i32 and with the sign of y, an integer next to a level in
/// [0, 2^15): the nearest one, or the one that `roundLevel` chooses by the bits
/// that `orientBits` returns.
Value roundSignedLevel(tandem::SequenceBuilder &b, Value y, Value level,
                       Value random, tandem::RoundingMode rounding);

/// Returns the quotient of an integer by 127, 254 or 32767, rounded once, times
/// `unit`, a power of two. The integer's magnitude is at most the divisor.
/// `number` is an f32; the quotient of zero is +0.
Value divideInteger(tandem::SequenceBuilder &b, Value number, double divisor,
                    double unit = 1.0);

/// Returns the bits of y in the format, as i32: those of its magnitude, which
/// are the low bits of `code`, with y's sign. A y that was not finite before it
/// was scaled becomes NaN or infinity, as far as the format has them.
Value encodeFloat(tandem::SequenceBuilder &b, Value y, Value isFinite,
                  Value code, tandem::FloatFormat format);

/// Returns the f32 of a code of f8E4M3FN, f8E5M2 or f16, which each target
/// converts in its own way.
Value convertFromCode(tandem::SequenceBuilder &b, Value code, Type format);

/// Returns the f32 of a float's bits, an integer of its width or a wider one.
Value decodeFloat(tandem::SequenceBuilder &b, Value code,
                  tandem::FloatFormat format);

} // namespace tandem::scaled

#endif // TANDEM_DIALECT_SCALED_IR_CODESEQUENCES_H
