//===- TranscendentalsToArith.cpp - exp, log, tanh, erf as f32 ------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that expands transcendental functions into
// sequences of f32 and integer operations, so that their results are the same
// on every target. docs/Numerics.md has the listings and the maximum errors.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/TranscendentalsToArith.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem/Conversion/ExpandOperations.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTTRANSCENDENTALSTOARITH
#include "tandem/Conversion/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

static constexpr double infinity = std::numeric_limits<double>::infinity();

// The coefficients are rounded to f32 and minimize the relative error of the
// function that they are part of. Each comment has this error.

// (exp(r) - 1 - r) / r^2 on [-log(2)/2, log(2)/2], 2^-28.2.
static constexpr double expCoefficients[] = {
    0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558acp-5, 0x1.12397ep-7, 0x1.6a515ap-10};

// (log(1 + f) - f + f^2/2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1], 2^-27.3.
static constexpr double logCoefficients[] = {
    0x1.555554p-2, -0x1.000226p-2, 0x1.99a01ap-3, -0x1.547280p-3,
    0x1.22d956p-3, -0x1.0d8304p-3, 0x1.055e3ap-3, -0x1.38c406p-4};

// (tanh(a) / a - 1) / a^2 by a^2 up to 0.625^2, 2^-24.8.
static constexpr double tanhCoefficients[] = {-0x1.55549ap-2, 0x1.10e8f8p-3,
                                              -0x1.b48b6ep-5, 0x1.3b71e4p-6,
                                              -0x1.15c772p-8};

// (erf(a) / a - 1) by a^2 up to 1, 2^-29.4 of erf(a) / a.
static constexpr double erfCoefficients[] = {
    0x1.06eba8p-3, -0x1.81273ep-2,  0x1.ce2ce6p-4, -0x1.b7f71ap-6,
    0x1.53f224p-8, -0x1.a3515ep-11, 0x1.4771fep-14};

// erf(a) by a - 39/16 from 1 to 4, where 2^-26.6 is the absolute error.
static constexpr double erfTailCoefficients[] = {
    0x1.ffb5bep-1,   0x1.84b7e4p-9,   -0x1.d9c65ep-8, 0x1.609450p-7,
    -0x1.5ea1c8p-7,  0x1.d7e42ep-8,   -0x1.8a4196p-9, 0x1.990c20p-12,
    0x1.bc4942p-12,  -0x1.4b9adcp-12, 0x1.114bf6p-14, 0x1.eea828p-16,
    -0x1.0aa4b6p-16, -0x1.18aeb4p-22, 0x1.e2275cp-21};

/// Returns 2^(integer - 127) for integers from 1 to 254.
static Value buildPower(SequenceBuilder &b, Value integer) {
  return b.bitcast(b.shl(integer, 23), b.builder.getF32Type());
}

/// Returns exp(r) 2^n with x = r + n log(2). It multiplies by 2^n in two steps,
/// so that a subnormal or overflowing result is rounded once, by the second.
static Value buildExp(SequenceBuilder &b, Value x) {
  using P = arith::CmpFPredicate;
  auto real = [&](double value) { return b.real(x.getType(), value); };
  x = b.select(b.compare(P::OGT, x, real(89.0)), real(89.0), x);
  x = b.select(b.compare(P::OLT, x, real(-104.0)), real(-104.0), x);
  // The ulp of a sum near 2^23 + 2^22 is 1, so that its low bits hold the
  // integer.
  Value sum = b.fma(x, real(0x1.715476p+0), real(0x1.8p23));
  Value whole = b.sub(sum, real(0x1.8p23));
  Value r = b.fma(whole, real(-0x1.62e430p-1), x);
  r = b.fma(whole, real(0x1.05c610p-29), r);
  Value sumOfPowers = b.polynomial(r, expCoefficients);
  Value rest = b.fma(b.mul(r, r), sumOfPowers, r);
  Value power = b.add(real(1.0), rest);
  // Adding 256 makes n non-negative, so that a shift halves it.
  Value n = b.bits(sum);
  n = b.subi(n, b.like(n, 0x4B400000 - 256));
  Value half = b.shr(n, 1);
  Value first = buildPower(b, b.subi(half, b.like(half, 1)));
  Value second = buildPower(b, b.subi(b.subi(n, half), b.like(half, 1)));
  return b.mul(b.mul(power, first), second);
}

/// Returns log(m) + e log(2) with x = m 2^e and m from sqrt(1/2) to sqrt(2).
static Value buildLog(SequenceBuilder &b, Value x) {
  using P = arith::CmpFPredicate;
  auto real = [&](double value) { return b.real(x.getType(), value); };
  Value isSmall = b.compare(P::OLT, x, real(0x1p-126));
  Value normal = b.select(isSmall, b.mul(x, real(0x1p23)), x);
  Value bits = b.bits(normal);
  Value shifted = b.subi(bits, b.like(bits, 0x3F3504F3));
  Value field = b.andi(shifted, b.like(shifted, 0xFF800000));
  Value mantissa = b.bitcast(b.subi(bits, field), b.builder.getF32Type());
  Value f = b.sub(mantissa, real(1.0));
  Value scaling = b.select(isSmall, real(-23.0), real(0.0));
  Value e = b.fma(b.toReal(field), real(0x1p-23), scaling);
  Value square = b.mul(f, f);
  Value sumOfPowers = b.polynomial(f, logCoefficients);
  Value rest = b.mul(b.mul(f, square), sumOfPowers);
  rest = b.fma(e, real(0x1.7f7d1cp-20), rest);
  rest = b.fma(real(-0.5), square, rest);
  Value result = b.fma(e, real(0x1.62e4p-1), b.add(f, rest));
  result = b.select(b.compare(P::OLT, x, real(infinity)), result, x);
  Value outside = b.select(b.compare(P::OEQ, x, real(0.0)), real(-infinity),
                           b.fromBits(x.getType(), 0x7FFFFFFF));
  return b.select(b.compare(P::OGT, x, real(0.0)), result, outside);
}

/// Returns a non-negative number with the sign of another.
static Value withSign(SequenceBuilder &b, Value magnitude, Value x) {
  Value bits = b.bits(magnitude);
  Value sign = b.andi(b.bits(x), b.like(bits, f32SignMask));
  return b.bitcast(b.ori(bits, sign), b.builder.getF32Type());
}

/// Returns tanh, an odd function: a polynomial near zero, 1 - 2 / (exp(2a) + 1)
/// beyond.
static Value buildTanh(SequenceBuilder &b, Value x) {
  auto real = [&](double value) { return b.real(x.getType(), value); };
  Value a = b.abs(x);
  Value square = b.mul(a, a);
  Value sumOfPowers = b.polynomial(square, tanhCoefficients);
  Value small = b.fma(b.mul(a, square), sumOfPowers, a);
  Value power = buildExp(b, b.add(a, a));
  Value large = b.sub(real(1.0), b.div(real(2.0), b.add(power, real(1.0))));
  Value isSmall = b.compare(arith::CmpFPredicate::OLT, a, real(0.625));
  return withSign(b, b.select(isSmall, small, large), x);
}

/// Returns erf, an odd function: a polynomial of the square up to 1, and one of
/// the magnitude up to 4, beyond which erf is 1 in f32.
static Value buildErf(SequenceBuilder &b, Value x) {
  using P = arith::CmpFPredicate;
  auto real = [&](double value) { return b.real(x.getType(), value); };
  Value a = b.abs(x);
  Value small = b.fma(a, b.polynomial(b.mul(a, a), erfCoefficients), a);
  Value within = b.select(b.compare(P::OGT, a, real(4.0)), real(4.0), a);
  Value large =
      b.polynomial(b.sub(within, real(39.0 / 16)), erfTailCoefficients);
  Value isSmall = b.compare(P::OLT, a, real(1.0));
  return withSign(b, b.select(isSmall, small, large), x);
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// Replaces a function by what `build` returns for its operand in f32.
template <typename OpTy, Value (*build)(SequenceBuilder &, Value)>
static LogicalResult expand(OpTy op, PatternRewriter &rewriter) {
  SequenceBuilder b(rewriter, op.getLoc());
  Value x = b.convert(op.getOperand(), rewriter.getF32Type());
  Type element = getElementTypeOrSelf(op.getType());
  rewriter.replaceOp(op, b.convert(build(b, x), element));
  return success();
}

void tandem::populateTranscendentalsToArithPatterns(
    RewritePatternSet &patterns) {
  patterns.add(expand<math::ExpOp, buildExp>);
  patterns.add(expand<math::LogOp, buildLog>);
  patterns.add(expand<math::TanhOp, buildTanh>);
  patterns.add(expand<math::ErfOp, buildErf>);
}

namespace {
struct ConvertTranscendentalsToArithPass
    : public tandem::ExpandOperationsPass<
          tandem::impl::ConvertTranscendentalsToArithBase<
              ConvertTranscendentalsToArithPass>> {
  LogicalResult populate(RewritePatternSet &set) override {
    tandem::populateTranscendentalsToArithPatterns(set);
    return success();
  }
};
} // namespace
