//===- InterpreterArithmetic.cpp - Exact sequences ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the sequences of docs/Numerics.md over SoftFloat, each
// line one rounding.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/InterpreterArithmetic.h"

#include <algorithm>

using namespace mlir::tandem::reference;
namespace reference = mlir::tandem::reference;

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

//===----------------------------------------------------------------------===//
// Expansions
//===----------------------------------------------------------------------===//

Pair reference::grow(const Pair &s, const SoftFloat &a) {
  Pair first = fastTwoSum(s.high, a);
  return fastTwoSum(first.high, s.low.add(first.low));
}

Pair reference::kahan(const Pair &s, const SoftFloat &a) {
  SoftFloat d = a.add(s.low);
  SoftFloat x = s.high.add(d);
  SoftFloat taken = x.sub(s.high);
  return {x, d.sub(taken)};
}

Pair reference::scale(const Pair &s, const SoftFloat &v) {
  Pair product = twoProd(s.high, v);
  SoftFloat error = s.low.mul(v).add(product.low);
  return fastTwoSum(product.high, error);
}

Pair reference::mul(const Pair &s, const Pair &t) {
  Pair product = twoProd(s.high, t.high);
  SoftFloat cross = s.high.mul(t.low).add(s.low.mul(t.high));
  SoftFloat error = product.low.add(cross);
  return fastTwoSum(product.high, error);
}

llvm::SmallVector<SoftFloat, 2>
reference::toComponents(const SoftFloat &wide, Format format, unsigned count) {
  llvm::SmallVector<SoftFloat, 2> components;
  SoftFloat rest = wide;
  for (unsigned i = 0; i < count; ++i) {
    SoftFloat component = rest.convert(format);
    components.push_back(component);
    rest = component.isFinite() ? rest.sub(component.convert(wide.getFormat()))
                                : SoftFloat(wide.getFormat());
  }
  return components;
}

SoftFloat reference::sumComponents(llvm::ArrayRef<SoftFloat> components,
                                   Format wide) {
  SoftFloat sum = components.back().convert(wide);
  for (size_t i = components.size() - 1; i-- > 0;)
    sum = components[i].convert(wide).add(sum);
  return sum;
}

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
// Random bits and stochastic rounding
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

SoftFloat reference::roundStochastically(const SoftFloat &x, Format format,
                                         uint16_t random) {
  if (!x.isFinite() || x.isZero())
    return x.convert(format);
  const llvm::fltSemantics &semantics = getSemantics(format);
  int exponent = llvm::ilogb(x.getAPFloat());
  if (exponent > llvm::APFloat::semanticsMaxExponent(semantics))
    return SoftFloat::getInf(format, x.isNegative());

  // Truncate, and count what is left in units of ulp / 2^16.
  SoftFloat magnitude = x.abs().convert(Format::F64);
  SoftFloat lower = magnitude.convert(format, llvm::RoundingMode::TowardZero);
  int ulp =
      std::max<int>(exponent, llvm::APFloat::semanticsMinExponent(semantics)) -
      int(getPrecision(format)) + 1;
  SoftFloat left = magnitude.sub(lower.convert(Format::F64));
  uint64_t fraction = *left.scaleByPowerOfTwo(16 - ulp).toInteger(
      64, /*isSigned=*/false, llvm::RoundingMode::TowardZero);

  // The next number away from zero has the next code; behind the largest it is
  // infinity.
  bool isUp = fraction + random >= 0x10000;
  SoftFloat result = SoftFloat::fromBits(format, lower.toBits() + isUp);
  return x.isNegative() ? result.neg() : result;
}
