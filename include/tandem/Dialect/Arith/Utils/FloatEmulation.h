//===- FloatEmulation.h - Small floats in f32 lanes -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the exact sequences that compute small float formats in
// f32: rounding, decoding, encoding, fused multiply-add.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_ARITH_UTILS_FLOATEMULATION_H
#define TANDEM_DIALECT_ARITH_UTILS_FLOATEMULATION_H

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Rounds f32 lanes to a format: nearest, ties to even, gradual underflow,
/// overflow to infinity (to NaN where the format has none). The result is an
/// f32 that the format represents. `cleanNaN` promises that a NaN lane has
/// zeros in the bits that bf16 drops; any operation on lanes keeps that.
Value roundLanes(SequenceBuilder &b, Value lanes, FloatFormat format,
                 bool cleanNaN);

/// The f32 value of a code of the format (an integer of its width). Exact.
Value decodeLanes(SequenceBuilder &b, Value code, FloatFormat format);

/// Returns the codes of f32 lanes that the format represents. Exact, except
/// that a NaN becomes the canonical one in formats other than bf16.
Value encodeLanes(SequenceBuilder &b, Value lanes, FloatFormat format);

/// f64 to f32, rounding to odd: a later rounding to at most 22 bits is then
/// the rounding of the f64 (Boldo and Melquiond 2008).
Value roundToOddF32(SequenceBuilder &b, Value wide);

/// x * y + z of lanes with at most 22 significant bits, rounded to odd in f32.
/// The product is exact in f64; TwoSum finds the error of the f64 sum.
Value fmaToOddF32(SequenceBuilder &b, Value x, Value y, Value z);

/// A magnitude that was rounded to a format, in f32, and its code (i32), whose
/// bits above the format's mean nothing.
struct RoundedMagnitude {
  Value number, code;
};

/// Rounds an f32's magnitude bits to nearest, ties to even, by adding 2^n: the
/// sum keeps only the format's mantissa bits. There is a mantissa, `bias` is at
/// most 127, and the number by 2^23 is an f32.
RoundedMagnitude roundByAnchor(SequenceBuilder &b, Value magnitude,
                               FloatFormat format);

/// The code (i32) of an f32's magnitude bits, which are at most those of the
/// power of two after the format's largest number, rounded to a format; that of
/// a number beyond the largest lies beyond, unless rounding is to nearest,
/// where bits above the format's mean nothing. Ties go to the even code.
/// `random` is an i32 in [0, 2^16) where the mode draws bits.
Value roundMagnitude(SequenceBuilder &b, Value magnitude, FloatFormat format,
                     RoundingMode rounding, Value random);

/// The f32 of a finite number's code without sign (i32). No operation meets a
/// subnormal f32, which processors are slow with, unless the number is one.
Value unpackMagnitude(SequenceBuilder &b, Value code, FloatFormat format);

} // namespace tandem

#endif // TANDEM_DIALECT_ARITH_UTILS_FLOATEMULATION_H
