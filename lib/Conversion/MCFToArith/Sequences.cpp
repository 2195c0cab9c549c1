//===- Sequences.cpp - The sequences of mcf operations --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the sequences. Each function is the listing of its
// operation's description, line by line.
//
//===----------------------------------------------------------------------===//

#include "Sequences.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tandem::mcf;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

/// Replaces (x, y) by the pair that an error-free transform of them returns.
template <typename Transform>
static void apply(Transform transform, SequenceBuilder &b, Value &x, Value &y) {
  Pair pair = transform(b, x, y);
  x = pair.high;
  y = pair.low;
}

//===----------------------------------------------------------------------===//
// Error-free transforms
//===----------------------------------------------------------------------===//

Pair tandem::mcf::fastTwoSum(SequenceBuilder &b, Value x, Value y) {
  Value sum = b.add(x, y);
  return {sum, b.sub(y, b.sub(sum, x))};
}

Pair tandem::mcf::twoSum(SequenceBuilder &b, Value x, Value y) {
  Value sum = b.add(x, y);
  Value second = b.sub(sum, x);
  Value first = b.sub(sum, second);
  Value firstError = b.sub(x, first);
  Value secondError = b.sub(y, second);
  return {sum, b.add(firstError, secondError)};
}

Pair tandem::mcf::twoProd(SequenceBuilder &b, Value x, Value y) {
  Value product = b.mul(x, y);
  return {product, b.fma(x, y, b.neg(product))};
}

Pair tandem::mcf::split(SequenceBuilder &b, Value x) {
  unsigned precision =
      tandem::FloatFormat::get(getElementTypeOrSelf(x.getType())).precision();
  double factor = double((uint64_t(1) << ((precision + 1) / 2)) + 1);
  Value scaled = b.mul(b.real(x.getType(), factor), x);
  Value high = b.sub(scaled, b.sub(scaled, x));
  return {high, b.sub(x, high)};
}

Pair tandem::mcf::twoProdDekker(SequenceBuilder &b, Value x, Value y) {
  Pair s = split(b, x), t = split(b, y);
  Value product = b.mul(x, y);
  Value error = b.sub(product, b.mul(s.high, t.high));
  error = b.sub(error, b.mul(s.low, t.high));
  error = b.sub(error, b.mul(s.high, t.low));
  return {product, b.sub(b.mul(s.low, t.low), error)};
}

//===----------------------------------------------------------------------===//
// Expansion and component
//===----------------------------------------------------------------------===//

Parts tandem::mcf::grow(SequenceBuilder &b, ValueRange s, Value a) {
  if (s.size() == 2) {
    Pair sum = fastTwoSum(b, s[0], a);
    sum = fastTwoSum(b, sum.high, b.add(s[1], sum.low));
    return {sum.high, sum.low};
  }
  Value x = s[0], y = s[1], z = s[2];
  apply(twoSum, b, x, a);
  apply(twoSum, b, y, a);
  z = b.add(z, a);
  apply(fastTwoSum, b, x, y);
  apply(fastTwoSum, b, y, z);
  apply(fastTwoSum, b, x, y);
  return {x, y, z};
}

Parts tandem::mcf::kahan(SequenceBuilder &b, ValueRange s, Value a) {
  Pair sum = fastTwoSum(b, s[0], b.add(a, s[1]));
  return {sum.high, sum.low};
}

/// Builds the last four steps of a three-component product.
static Parts closeProduct(SequenceBuilder &b, Value p, Value e, Value q) {
  apply(twoSum, b, e, q);
  apply(fastTwoSum, b, p, e);
  apply(fastTwoSum, b, e, q);
  apply(fastTwoSum, b, p, e);
  return {p, e, q};
}

Parts tandem::mcf::scale(SequenceBuilder &b, ValueRange s, Value v) {
  auto [p, e] = twoProd(b, s[0], v);
  if (s.size() == 2) {
    e = b.add(b.mul(s[1], v), e);
    apply(fastTwoSum, b, p, e);
    return {p, e};
  }
  auto [q, f] = twoProd(b, s[1], v);
  f = b.add(f, b.mul(s[2], v));
  apply(twoSum, b, e, q);
  apply(fastTwoSum, b, p, e);
  q = b.add(q, f);
  return closeProduct(b, p, e, q);
}

//===----------------------------------------------------------------------===//
// Expansion and expansion
//===----------------------------------------------------------------------===//

Parts tandem::mcf::mul(SequenceBuilder &b, ValueRange x, ValueRange y) {
  auto [p00, e00] = twoProd(b, x[0], y[0]);
  if (x.size() == 2) {
    Value first = b.mul(x[0], y[1]);
    Value second = b.mul(x[1], y[0]);
    e00 = b.add(e00, b.add(first, second));
    apply(fastTwoSum, b, p00, e00);
    return {p00, e00};
  }
  auto [p01, e01] = twoProd(b, x[0], y[1]);
  auto [p10, e10] = twoProd(b, x[1], y[0]);
  Value p02 = b.mul(x[0], y[2]), p11 = b.mul(x[1], y[1]),
        p20 = b.mul(x[2], y[0]);
  apply(twoSum, b, p01, p10);
  e01 = b.add(e01, e10);
  p02 = b.add(p02, p20);
  apply(twoSum, b, e00, p01);
  p02 = b.add(p02, p11);
  apply(fastTwoSum, b, p00, e00);
  p01 = b.add(p01, p10);
  e01 = b.add(e01, p02);
  p01 = b.add(p01, e01);
  return closeProduct(b, p00, e00, p01);
}

static Parts addThree(SequenceBuilder &s, ValueRange x, ValueRange y) {
  auto [a, b] = twoSum(s, x[0], y[0]);
  auto [c, d] = twoSum(s, x[1], y[1]);
  auto [e, f] = twoSum(s, x[2], y[2]);
  apply(fastTwoSum, s, a, c);
  b = s.add(b, f);
  apply(twoSum, s, d, e);
  apply(fastTwoSum, s, a, d);
  apply(twoSum, s, b, c);
  c = s.add(c, e);
  apply(twoSum, s, c, d);
  apply(twoSum, s, b, c);
  apply(fastTwoSum, s, a, b);
  c = s.add(c, d);
  apply(fastTwoSum, s, b, c);
  apply(fastTwoSum, s, a, b);
  apply(fastTwoSum, s, b, c);
  return {a, b, c};
}

Parts tandem::mcf::add(SequenceBuilder &s, ValueRange x, ValueRange y) {
  if (x.size() == 3)
    return addThree(s, x, y);
  auto [a, b] = twoSum(s, x[0], y[0]);
  auto [c, d] = twoSum(s, x[1], y[1]);
  apply(fastTwoSum, s, a, c);
  b = s.add(b, d);
  b = s.add(b, c);
  apply(fastTwoSum, s, a, b);
  return {a, b};
}

Parts tandem::mcf::neg(SequenceBuilder &b, ValueRange x) {
  return llvm::map_to_vector(x, [&](Value value) { return b.neg(value); });
}

Parts tandem::mcf::renormalize(SequenceBuilder &b, ValueRange s) {
  Value x = s[0], y = s[1];
  if (s.size() == 2) {
    apply(twoSum, b, x, y);
    return {x, y};
  }
  Value z = s[2];
  apply(twoSum, b, y, z);
  apply(twoSum, b, x, y);
  apply(twoSum, b, y, z);
  return {x, y, z};
}

/// Builds a long division. Each digit is the leading quotient of the remainder.
static Parts divThree(SequenceBuilder &b, ValueRange x, ValueRange y) {
  Parts digits, rest(x);
  for (unsigned i = 0; i < 3; ++i) {
    digits.push_back(b.div(rest[0], y[0]));
    if (i < 2)
      rest = add(b, rest, neg(b, scale(b, y, digits.back())));
  }
  return renormalize(b, digits);
}

Parts tandem::mcf::div(SequenceBuilder &b, ValueRange x, ValueRange y) {
  if (x.size() == 3)
    return divThree(b, x, y);
  Value t = b.div(x[0], y[0]);
  auto [c, d] = twoProd(b, y[0], t);
  auto [r, f] = fastTwoSum(b, c, b.mul(y[1], t));
  f = b.add(f, d);
  apply(fastTwoSum, b, r, f);
  Value high = b.sub(x[0], r);
  Value low = b.sub(x[1], f);
  Value z = b.div(b.add(high, low), y[0]);
  apply(fastTwoSum, b, t, z);
  return {t, z};
}

Parts tandem::mcf::sqrt(SequenceBuilder &b, ValueRange x) {
  Value root = b.sqrt(x[0]);
  Value residual = b.fma(b.neg(root), root, x[0]);
  Value s = root;
  Value twice = b.add(root, root);
  Value t = b.div(b.add(x[1], residual), twice);
  apply(fastTwoSum, b, s, t);
  Parts result = {s, t};
  Value zero = b.zero(root.getType());
  if (x.size() == 3) {
    Parts estimate = {s, t, zero};
    Parts rest = add(b, x, neg(b, mul(b, estimate, estimate)));
    result = renormalize(b, {s, t, b.div(rest[0], b.add(s, s))});
  }
  Value isZero = b.compare(CmpFPredicate::OEQ, root, zero);
  result[0] = b.select(isZero, root, result[0]);
  for (Value &low : MutableArrayRef(result).drop_front())
    low = b.select(isZero, zero, low);
  return result;
}

Value tandem::mcf::compare(SequenceBuilder &b, ComparePredicate predicate,
                           ValueRange x, ValueRange y) {
  if (predicate == ComparePredicate::gt || predicate == ComparePredicate::ge) {
    std::swap(x, y);
    predicate = predicate == ComparePredicate::gt ? ComparePredicate::lt
                                                  : ComparePredicate::le;
  }
  CmpFPredicate last = predicate == ComparePredicate::eq   ? CmpFPredicate::OEQ
                       : predicate == ComparePredicate::lt ? CmpFPredicate::OLT
                                                           : CmpFPredicate::OLE;
  Value result = b.compare(last, x.back(), y.back());
  for (size_t i = x.size() - 1; i-- > 0;) {
    Value equal = b.compare(CmpFPredicate::OEQ, x[i], y[i]);
    result = b.andi(equal, result);
    if (predicate != ComparePredicate::eq)
      result = b.ori(b.compare(CmpFPredicate::OLT, x[i], y[i]), result);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Mixed expansions
//===----------------------------------------------------------------------===//

/// Returns 2^e in f32 with e = max(exponent(hi), -126), or infinity if hi is
/// not finite.
static Value leadingScale(SequenceBuilder &b, Value high) {
  Value bits = b.bits(b.convert(high, b.builder.getF32Type()));
  Value field = b.andi(bits, b.like(bits, 0x7F800000));
  Value least = b.like(bits, 0x00800000);
  Value clamped =
      b.select(b.compare(CmpIPredicate::ugt, field, least), field, least);
  return b.bitcast(clamped, b.builder.getF32Type());
}

Parts tandem::mcf::widenMixed(SequenceBuilder &b, ValueRange x) {
  Value scale = leadingScale(b, x[0]);
  Value low = b.convert(x[1], b.builder.getF32Type());
  Value eighth = b.real(low.getType(), 0x1p-8);
  // If the scale is infinite, the residual is zero.
  Value isFinite =
      b.compare(CmpFPredicate::OLT, scale,
                b.real(low.getType(), std::numeric_limits<double>::infinity()));
  Value value = b.select(isFinite, b.mul(b.mul(low, eighth), scale), low);
  return {x[0], b.convert(value, getElementTypeOrSelf(x[0].getType()))};
}

Parts tandem::mcf::narrowMixed(SequenceBuilder &b, ValueRange x,
                               Type trailing) {
  Value scale = leadingScale(b, x[0]);
  Value low = b.convert(x[1], b.builder.getF32Type());
  // In this order, no operation overflows unless the result saturates.
  Value scaled = b.mul(b.div(low, scale), b.real(low.getType(), 0x1p8));
  auto format = tandem::FloatFormat::get(trailing);
  llvm::APFloat largest(cast<FloatType>(trailing).getFloatSemantics(),
                        llvm::APInt(format.width(), format.maxFinite()));
  Value limit = b.real(low.getType(), largest.convertToDouble());
  // The comparisons are ordered, so that a NaN is not clamped.
  Value isOver = b.compare(CmpFPredicate::OGT, scaled, limit);
  Value isUnder = b.compare(CmpFPredicate::OLT, scaled, b.neg(limit));
  Value clamped =
      b.select(isOver, limit, b.select(isUnder, b.neg(limit), scaled));
  return {x[0], b.convert(clamped, trailing)};
}
