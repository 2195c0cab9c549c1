//===- SumErrorTest.cpp - Errors of sums are exact ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file proves, over all pairs of numbers, that the error of a Fast2Sum
// needs no rounding, so that -tandem-emulate-floats can omit it.
//
//===----------------------------------------------------------------------===//

#include "llvm/ADT/bit.h"
#include "gtest/gtest.h"
#include <vector>

namespace {
/// A small format given by its fields; its numbers are stored in f32.
template <unsigned ExponentBits, unsigned MantissaBits, bool HasInfinity>
struct Format {
  static constexpr unsigned width = 1 + ExponentBits + MantissaBits;
  static constexpr unsigned dropped = 23 - MantissaBits;
  static constexpr int bias = (1 << (ExponentBits - 1)) - 1;
  static constexpr uint32_t minNormal = uint32_t(128 - bias) << 23;
  static constexpr uint32_t infinity = 0x7F800000;
  static constexpr uint32_t nan = 0x7FC00000;
  /// The f32 bits of the largest number.
  static constexpr uint32_t largest =
      (((1u << (width - 1)) - (HasInfinity ? (1u << MantissaBits) + 1 : 2))
       << dropped) +
      (uint32_t(127 - bias) << 23);

  /// Rounds to nearest, ties to even, with subnormals.
  static float round(float x) {
    uint32_t bits = llvm::bit_cast<uint32_t>(x);
    uint32_t magnitude = bits & 0x7FFFFFFF;
    uint32_t half = (1u << (dropped - 1)) - 1;
    uint32_t rounded = (magnitude + half + ((magnitude >> dropped) & 1)) &
                       ~((1u << dropped) - 1);
    if constexpr (ExponentBits < 8) {
      // Adding 2^23 quanta leaves a whole number of quanta.
      float anchor = llvm::bit_cast<float>(minNormal + (dropped << 23));
      float whole = (llvm::bit_cast<float>(magnitude) + anchor) - anchor;
      rounded =
          magnitude < minNormal ? llvm::bit_cast<uint32_t>(whole) : rounded;
    }
    rounded = rounded > largest ? (HasInfinity ? infinity : nan) : rounded;
    rounded = magnitude > infinity ? nan : rounded;
    return llvm::bit_cast<float>(rounded | (bits & 0x80000000));
  }

  /// Returns the values of all codes, with a single NaN.
  static std::vector<float> values() {
    std::vector<float> result;
    float scale = llvm::bit_cast<float>(uint32_t(127 + 127 - bias) << 23);
    for (uint32_t code = 0; code < 1u << width; ++code) {
      uint32_t magnitude = code & ((1u << (width - 1)) - 1);
      uint32_t bits = magnitude << dropped;
      if constexpr (ExponentBits < 8)
        bits = llvm::bit_cast<uint32_t>(llvm::bit_cast<float>(bits) * scale);
      if (bits > largest)
        bits = HasInfinity && !(magnitude & ((1u << MantissaBits) - 1))
                   ? infinity
                   : nan;
      bits |= (code >> (width - 1)) << 31;
      result.push_back(llvm::bit_cast<float>(bits));
    }
    return result;
  }
};
using BF16 = Format<8, 7, true>;
using F16 = Format<5, 10, true>;
using E4M3 = Format<4, 3, false>;
using E5M2 = Format<5, 2, true>;
} // namespace

/// Returns the part of fl(a + b) that comes from b, in f32.
template <typename F>
static float partOf(float a, float b) {
  return F::round(a + b) - a;
}

template <typename F>
static float errorOf(float a, float b) {
  return b - F::round(partOf<F>(a, b));
}

/// Counts the pairs (a, b) for which `compute` gives no number of the format.
template <typename F, float (*compute)(float, float)>
static uint64_t countInexact() {
  std::vector<float> values = F::values();
  uint64_t count = 0;
  // Negating both numbers negates all intermediate results.
  for (size_t i = 0; i < values.size() / 2; ++i) {
    float a = values[i];
    uint32_t here = 0;
    for (float b : values) {
      float result = compute(a, b);
      here += llvm::bit_cast<uint32_t>(result) !=
              llvm::bit_cast<uint32_t>(F::round(result));
    }
    count += here;
  }
  return count;
}

template <typename F>
static uint64_t countInexactErrors() {
  return countInexact<F, errorOf<F>>();
}

TEST(SumError, BF16) { EXPECT_EQ(countInexactErrors<BF16>(), 0u); }
TEST(SumError, F16) { EXPECT_EQ(countInexactErrors<F16>(), 0u); }
TEST(SumError, E4M3) { EXPECT_EQ(countInexactErrors<E4M3>(), 0u); }
TEST(SumError, E5M2) { EXPECT_EQ(countInexactErrors<E5M2>(), 0u); }

/// The rounding before the error does change numbers.
TEST(SumError, PartIsRounded) {
  EXPECT_GT((countInexact<E4M3, partOf<E4M3>>()), 0u);
  EXPECT_GT((countInexact<E5M2, partOf<E5M2>>()), 0u);
}
