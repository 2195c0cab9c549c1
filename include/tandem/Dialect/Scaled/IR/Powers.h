//===- Powers.h - Logarithm and power of two --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares f32 sequences for log2 and exp2: additions, products,
// fused multiply-adds and integer operations, the same on every target.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_SCALED_IR_POWERS_H
#define TANDEM_DIALECT_SCALED_IR_POWERS_H

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Support/LLVM.h"

namespace tandem::scaled {

/// Builds log2 of a positive normal f32. Zero gives -127; subnormal numbers
/// give some value of at most -126.
///
///   e = (bits(x) - bits(sqrt(1/2))) >> 23;  m = x * 2^-e;  f = m - 1
///   log2(x) = RN(e + RN(f * P(f))), P of degree 8 by Horner's rule with fma.
Value buildLog2(tandem::SequenceBuilder &b, Value x);

/// Computes log2(x) of a constant in the same way.
double foldLog2(float x);

/// Builds 2^x for x up to 126. Values less than -100, and NaN, count as -100.
///
///   n = the integer nearest to x, ties to even;  f = x - n
///   2^x = 2^n * Q(f), Q of degree 6 by Horner's rule with fma.
Value buildExp2(tandem::SequenceBuilder &b, Value x);

} // namespace tandem::scaled

#endif // TANDEM_DIALECT_SCALED_IR_POWERS_H
