//===- SmallFloat.h - Small floats in the lanes of f64 ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the oracle of tandem-verify: numbers of small formats as
// doubles, many at a time. It is written from docs/Numerics.md and shares no
// code with the compiler. The parts "oracle-..." compare it with SoftFloat.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_VERIFY_SMALLFLOAT_H
#define TANDEM_VERIFY_SMALLFLOAT_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tandem::verify {

#define TANDEM_LANES inline __attribute__((always_inline))

constexpr size_t numLanes = 8;
typedef double Reals __attribute__((vector_size(64)));
typedef uint64_t Words __attribute__((vector_size(64)));
/// The result of a comparison: 0 or -1 in each lane.
typedef int64_t Mask __attribute__((vector_size(64)));

constexpr double powerOfTwo(int exponent) {
  return __builtin_bit_cast(double, uint64_t(exponent + 1023) << 52);
}
constexpr uint64_t signBit = uint64_t(1) << 63;
constexpr double infinity = std::numeric_limits<double>::infinity();

TANDEM_LANES Reals splat(double x) { return Reals{} + x; }
TANDEM_LANES Words splatWord(uint64_t x) { return Words{} + x; }
TANDEM_LANES Reals magnitude(Reals x) { return (Reals)((Words)x & ~signBit); }
TANDEM_LANES Mask isNaN(Reals x) {
  return (Mask)((Words)x & ~signBit) > (Mask)splatWord(0x7FF0000000000000);
}
TANDEM_LANES Mask isFinite(Reals x) { return magnitude(x) < infinity; }
TANDEM_LANES Reals select(Mask mask, Reals a, Reals b) { return mask ? a : b; }
TANDEM_LANES Words select(Mask mask, Words a, Words b) { return mask ? a : b; }

/// The sum of two doubles and its rounding error.
struct ExactSum {
  Reals sum, error;
};
TANDEM_LANES ExactSum addExactly(Reals a, Reals b) {
  Reals sum = a + b, second = sum - a;
  return {sum, (a - (sum - second)) + (b - second)};
}

/// Returns a sum rounded to odd: the last bit is set if the sum is inexact, so
/// that another rounding is that of the exact sum.
TANDEM_LANES Reals addToOdd(Reals a, Reals b) {
  ExactSum exact = addExactly(a, b);
  Mask isInexact = (exact.error > 0) | (exact.error < 0);
  Mask isEven = ((Mask)exact.sum & 1) == 0;
  Mask isAway = (exact.error > 0) == (exact.sum > 0);
  Words step = select(isAway, splatWord(1), splatWord(-1));
  return (Reals)((Words)exact.sum + (step & (Words)(isInexact & isEven)));
}

/// Loads codes from memory into lanes. storeCodes does the reverse.
template <typename Code>
TANDEM_LANES Words loadCodes(const Code *from) {
  typedef Code Vector __attribute__((vector_size(numLanes * sizeof(Code))));
  Vector codes;
  std::memcpy(&codes, from, sizeof(codes));
  return __builtin_convertvector(codes, Words);
}
template <typename Code>
TANDEM_LANES void storeCodes(Code *to, Words lanes) {
  typedef Code Vector __attribute__((vector_size(numLanes * sizeof(Code))));
  Vector codes = __builtin_convertvector(lanes, Vector);
  std::memcpy(to, &codes, sizeof(codes));
}
TANDEM_LANES Reals loadReals(const double *from) {
  Reals lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}
TANDEM_LANES void storeReals(double *to, Reals lanes) {
  std::memcpy(to, &lanes, sizeof(lanes));
}

/// Calls `body` with the first index of every group of lanes. The last group
/// may be partial, for which arrays have room.
template <typename Body>
void forLanes(size_t size, const Body &body) {
  for (size_t i = 0; i < size; i += numLanes)
    body(i);
}

/// A format with at most 11 bits of precision. It is an IEEE format, or has one
/// NaN for each sign and no infinity.
template <int ExponentBits, int MantissaBits, bool IsIEEE = true>
struct SmallFloat {
  static constexpr int width = 1 + ExponentBits + MantissaBits;
  static constexpr int precision = MantissaBits + 1;
  static constexpr int bias = (1 << (ExponentBits - 1)) - 1;
  static constexpr int minExponent = 1 - bias;
  static constexpr int maxExponent = IsIEEE ? bias : bias + 1;
  static constexpr double largest =
      (2 - (IsIEEE ? 1 : 2) * powerOfTwo(-MantissaBits)) *
      powerOfTwo(maxExponent);
  static constexpr double minNormal = powerOfTwo(minExponent);
  static constexpr uint64_t nanCode = (uint64_t(1) << (width - 1)) - 1;
  static constexpr uint64_t infinityCode =
      IsIEEE ? ((uint64_t(1) << ExponentBits) - 1) << MantissaBits : nanCode;
  /// The value that numbers beyond the largest round to.
  static constexpr double beyond =
      IsIEEE ? infinity : std::numeric_limits<double>::quiet_NaN();

  /// Returns the power of two whose exponent determines the ulp: floor(log2
  /// |x|), but at least the smallest exponent of the format.
  static TANDEM_LANES Reals binade(Reals x) {
    Reals a = magnitude(x);
    a = select(a < minNormal, splat(minNormal), a);
    a = select(a > powerOfTwo(maxExponent), splat(powerOfTwo(maxExponent)), a);
    return (Reals)((Words)a & ~((uint64_t(1) << 52) - 1));
  }

  /// Rounds to nearest, ties to even. Next to 1.5 * 2^52 ulps a double has no
  /// bits below an ulp, so that its own rounding is that of the format.
  static TANDEM_LANES Reals round(Reals x) {
    Words sign = (Words)x & signBit;
    Reals a = magnitude(x);
    Reals anchor = binade(x) * (1.5 * powerOfTwo(52 - MantissaBits));
    Reals rounded = (a + anchor) - anchor;
    rounded = select(rounded > largest, splat(beyond), rounded);
    return (Reals)((Words)rounded | sign);
  }

  static TANDEM_LANES Words encode(Reals x) {
    Reals a = magnitude(x);
    Words normal = ((Words)a >> (52 - MantissaBits)) -
                   (uint64_t(1023 - bias) << MantissaBits);
    // The low bits hold a subnormal number in ulps.
    Words small = (Words)(a + powerOfTwo(minExponent - MantissaBits + 52)) &
                  ((uint64_t(1) << 52) - 1);
    Words code = select(a < minNormal, small, normal);
    code = select(a > largest, splatWord(infinityCode), code);
    code |= ((Words)x >> 63) << (width - 1);
    return select(isNaN(x), splatWord(nanCode), code);
  }

  static TANDEM_LANES Reals decode(Words code) {
    Words rest = code & ((uint64_t(1) << (width - 1)) - 1);
    Words normal =
        (rest << (52 - MantissaBits)) + (uint64_t(1023 - bias) << 52);
    Reals small = (Reals)(rest | 0x4330000000000000) - 0x1p52;
    small *= powerOfTwo(minExponent - MantissaBits);
    Mask isSmall = (Mask)rest < (int64_t(1) << MantissaBits);
    Reals a = select(isSmall, small, (Reals)normal);
    Mask isSpecial = (Mask)rest >= int64_t(infinityCode);
    Mask isInfinite = (Mask)rest == int64_t(infinityCode);
    a = select(isSpecial, splat(std::numeric_limits<double>::quiet_NaN()), a);
    a = IsIEEE ? select(isInfinite, splat(infinity), a) : a;
    return (Reals)((Words)a | (code >> (width - 1)) << 63);
  }

  // Doubles have 53 >= 2p + 2 bits, so that rounding their results to the
  // format gives the same as rounding the exact results.
  static TANDEM_LANES Reals add(Reals a, Reals b) { return round(a + b); }
  static TANDEM_LANES Reals sub(Reals a, Reals b) { return round(a - b); }
  static TANDEM_LANES Reals mul(Reals a, Reals b) { return round(a * b); }
  static TANDEM_LANES Reals div(Reals a, Reals b) { return round(a / b); }
  static TANDEM_LANES Reals sqrt(Reals a) {
    Reals root;
    for (size_t lane = 0; lane < numLanes; ++lane)
      root[lane] = __builtin_sqrt(a[lane]);
    return round(root);
  }

  static TANDEM_LANES Reals fma(Reals a, Reals b, Reals c) {
    return round(addToOdd(a * b, c));
  }
};

using BF16 = SmallFloat<8, 7>;
using F16 = SmallFloat<5, 10>;
using E4M3 = SmallFloat<4, 3, false>;
using E5M2 = SmallFloat<5, 2>;

} // namespace tandem::verify

#endif // TANDEM_VERIFY_SMALLFLOAT_H
