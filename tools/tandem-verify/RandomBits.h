//===- RandomBits.h - The bits by which values are rounded ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the random bits of the elements of a launch, and rounding
// by them. It is written from docs/Numerics.md, section 6, and shares no code
// with the compiler.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_VERIFY_RANDOMBITS_H
#define TANDEM_VERIFY_RANDOMBITS_H

#include "FloatLanes.h"

namespace tandem::verify {

enum class Rounding { Nearest, Stochastic, Dither };

/// Returns the parameter of a storage: "", "stochastic" or "dither".
llvm::StringRef getName(Rounding rounding);

/// Writes the random bits of each element of a block to `bits`. `tensor` is the
/// tensor's number in its graph; the number of the first element is a multiple
/// of 8.
void drawBits(Rounding rounding, const Draw &draw, uint32_t tensor,
              uint16_t *bits);

/// Returns RN32 of numbers that are exact in f64, or whose rounding to f64 does
/// not change their rounding to f32.
TANDEM_LANES Reals toFloat(Reals x) {
  return __builtin_convertvector(__builtin_convertvector(x, Floats), Reals);
}

/// Rounds the magnitude of a level, an f32 below 2^15, to an integer.
template <Rounding rounding>
TANDEM_LANES Words roundLevel(Reals level, Words bits) {
  Reals a = magnitude(level);
  // Near 2^52 the ulp of f64 is 1, and ties go to the even number.
  if constexpr (rounding == Rounding::Nearest)
    return (Words)(a + 0x1p52) & ((uint64_t(1) << 52) - 1);
  if constexpr (rounding == Rounding::Dither)
    bits = select((Mask)(Words)level < 0, 0xFFFF - bits, bits);
  typedef int32_t Integers __attribute__((vector_size(32)));
  Reals u = toFloat(addToOdd(a * 0x1p16, splat(0.5)));
  Integers whole = __builtin_convertvector(u, Integers);
  return (__builtin_convertvector(whole, Words) + bits) >> 16;
}

/// Calls `body` with the rounding as a constant.
template <typename Body>
void selectRounding(Rounding rounding, const Body &body) {
  using R = Rounding;
  switch (rounding) {
  case R::Nearest:
    return body(std::integral_constant<R, R::Nearest>());
  case R::Stochastic:
    return body(std::integral_constant<R, R::Stochastic>());
  case R::Dither:
    return body(std::integral_constant<R, R::Dither>());
  }
}

} // namespace tandem::verify

#endif // TANDEM_VERIFY_RANDOMBITS_H
