//===- Arithmetic.cpp - Exact sequences -----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the sequences of docs/Numerics.md with SoftFloat. Each
// line rounds once.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Interpreter/Arithmetic.h"

#include <algorithm>

using namespace tandem::reference;
namespace reference = tandem::reference;

//===----------------------------------------------------------------------===//
// Error-free transforms
//===----------------------------------------------------------------------===//

Pair reference::fastTwoSum(const SoftFloat &a, const SoftFloat &b) {
  SoftFloat x = a.add(b);
  SoftFloat z = x.sub(a);
  return {x, b.sub(z)};
}

Pair reference::twoSum(const SoftFloat &a, const SoftFloat &b) {
  SoftFloat x = a.add(b);
  SoftFloat bVirtual = x.sub(a);
  SoftFloat aVirtual = x.sub(bVirtual);
  SoftFloat aError = a.sub(aVirtual);
  SoftFloat bError = b.sub(bVirtual);
  return {x, aError.add(bError)};
}

Pair reference::twoProd(const SoftFloat &a, const SoftFloat &b) {
  SoftFloat x = a.mul(b);
  return {x, a.fma(b, x.neg())};
}

Pair reference::split(const SoftFloat &a) {
  unsigned half = (getPrecision(a.getFormat()) + 1) / 2;
  SoftFloat factor =
      SoftFloat::fromUnsigned(a.getFormat(), (uint64_t(1) << half) + 1);
  SoftFloat c = factor.mul(a);
  SoftFloat rest = c.sub(a);
  SoftFloat high = c.sub(rest);
  return {high, a.sub(high)};
}

Pair reference::twoProdDekker(const SoftFloat &a, const SoftFloat &b) {
  SoftFloat x = a.mul(b);
  Pair s = split(a), t = split(b);
  SoftFloat e1 = x.sub(s.high.mul(t.high));
  SoftFloat e2 = e1.sub(s.low.mul(t.high));
  SoftFloat e3 = e2.sub(s.high.mul(t.low));
  return {x, s.low.mul(t.low).sub(e3)};
}

/// Replaces (a, b) by the pair that a transform returns.
static void apply(Pair (*transform)(const SoftFloat &, const SoftFloat &),
                  SoftFloat &a, SoftFloat &b) {
  Pair pair = transform(a, b);
  a = pair.high;
  b = pair.low;
}

//===----------------------------------------------------------------------===//
// Expansion and component
//===----------------------------------------------------------------------===//

Components reference::grow(ComponentsRef s, const SoftFloat &a) {
  if (s.size() == 2) {
    Pair first = fastTwoSum(s[0], a);
    Pair second = fastTwoSum(first.high, s[1].add(first.low));
    return {second.high, second.low};
  }
  SoftFloat x = s[0], y = s[1], z = s[2], e = a;
  apply(twoSum, x, e);
  apply(twoSum, y, e);
  z = z.add(e);
  apply(fastTwoSum, x, y);
  apply(fastTwoSum, y, z);
  apply(fastTwoSum, x, y);
  return {x, y, z};
}

Components reference::kahan(ComponentsRef s, const SoftFloat &a) {
  SoftFloat d = a.add(s[1]);
  SoftFloat x = s[0].add(d);
  SoftFloat taken = x.sub(s[0]);
  return {x, d.sub(taken)};
}

Components reference::scale(ComponentsRef s, const SoftFloat &v) {
  auto [p, e] = twoProd(s[0], v);
  if (s.size() == 2) {
    Pair result = fastTwoSum(p, s[1].mul(v).add(e));
    return {result.high, result.low};
  }
  auto [q, f] = twoProd(s[1], v);
  f = f.add(s[2].mul(v));
  apply(twoSum, e, q);
  apply(fastTwoSum, p, e);
  q = q.add(f);
  apply(twoSum, e, q);
  apply(fastTwoSum, p, e);
  apply(fastTwoSum, e, q);
  apply(fastTwoSum, p, e);
  return {p, e, q};
}

//===----------------------------------------------------------------------===//
// Expansion and expansion
//===----------------------------------------------------------------------===//

/// Multiplies expansions of three components. The variables have the names of
/// docs/MCF.md.
static Components mulThree(ComponentsRef a, ComponentsRef b) {
  auto [p00, e00] = twoProd(a[0], b[0]);
  auto [p01, e01] = twoProd(a[0], b[1]);
  auto [p10, e10] = twoProd(a[1], b[0]);
  apply(twoSum, p01, p10);
  e01 = e01.add(e10);
  SoftFloat p02 = a[0].mul(b[2]).add(a[2].mul(b[0]));
  apply(twoSum, e00, p01);
  p02 = p02.add(a[1].mul(b[1]));
  apply(fastTwoSum, p00, e00);
  p01 = p01.add(p10);
  p01 = p01.add(e01.add(p02));
  apply(twoSum, e00, p01);
  apply(fastTwoSum, p00, e00);
  apply(fastTwoSum, e00, p01);
  apply(fastTwoSum, p00, e00);
  return {p00, e00, p01};
}

Components reference::mul(ComponentsRef x, ComponentsRef y) {
  if (x.size() == 3)
    return mulThree(x, y);
  Pair product = twoProd(x[0], y[0]);
  SoftFloat cross = x[0].mul(y[1]).add(x[1].mul(y[0]));
  Pair result = fastTwoSum(product.high, product.low.add(cross));
  return {result.high, result.low};
}

static Components addThree(ComponentsRef x, ComponentsRef y) {
  auto [a, b] = twoSum(x[0], y[0]);
  auto [c, d] = twoSum(x[1], y[1]);
  auto [e, f] = twoSum(x[2], y[2]);
  apply(fastTwoSum, a, c);
  b = b.add(f);
  apply(twoSum, d, e);
  apply(fastTwoSum, a, d);
  apply(twoSum, b, c);
  c = c.add(e);
  apply(twoSum, c, d);
  apply(twoSum, b, c);
  apply(fastTwoSum, a, b);
  c = c.add(d);
  apply(fastTwoSum, b, c);
  apply(fastTwoSum, a, b);
  apply(fastTwoSum, b, c);
  return {a, b, c};
}

Components reference::add(ComponentsRef x, ComponentsRef y) {
  if (x.size() == 3)
    return addThree(x, y);
  auto [a, b] = twoSum(x[0], y[0]);
  auto [c, d] = twoSum(x[1], y[1]);
  apply(fastTwoSum, a, c);
  b = b.add(d);
  b = b.add(c);
  apply(fastTwoSum, a, b);
  return {a, b};
}

Components reference::sub(ComponentsRef x, ComponentsRef y) {
  return add(x, neg(y));
}

/// Computes a long division. Each digit is the leading quotient of the
/// remainder.
static Components divThree(ComponentsRef x, ComponentsRef y) {
  SoftFloat q1 = x[0].div(y[0]);
  Components r = sub(x, scale(y, q1));
  SoftFloat q2 = r[0].div(y[0]);
  r = sub(r, scale(y, q2));
  SoftFloat q3 = r[0].div(y[0]);
  return renormalize({q1, q2, q3});
}

Components reference::div(ComponentsRef x, ComponentsRef y) {
  if (x.size() == 3)
    return divThree(x, y);
  SoftFloat t = x[0].div(y[0]);
  auto [c, d] = twoProd(y[0], t);
  auto [r, f] = fastTwoSum(c, y[1].mul(t));
  f = f.add(d);
  apply(fastTwoSum, r, f);
  SoftFloat left = x[0].sub(r).add(x[1].sub(f));
  SoftFloat z = left.div(y[0]);
  apply(fastTwoSum, t, z);
  return {t, z};
}

Components reference::sqrt(ComponentsRef x) {
  SoftFloat s = x[0].sqrt(), zero(s.getFormat());
  if (s.isZero()) {
    Components root(x.size(), zero);
    root[0] = s;
    return root;
  }
  SoftFloat two = SoftFloat::fromUnsigned(s.getFormat(), 2);
  SoftFloat r = x[1].add(s.neg().fma(s, x[0]));
  SoftFloat t = r.div(two.mul(s));
  apply(fastTwoSum, s, t);
  if (x.size() == 2)
    return {s, t};
  Components e = {s, t, zero};
  SoftFloat rest = sub(x, mul(e, e))[0];
  return renormalize({s, t, rest.div(two.mul(s))});
}

Components reference::neg(ComponentsRef x) {
  Components result;
  for (const SoftFloat &component : x)
    result.push_back(component.neg());
  return result;
}

Components reference::renormalize(ComponentsRef s) {
  Components result(s);
  for (size_t i = s.size() - 1; i > 0; --i)
    apply(twoSum, result[i - 1], result[i]);
  if (s.size() == 3)
    apply(twoSum, result[1], result[2]);
  return result;
}

Ordering reference::compare(ComponentsRef x, ComponentsRef y) {
  for (auto [left, right] : llvm::zip(x, y))
    if (Ordering ordering = left.compare(right); ordering != Ordering::Equal)
      return ordering;
  return Ordering::Equal;
}

//===----------------------------------------------------------------------===//
// In and out
//===----------------------------------------------------------------------===//

Components reference::toComponents(const SoftFloat &wide, Format format,
                                   unsigned count) {
  Components components;
  SoftFloat rest = wide;
  for (unsigned i = 0; i < count; ++i) {
    SoftFloat component = rest.convert(format);
    components.push_back(component);
    rest = component.isFinite() ? rest.sub(component.convert(wide.getFormat()))
                                : SoftFloat(wide.getFormat());
  }
  return components;
}

SoftFloat reference::sumComponents(ComponentsRef components, Format wide) {
  SoftFloat sum = components.back().convert(wide);
  for (size_t i = components.size() - 1; i-- > 0;)
    sum = components[i].convert(wide).add(sum);
  return sum;
}

SoftFloat reference::sumTree(std::vector<SoftFloat> level) {
  size_t size = llvm::PowerOf2Ceil(std::max<size_t>(level.size(), 1));
  level.resize(size, SoftFloat(Format::F32).neg());
  for (; size > 1; size /= 2)
    for (size_t i = 0; i < size / 2; ++i)
      level[i] = level[2 * i].add(level[2 * i + 1]);
  return level.front();
}

bool reference::isMixed(ComponentsRef components) {
  return components.front().getFormat() != components.back().getFormat();
}

/// Returns max(exponent(hi), -126).
static int getLeadingExponent(const SoftFloat &high) {
  constexpr int kLeast = -126;
  return high.isZero() ? kLeast
                       : std::max(llvm::ilogb(high.getAPFloat()), kLeast);
}

/// Widens a mixed expansion. The scaling is exact in f64 for all formats.
Components reference::widenMixed(ComponentsRef stored) {
  if (!isMixed(stored))
    return Components(stored);
  SoftFloat low = stored[1].convert(Format::F64);
  if (stored[0].isFinite())
    low = low.scaleByPowerOfTwo(getLeadingExponent(stored[0]) - 8);
  return {stored[0], low.convert(stored[0].getFormat())};
}

Components reference::narrowMixed(ComponentsRef components, Format trailing) {
  const SoftFloat &high = components[0], &low = components[1];
  if (!high.isFinite())
    return {high, low.isFinite()
                      ? SoftFloat::getZero(trailing, low.isNegative())
                      : SoftFloat::getNaN(trailing)};
  SoftFloat scaled =
      low.convert(Format::F64).scaleByPowerOfTwo(8 - getLeadingExponent(high));
  return {high,
          scaled.convert(trailing, SoftFloat::kNearest, Overflow::SaturateAll)};
}

//===----------------------------------------------------------------------===//
// Powers
//===----------------------------------------------------------------------===//

SoftFloat reference::power(const SoftFloat &base, int64_t exponent) {
  SoftFloat one = SoftFloat::fromUnsigned(base.getFormat(), 1);
  SoftFloat result = one, square = base;
  uint64_t left = exponent < 0 ? -uint64_t(exponent) : uint64_t(exponent);
  for (; left; left >>= 1) {
    if (left & 1)
      result = result.mul(square);
    square = square.mul(square);
  }
  return exponent < 0 ? one.div(result) : result;
}

//===----------------------------------------------------------------------===//
// Rounding by bits
//===----------------------------------------------------------------------===//

std::array<uint32_t, 4> reference::philox4x32(std::array<uint32_t, 4> counter,
                                              std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = uint64_t(counter[0]) * 0xD2511F53;
    uint64_t product1 = uint64_t(counter[2]) * 0xCD9E8D57;
    counter = {
        uint32_t(product1 >> 32) ^ counter[1] ^ key[0], uint32_t(product1),
        uint32_t(product0 >> 32) ^ counter[3] ^ key[1], uint32_t(product0)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

uint16_t reference::drawRandomBits(uint64_t seed, uint32_t tensorKey,
                                   uint32_t step, uint64_t element) {
  uint64_t block = element / 8;
  unsigned half = element % 8;
  std::array<uint32_t, 4> words =
      philox4x32({uint32_t(block), uint32_t(block >> 32), tensorKey, step},
                 {uint32_t(seed), uint32_t(seed >> 32)});
  return words[half / 2] >> (half % 2 ? 16 : 0);
}

uint16_t reference::drawDitherBits(uint64_t seed, uint32_t tensorKey,
                                   uint32_t number, uint32_t step,
                                   uint64_t element) {
  constexpr std::array<uint32_t, 4> multipliers = {19, 23, 27, 39};
  uint32_t window = step / 64, place = step % 64;
  auto draw = [&](uint32_t tag, uint32_t last) {
    return philox4x32({number, tag, tensorKey, last},
                      {uint32_t(seed), uint32_t(seed >> 32)})[0];
  };
  uint32_t drawn = draw(0x64697468, window);
  uint32_t base = draw(0x64697469, 0);
  uint32_t stratum = (multipliers[drawn / 64 % 4] * place + drawn) % 64;
  uint32_t refined = base + window * 0x9E3779B9u;
  uint32_t word = stratum << 26 | refined >> 6;
  return (uint32_t(element) * 0x6107DA4Du + word) >> 16;
}

uint16_t reference::orientBits(RoundingMode rounding, const SoftFloat &x,
                               uint16_t bits) {
  bool isTurned = rounding == RoundingMode::dither && x.isNegative();
  return isTurned ? 0xFFFF - bits : bits;
}

bool reference::roundsUp(const SoftFloat &fraction, RoundingMode rounding,
                         uint16_t bits) {
  double units = std::ldexp(fraction.toDouble(), 16);
  double whole =
      std::floor(rounding == RoundingMode::dither ? units + 0.5 : units);
  return whole + bits >= 0x1p16;
}

SoftFloat reference::roundByBits(const SoftFloat &x, Format format,
                                 RoundingMode rounding, uint16_t bits) {
  if (!x.isFinite() || x.isZero())
    return x.convert(format);
  const llvm::fltSemantics &semantics = getSemantics(format);
  int exponent = llvm::ilogb(x.getAPFloat());
  if (exponent > llvm::APFloat::semanticsMaxExponent(semantics))
    return SoftFloat::getInf(format, x.isNegative());

  // Truncate, and compute the remainder in units in the last place, which is
  // exact in f64 for an f32.
  SoftFloat magnitude = x.abs().convert(Format::F64);
  SoftFloat lower = magnitude.convert(format, llvm::RoundingMode::TowardZero);
  int ulp =
      std::max<int>(exponent, llvm::APFloat::semanticsMinExponent(semantics)) -
      int(getPrecision(format)) + 1;
  SoftFloat left = magnitude.sub(lower.convert(Format::F64));

  // The next number away from zero has the next code; after the largest number
  // comes infinity.
  bool isUp = roundsUp(left.scaleByPowerOfTwo(-ulp), rounding, bits);
  SoftFloat result = SoftFloat::fromBits(format, lower.toBits() + isUp);
  return x.isNegative() ? result.neg() : result;
}
