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

/// Rounds f32 lanes to a format: to nearest, ties to even, with gradual
/// underflow and overflow to infinity (to NaN if the format has none). The
/// result is an f32 that the format represents. `cleanNaN` promises that a NaN
/// lane has zeros in the bits that bf16 drops; any operation on lanes keeps
/// that.
Value roundLanes(SequenceBuilder &b, Value lanes, FloatFormat format,
                 bool cleanNaN);

/// Returns the f32 values of codes of the format (integers of its width),
/// exactly.
Value decodeLanes(SequenceBuilder &b, Value code, FloatFormat format);

/// Returns the codes of f32 lanes that the format represents. The result is
/// exact, except that a NaN becomes the canonical one in formats other than
/// bf16.
Value encodeLanes(SequenceBuilder &b, Value lanes, FloatFormat format);

/// Converts f64 to f32, rounding to odd. A later rounding to at most 22 bits
/// then gives the correctly rounded f64 (Boldo and Melquiond 2008).
Value roundToOddF32(SequenceBuilder &b, Value wide);

/// Computes x * y + z of lanes with at most 22 significant bits, rounded to odd
/// in f32. The product is exact in f64; TwoSum finds the error of the f64 sum.
Value fmaToOddF32(SequenceBuilder &b, Value x, Value y, Value z);

/// A magnitude rounded to a format, in f32, and its code (i32), whose bits
/// above the format's are unspecified.
struct RoundedMagnitude {
  Value number, code;
};

/// Rounds an f32's magnitude bits to nearest, ties to even, by adding a power
/// of two so large that the sum keeps only the format's mantissa bits. The
/// format must have a mantissa and a `bias` of at most 127, and the sum must be
/// finite.
RoundedMagnitude roundByAnchor(SequenceBuilder &b, Value magnitude,
                               FloatFormat format);

/// Rounds an f32's magnitude bits, which are at most those of the power of two
/// after the format's largest number, and returns the code (i32). The code of a
/// number beyond the largest one lies beyond that one's, except with rounding
/// to nearest, where bits above the format's are unspecified. Ties go to the
/// even code. `random` is an i32 in [0, 2^16) if the mode draws bits. Without
/// `hasSubnormals` no magnitude lies between zero and the smallest normal
/// number, which takes fewer operations.
Value roundMagnitude(SequenceBuilder &b, Value magnitude, FloatFormat format,
                     RoundingMode rounding, Value random,
                     bool hasSubnormals = true);

/// Returns the f32 of a finite number's code without sign (i32). No operation
/// has a subnormal f32, which is slow on processors, unless the number is one.
Value unpackMagnitude(SequenceBuilder &b, Value code, FloatFormat format);

} // namespace tandem

#endif // TANDEM_DIALECT_ARITH_UTILS_FLOATEMULATION_H
