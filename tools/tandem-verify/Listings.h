//===- Listings.h - The listings of docs/MCF.md -----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the listings of docs/MCF.md, line by line, in the
// arithmetic of a small format, and their operands: all pairs, and all triples
// of bytes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_VERIFY_LISTINGS_H
#define TANDEM_VERIFY_LISTINGS_H

#include "Part.h"
#include "SmallFloat.h"

namespace tandem::verify {

struct RealPair {
  Reals x, y;
};

/// The number of units for all pairs of codes. A unit has one first operand, or
/// all if codes are bytes.
template <typename Code>
constexpr uint64_t numPairUnits = sizeof(Code) == 2 ? blockSize : 1;

template <typename Code>
void fillPairs(Block &block) {
  auto *a = block.inputs[0].get<Code>(), *b = block.inputs[1].get<Code>();
  block.size = blockSize;
  for (size_t i = 0; i < blockSize; ++i) {
    a[i] = Code(sizeof(Code) == 2 ? block.unit : i >> 8);
    b[i] = Code(i);
  }
}

/// The number of units for all triples of bytes. A unit has one first operand.
constexpr uint64_t numTripleUnits = 256;

inline void fillTriples(Block &block) {
  auto *a = block.inputs[0].get<uint8_t>(), *b = block.inputs[1].get<uint8_t>(),
       *c = block.inputs[2].get<uint8_t>();
  block.size = blockSize;
  for (size_t i = 0; i < blockSize; ++i) {
    a[i] = uint8_t(block.unit);
    b[i] = uint8_t(i >> 8);
    c[i] = uint8_t(i);
  }
}

/// Returns whether a is a multiple of b's unit in the last place. Both must be
/// finite.
template <typename F>
TANDEM_LANES Mask isMultipleOfUlp(Reals a, Reals b) {
  Reals ulps = a / (F::binade(b) * powerOfTwo(1 - F::precision));
  Reals whole = (ulps + 0x1.8p52) - 0x1.8p52;
  return (magnitude(ulps) >= 0x1p51) | (whole == ulps);
}

template <typename F>
struct Listings {
  static TANDEM_LANES RealPair fastTwoSum(Reals a, Reals b) {
    Reals x = F::add(a, b);
    return {x, F::sub(b, F::sub(x, a))};
  }

  static TANDEM_LANES RealPair twoSum(Reals a, Reals b) {
    Reals x = F::add(a, b);
    Reals b1 = F::sub(x, a);
    Reals a1 = F::sub(x, b1);
    return {x, F::add(F::sub(a, a1), F::sub(b, b1))};
  }

  static TANDEM_LANES RealPair orderedTwoSum(Reals a, Reals b) {
    Reals x = F::add(a, b);
    return {x, F::add(F::sub(a, x), b)};
  }

  static TANDEM_LANES RealPair split(Reals a) {
    constexpr double factor = powerOfTwo((F::precision + 1) / 2) + 1;
    Reals c = F::mul(splat(factor), a);
    Reals high = F::sub(c, F::sub(c, a));
    return {high, F::sub(a, high)};
  }

  static TANDEM_LANES RealPair twoProd(Reals a, Reals b) {
    Reals x = F::mul(a, b);
    return {x, F::fma(a, b, -x)};
  }

  static TANDEM_LANES RealPair twoProdDekker(Reals a, Reals b) {
    RealPair s = split(a), t = split(b);
    Reals x = F::mul(a, b);
    Reals e = F::sub(x, F::mul(s.x, t.x));
    e = F::sub(e, F::mul(s.y, t.x));
    e = F::sub(e, F::mul(s.x, t.y));
    return {x, F::sub(F::mul(s.y, t.y), e)};
  }

  static TANDEM_LANES RealPair grow(RealPair s, Reals a) {
    RealPair sum = fastTwoSum(s.x, a);
    return fastTwoSum(sum.x, F::add(s.y, sum.y));
  }

  static TANDEM_LANES RealPair kahan(RealPair s, Reals a) {
    Reals d = F::add(a, s.y);
    Reals x = F::add(s.x, d);
    return {x, F::sub(d, F::sub(x, s.x))};
  }

  static TANDEM_LANES RealPair scale(RealPair a, Reals v) {
    RealPair product = twoProd(a.x, v);
    Reals e = F::add(F::mul(a.y, v), product.y);
    return fastTwoSum(product.x, e);
  }

  static TANDEM_LANES RealPair mul(RealPair a, RealPair b) {
    RealPair product = twoProd(a.x, b.x);
    Reals crossed = F::add(F::mul(a.x, b.y), F::mul(a.y, b.x));
    return fastTwoSum(product.x, F::add(product.y, crossed));
  }

  static TANDEM_LANES RealPair add(RealPair x, RealPair y) {
    RealPair high = twoSum(x.x, y.x), low = twoSum(x.y, y.y);
    RealPair sum = fastTwoSum(high.x, low.x);
    Reals b = F::add(high.y, low.y);
    return fastTwoSum(sum.x, F::add(b, sum.y));
  }

  static TANDEM_LANES RealPair sub(RealPair x, RealPair y) {
    return add(x, {-y.x, -y.y});
  }

  static TANDEM_LANES RealPair div(RealPair x, RealPair y) {
    Reals t = F::div(x.x, y.x);
    RealPair c = twoProd(y.x, t);
    RealPair r = fastTwoSum(c.x, F::mul(y.y, t));
    r = fastTwoSum(r.x, F::add(r.y, c.y));
    Reals rest = F::add(F::sub(x.x, r.x), F::sub(x.y, r.y));
    return fastTwoSum(t, F::div(rest, y.x));
  }

  static TANDEM_LANES RealPair sqrt(RealPair x) {
    Reals s = F::sqrt(x.x);
    Reals r = F::add(x.y, F::fma(-s, s, x.x));
    Reals t = F::div(r, F::add(s, s));
    RealPair root = fastTwoSum(s, t);
    Mask isZero = s == 0;
    return {select(isZero, s, root.x), select(isZero, Reals{}, root.y)};
  }

  static TANDEM_LANES RealPair renormalize(RealPair x) {
    return twoSum(x.x, x.y);
  }
};

} // namespace tandem::verify

#endif // TANDEM_VERIFY_LISTINGS_H
