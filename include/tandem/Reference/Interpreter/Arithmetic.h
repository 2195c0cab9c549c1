//===- Arithmetic.h - Exact sequences ---------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the sequences of docs/Numerics.md over SoftFloat:
// error-free transforms, expansions, integer powers, and stochastic rounding.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_INTERPRETER_ARITHMETIC_H
#define TANDEM_REFERENCE_INTERPRETER_ARITHMETIC_H

#include "tandem/Reference/SoftFloat/SoftFloat.h"
#include "tandem/Support/FloatFormat.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <array>
#include <cstdint>

namespace tandem::reference {

//===----------------------------------------------------------------------===//
// Error-free transforms
//===----------------------------------------------------------------------===//

/// Two components in decreasing magnitude.
struct Pair {
  SoftFloat high, low;
};

/// These execute their sequences literally; fastTwoSum also if |a| < |b|.
Pair fastTwoSum(const SoftFloat &a, const SoftFloat &b);
Pair twoSum(const SoftFloat &a, const SoftFloat &b);
Pair twoProd(const SoftFloat &a, const SoftFloat &b);
Pair twoProdDekker(const SoftFloat &a, const SoftFloat &b);
/// Splits a significand into Veltkamp's halves.
Pair split(const SoftFloat &a);

//===----------------------------------------------------------------------===//
// Expansions of two or three components
//===----------------------------------------------------------------------===//

/// The components of an expansion; all have one format unless it is mixed.
using Components = llvm::SmallVector<SoftFloat, 3>;
using ComponentsRef = llvm::ArrayRef<SoftFloat>;

Components grow(ComponentsRef s, const SoftFloat &a);
/// Adds to an expansion of two components; the result has two as well.
Components kahan(ComponentsRef s, const SoftFloat &a);
Components scale(ComponentsRef s, const SoftFloat &v);
Components mul(ComponentsRef x, ComponentsRef y);
Components add(ComponentsRef x, ComponentsRef y);
Components sub(ComponentsRef x, ComponentsRef y);
Components div(ComponentsRef x, ComponentsRef y);
Components sqrt(ComponentsRef x);
/// Negates each component, also that of a mixed expansion as it is stored.
Components neg(ComponentsRef x);
Components renormalize(ComponentsRef x);
/// Compares lexicographically: the first components that differ decide.
Ordering compare(ComponentsRef x, ComponentsRef y);

/// Returns a wide value as components of a format. Each is the rounded
/// remainder of the previous ones, or +0 after one that is not finite.
Components toComponents(const SoftFloat &wide, Format format, unsigned count);
/// Returns the f32 sum of many numbers: a balanced binary tree, neighbours
/// first, padded to a power of two with -0.
SoftFloat sumTree(std::vector<SoftFloat> level);
/// Returns the sum in a wide format, from the smallest component up.
SoftFloat sumComponents(ComponentsRef components, Format wide);

/// Returns whether the trailing component has a different format from the
/// leading one.
bool isMixed(ComponentsRef components);
/// Returns a mixed expansion with both components in the leading format, or any
/// other expansion unchanged.
Components widenMixed(ComponentsRef stored);
/// Returns two components with the second as a mixed expansion stores it.
Components narrowMixed(ComponentsRef components, Format trailing);

//===----------------------------------------------------------------------===//
// Powers, and rounding by bits
//===----------------------------------------------------------------------===//

/// Computes base^exponent by square and multiply, lowest bit first.
SoftFloat power(const SoftFloat &base, int64_t exponent);

/// Computes Philox4x32-10 (Salmon et al. 2011).
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key);

/// Returns the 16 random bits of an element of an unsharded tensor.
uint16_t drawRandomBits(uint64_t seed, uint32_t tensorKey, uint32_t step,
                        uint64_t element);

/// Returns the 16 dithered bits of an element of an unsharded tensor, which is
/// number `number` of its graph or kernel.
uint16_t drawDitherBits(uint64_t seed, uint32_t tensorKey, uint32_t number,
                        uint32_t step, uint64_t element);

/// Returns the bits by which a number is rounded. Dithered bits are
/// complemented if it is negative.
uint16_t orientBits(RoundingMode rounding, const SoftFloat &x, uint16_t bits);

/// Returns whether a magnitude with the fraction f, in [0, 1), rounds up: the
/// sum of the bits and f * 2^16, which dither rounds to an integer and
/// stochastic rounding truncates, is at least 2^16.
bool roundsUp(const SoftFloat &fraction, RoundingMode rounding, uint16_t bits);

/// Rounds x to one of the two numbers around it. The bits are oriented.
SoftFloat roundByBits(const SoftFloat &x, Format format, RoundingMode rounding,
                      uint16_t bits);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_INTERPRETER_ARITHMETIC_H
