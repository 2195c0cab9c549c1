//===- SoftFloatTest.cpp - Tests of the reference arithmetic --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests SoftFloat exhaustively for the 8-bit formats against exact
// rational evaluation, and for f32 and f64 against the host's correctly rounded
// arithmetic.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/SoftFloat/SoftFloat.h"

#include "llvm/ADT/bit.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace tandem::reference;

namespace {

using Wide = __int128;

/// An 8-bit format as a table of exact magnitudes in units of 2^-17. The last
/// entry is the value that would follow the format's largest one.
struct Table {
  Format format;
  int mantissaBits;
  int bias;
  unsigned finiteCodes;
  bool hasInf;

  /// Returns the magnitude of a code in units of 2^-17, by definition.
  Wide magnitude(unsigned code) const {
    int exponent = code >> mantissaBits;
    Wide mantissa = code & ((1u << mantissaBits) - 1);
    if (exponent)
      mantissa |= Wide(1) << mantissaBits;
    int shift = std::max(exponent, 1) - bias - mantissaBits + 17;
    return mantissa << shift;
  }

  bool isFinite(unsigned code) const { return (code & 0x7F) < finiteCodes; }

  Wide value(unsigned code) const {
    Wide result = magnitude(code & 0x7F);
    return code & 0x80 ? -result : result;
  }

  /// Rounds a magnitude that is given by its comparisons with half units.
  template <typename Compare>
  unsigned round(bool negative, Compare compareToHalfUnits) const {
    unsigned low = 0, high = finiteCodes;
    while (low < high) { // the first code whose upper midpoint is not below
      unsigned middle = (low + high) / 2;
      Wide midpoint = magnitude(middle) + magnitude(middle + 1);
      int order = compareToHalfUnits(midpoint);
      bool above = order > 0 || (order == 0 && (middle & 1));
      if (above)
        low = middle + 1;
      else
        high = middle;
    }
    if (low >= finiteCodes)
      return hasInf ? (0x7C | (negative ? 0x80 : 0)) : 0x7F;
    return low | (negative ? 0x80 : 0);
  }
};

const Table kTables[] = {{Format::F8E4M3FN, 3, 7, 0x7F, false},
                         {Format::F8E5M2, 2, 15, 0x7C, true}};

int sign(Wide value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }
Wide magnitudeOf(Wide value) { return value < 0 ? -value : value; }

class EightBit : public testing::TestWithParam<Table> {
protected:
  const Table &table() const { return GetParam(); }
  SoftFloat get(unsigned code) const {
    return SoftFloat::fromBits(table().format, code);
  }
};

TEST_P(EightBit, TableIsTheFormat) {
  for (unsigned code = 0; code < 256; ++code) {
    EXPECT_EQ(get(code).isFinite(), table().isFinite(code)) << code;
    EXPECT_EQ(get(code).toBits(), code);
    if (table().isFinite(code)) {
      EXPECT_EQ(get(code).toDouble(),
                std::ldexp(double(table().value(code)), -17))
          << code;
    }
  }
}

TEST_P(EightBit, AddAndSub) {
  const Table &t = table();
  for (unsigned a = 0; a < 256; ++a)
    for (unsigned b = 0; b < 256; ++b) {
      if (!t.isFinite(a) || !t.isFinite(b))
        continue;
      Wide exact = t.value(a) + t.value(b);
      bool negative = exact < 0 || (exact == 0 && (a & b & 0x80));
      unsigned expected = t.round(negative, [&](Wide half) {
        return sign(2 * magnitudeOf(exact) - half);
      });
      ASSERT_EQ(get(a).add(get(b)).toBits(), expected) << a << " " << b;
      ASSERT_EQ(get(a).sub(get(b).neg()).toBits(), expected) << a << " " << b;
    }
}

TEST_P(EightBit, MulAndDiv) {
  const Table &t = table();
  for (unsigned a = 0; a < 256; ++a)
    for (unsigned b = 0; b < 256; ++b) {
      if (!t.isFinite(a) || !t.isFinite(b))
        continue;
      Wide x = t.magnitude(a & 0x7F), y = t.magnitude(b & 0x7F);
      bool negative = (a ^ b) & 0x80;
      // x * y is in units of 2^-34, and half a unit is 2^-18.
      unsigned product = t.round(
          negative, [&](Wide half) { return sign(x * y - (half << 16)); });
      ASSERT_EQ(get(a).mul(get(b)).toBits(), product) << a << " " << b;
      if (y == 0)
        continue;
      unsigned quotient = t.round(
          negative, [&](Wide half) { return sign((x << 18) - half * y); });
      ASSERT_EQ(get(a).div(get(b)).toBits(), quotient) << a << " " << b;
    }
}

TEST_P(EightBit, Sqrt) {
  const Table &t = table();
  for (unsigned a = 0; a < t.finiteCodes; ++a) {
    Wide x = t.magnitude(a);
    unsigned expected = t.round(
        false, [&](Wide half) { return sign((x << 19) - half * half); });
    EXPECT_EQ(get(a).sqrt().toBits(), expected) << a;
  }
  EXPECT_EQ(get(0x80).sqrt().toBits(), 0x80u);
  EXPECT_EQ(get(0x81).sqrt().toBits(), 0x7Fu);
}

/// Tests every triple up to a common negation: the product is positive.
TEST_P(EightBit, Fma) {
  const Table &t = table();
  for (unsigned a = 0; a < t.finiteCodes; ++a)
    for (unsigned b = 0; b <= a; ++b)
      for (unsigned c = 0; c < 256; ++c) {
        if (!t.isFinite(c))
          continue;
        Wide exact =
            t.magnitude(a) * t.magnitude(b) + t.value(c) * (Wide(1) << 17);
        unsigned expected = t.round(exact < 0, [&](Wide half) {
          return sign(magnitudeOf(exact) - (half << 16));
        });
        ASSERT_EQ(get(a).fma(get(b), get(c)).toBits(), expected)
            << a << " " << b << " " << c;
      }
}

TEST_P(EightBit, SpecialsGiveTheCanonicalNaN) {
  SoftFloat nan = get(0x7F), zero = get(0),
            one = SoftFloat::fromDouble(table().format, 1.0);
  for (const SoftFloat &result :
       {nan.add(one), one.sub(nan), nan.mul(zero), zero.div(zero),
        one.fma(nan, zero), nan.sqrt(), get(0xFF).add(one)})
    EXPECT_EQ(result.toBits(), 0x7Fu);
  EXPECT_EQ(one.div(zero).toBits(), table().hasInf ? 0x7Cu : 0x7Fu);
}

INSTANTIATE_TEST_SUITE_P(Formats, EightBit, testing::ValuesIn(kTables),
                         [](const testing::TestParamInfo<Table> &info) {
                           return getName(info.param.format).str();
                         });

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

uint64_t convertDouble(double value, Format to, Overflow overflow) {
  return SoftFloat::fromDouble(Format::F64, value)
      .convert(to, SoftFloat::kNearest, overflow)
      .toBits();
}

TEST(Conversion, OverflowToFP8) {
  auto e4m3 = [](double value, Overflow overflow = Overflow::Infinity) {
    return convertDouble(value, Format::F8E4M3FN, overflow);
  };
  EXPECT_EQ(e4m3(448), 0x7Eu);
  EXPECT_EQ(e4m3(464), 0x7Eu); // a tie, to the even 448
  EXPECT_EQ(e4m3(464.0001), 0x7Fu);
  EXPECT_EQ(e4m3(INFINITY), 0x7Fu);
  EXPECT_EQ(e4m3(1000, Overflow::SaturateFinite), 0x7Eu);
  EXPECT_EQ(e4m3(-1000, Overflow::SaturateFinite), 0xFEu);
  EXPECT_EQ(e4m3(INFINITY, Overflow::SaturateFinite), 0x7Fu);
  EXPECT_EQ(e4m3(-INFINITY, Overflow::SaturateAll), 0xFEu);
  EXPECT_EQ(e4m3(NAN, Overflow::SaturateAll), 0x7Fu);
  EXPECT_EQ(e4m3(-0.0), 0x80u);
  auto e5m2 = [](double value, Overflow overflow) {
    return convertDouble(value, Format::F8E5M2, overflow);
  };
  EXPECT_EQ(e5m2(61440, Overflow::Infinity), 0x7Cu);
  EXPECT_EQ(e5m2(61439, Overflow::Infinity), 0x7Bu);
  EXPECT_EQ(e5m2(61440, Overflow::SaturateFinite), 0x7Bu);
  EXPECT_EQ(e5m2(INFINITY, Overflow::SaturateFinite), 0x7Cu);
  EXPECT_EQ(e5m2(INFINITY, Overflow::SaturateAll), 0x7Bu);
}

TEST(Conversion, F32ToBF16IsIntegerRounding) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 500000; ++i) {
    uint32_t bits = random();
    if (i % 4 == 0)
      bits &= 0x80FFFFFF; // subnormals and small normals
    uint64_t expected = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
      expected = 0x7FFF;
    ASSERT_EQ(
        SoftFloat::fromBits(Format::F32, bits).convert(Format::BF16).toBits(),
        expected & 0xFFFF)
        << bits;
  }
}

TEST(Conversion, Integers) {
  auto toInteger = [](double value, unsigned width, bool isSigned) {
    return SoftFloat::fromDouble(Format::F64, value)
        .toInteger(width, isSigned, llvm::RoundingMode::TowardZero);
  };
  EXPECT_EQ(toInteger(-1.9, 32, true), 0xFFFFFFFFu);
  EXPECT_EQ(toInteger(1e10, 32, true), 0x7FFFFFFFu);
  EXPECT_EQ(toInteger(-INFINITY, 16, true), 0x8000u);
  EXPECT_EQ(toInteger(-3, 32, false), 0u);
  EXPECT_EQ(toInteger(NAN, 32, true), std::nullopt);
  EXPECT_EQ(SoftFloat::fromInteger(Format::BF16, 257).toBits(), 0x4380u);
  EXPECT_EQ(SoftFloat::fromUnsigned(Format::F16, ~0ull).toBits(), 0x7C00u);
}

//===----------------------------------------------------------------------===//
// Wider formats
//===----------------------------------------------------------------------===//

TEST(Arithmetic, BF16FmaRoundsOnce) {
  auto get = [](uint64_t bits) {
    return SoftFloat::fromBits(Format::BF16, bits);
  };
  EXPECT_EQ(get(0x3F81).fma(get(0x3FC0), get(0x8001)).toBits(), 0x3FC1u);
}

/// Returns a * b + c rounded to odd in double; another rounding to a 16-bit
/// format is then correct.
double fmaToOdd(double a, double b, double c) {
  volatile double product = a * b, sum = product + c;
  volatile double back = sum - product;
  volatile double error = (product - (sum - back)) + (c - back);
  uint64_t bits = llvm::bit_cast<uint64_t>(double(sum));
  if (error != 0 && !(bits & 1))
    bits += (error > 0) == (sum > 0) ? 1 : -1;
  return llvm::bit_cast<double>(bits);
}

TEST(Arithmetic, FmaOf16BitFormats) {
  std::mt19937_64 random(3);
  for (Format format : {Format::BF16, Format::F16})
    for (int i = 0; i < 500000; ++i) {
      auto draw = [&] { return SoftFloat::fromBits(format, random()); };
      SoftFloat a = draw(), b = draw(), c = draw();
      // Every other addend is close to half an ulp of the product.
      if (i % 2)
        c = a.mul(b).scaleByPowerOfTwo(-int(getPrecision(format)));
      if (!a.isFinite() || !b.isFinite() || !c.isFinite())
        continue;
      double odd = fmaToOdd(a.toDouble(), b.toDouble(), c.toDouble());
      ASSERT_EQ(a.fma(b, c).toBits(),
                SoftFloat::fromDouble(format, odd).toBits())
          << a.toBits() << " " << b.toBits() << " " << c.toBits();
    }
}

/// A double square root is precise enough for a harmless second rounding.
TEST(Arithmetic, SqrtOf16BitFormats) {
  for (Format format : {Format::BF16, Format::F16})
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      SoftFloat x = SoftFloat::fromBits(format, bits);
      ASSERT_EQ(x.sqrt().toBits(),
                SoftFloat::fromDouble(format, std::sqrt(x.toDouble())).toBits())
          << bits;
    }
}

template <typename Float, typename Bits>
struct Host {
  static Float get(Bits bits) { return llvm::bit_cast<Float>(bits); }
  static Bits bits(Float value, Format format) {
    return std::isnan(value) ? Bits(getCanonicalNaNBits(format))
                             : llvm::bit_cast<Bits>(value);
  }
};

/// Draws operands, many of which are close, subnormal, huge or special.
template <typename Bits>
Bits draw(std::mt19937_64 &random, int mantissaBits, Bits previous) {
  Bits bits = Bits(random());
  switch (random() % 6) {
  case 0: // close to the previous one
    return previous ^ (Bits(random()) & 0x7) ^
           (Bits(random() & 1) << (8 * sizeof(Bits) - 1));
  case 1: // subnormal
    return bits & ~(((Bits(1) << (8 * sizeof(Bits) - 1 - mantissaBits)) - 1)
                    << mantissaBits);
  case 2: // few significant bits
    return bits & ~((Bits(1) << (mantissaBits - 3)) - 1);
  default:
    return bits;
  }
}

template <typename Float, typename Bits>
void compareWithHost(Format format, int mantissaBits, int count) {
  using H = Host<Float, Bits>;
  std::mt19937_64 random(7);
  Bits c = 0;
  for (int i = 0; i < count; ++i) {
    Bits a = draw<Bits>(random, mantissaBits, c);
    Bits b = draw<Bits>(random, mantissaBits, a);
    c = draw<Bits>(random, mantissaBits, b);
    volatile Float x = H::get(a), y = H::get(b), z = H::get(c);
    SoftFloat p = SoftFloat::fromBits(format, a);
    SoftFloat q = SoftFloat::fromBits(format, b);
    SoftFloat r = SoftFloat::fromBits(format, c);
    ASSERT_EQ(p.add(q).toBits(), H::bits(x + y, format)) << a << " " << b;
    ASSERT_EQ(p.sub(q).toBits(), H::bits(x - y, format)) << a << " " << b;
    ASSERT_EQ(p.mul(q).toBits(), H::bits(x * y, format)) << a << " " << b;
    ASSERT_EQ(p.div(q).toBits(), H::bits(x / y, format)) << a << " " << b;
    ASSERT_EQ(p.fma(q, r).toBits(), H::bits(std::fma(x, y, z), format))
        << a << " " << b << " " << c;
    ASSERT_EQ(p.sqrt().toBits(), H::bits(std::sqrt(x), format)) << a;
  }
}

TEST(Arithmetic, F32EqualsHardware) {
  compareWithHost<float, uint32_t>(Format::F32, 23, 200000);
}

TEST(Arithmetic, F64EqualsHardware) {
  compareWithHost<double, uint64_t>(Format::F64, 52, 200000);
}

TEST(Arithmetic, MinMaxAndOrder) {
  auto get = [](double value) {
    return SoftFloat::fromDouble(Format::F32, value);
  };
  SoftFloat nan = SoftFloat::getNaN(Format::F32), one = get(1);
  EXPECT_TRUE(nan.minimum(one).isNaN());
  EXPECT_TRUE(one.maximum(nan).isNaN());
  EXPECT_EQ(nan.minNum(one).toDouble(), 1.0);
  EXPECT_EQ(one.maxNum(nan).toDouble(), 1.0);
  EXPECT_TRUE(get(0.0).minimum(get(-0.0)).isNegative());
  EXPECT_TRUE(get(-0.0).minNum(get(0.0)).isNegative());
  EXPECT_FALSE(get(-0.0).maximum(get(0.0)).isNegative());
  EXPECT_EQ(get(0.0).compare(get(-0.0)), Ordering::Equal);
  EXPECT_EQ(one.compare(nan), Ordering::Unordered);
  EXPECT_EQ(one.compare(get(2)), Ordering::Less);
}

TEST(Arithmetic, DirectedRounding) {
  SoftFloat one = SoftFloat::fromDouble(Format::F32, 1);
  SoftFloat three = SoftFloat::fromDouble(Format::F32, 3);
  auto up = llvm::RoundingMode::TowardPositive;
  auto down = llvm::RoundingMode::TowardNegative;
  EXPECT_EQ(one.div(three, up).toBits(), one.div(three, down).toBits() + 1);
  EXPECT_EQ(three.sqrt(up).toBits(), three.sqrt(down).toBits() + 1);
  EXPECT_EQ(SoftFloat::fromDouble(Format::F64, 1e300)
                .convert(Format::F32, down)
                .toBits(),
            0x7F7FFFFFu);
}

} // namespace
