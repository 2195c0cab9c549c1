//===- Transcendentals.cpp - exp, log, tanh, erf --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the reference interpreter's transcendental functions,
// from the listings in docs/Numerics.md.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Interpreter/Codes.h"
#include "tandem/Reference/Interpreter/Operations.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace tandem::reference;

/// Evaluates a polynomial, whose coefficients begin with the constant one.
static SoftFloat evaluatePolynomial(const SoftFloat &x,
                                    ArrayRef<double> coefficients) {
  SoftFloat sum = toReal(coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = sum.fma(x, toReal(coefficient));
  return sum;
}

static bool isLess(const SoftFloat &a, double b) {
  return a.compare(toReal(b)) == Ordering::Less;
}

/// Computes exp. n is the integer nearest to the product of x and the constant
/// for 1/log(2).
static SoftFloat exponential(const SoftFloat &x) {
  if (x.isNaN())
    return x;
  SoftFloat within = isLess(x, -104) ? toReal(-104)
                     : isLess(x, 89) ? x
                                     : toReal(89);
  double product = within.toDouble() * double(0x1.715476p+0f);
  SoftFloat n = SoftFloat::fromDouble(Format::F64, product)
                    .roundToIntegral(SoftFloat::kNearest)
                    .convert(Format::F32);
  SoftFloat r = n.fma(toReal(-0x1.62e430p-1), within);
  r = n.fma(toReal(0x1.05c610p-29), r);
  SoftFloat q =
      evaluatePolynomial(r, {0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558acp-5,
                             0x1.12397ep-7, 0x1.6a515ap-10});
  SoftFloat power = toReal(1).add(r.mul(r).fma(q, r));
  return power.scaleByPowerOfTwo(int(n.toDouble()));
}

static SoftFloat logarithm(const SoftFloat &x) {
  if (x.isZero())
    return SoftFloat::getInf(Format::F32, /*negative=*/true);
  if (x.isNaN() || x.isNegative())
    return SoftFloat::getNaN(Format::F32);
  if (x.isInf())
    return x;
  int exponent = 0;
  SoftFloat m = x;
  for (; isLess(m, 0x1.6A09E6p-1); --exponent)
    m = m.scaleByPowerOfTwo(1);
  for (; !isLess(m, 0x1.6A09E6p+0); ++exponent)
    m = m.scaleByPowerOfTwo(-1);
  SoftFloat f = m.sub(toReal(1)), e = toReal(exponent);
  SoftFloat square = f.mul(f);
  SoftFloat rest = f.mul(square).mul(evaluatePolynomial(
      f, {0x1.555554p-2, -0x1.000226p-2, 0x1.99a01ap-3, -0x1.547280p-3,
          0x1.22d956p-3, -0x1.0d8304p-3, 0x1.055e3ap-3, -0x1.38c406p-4}));
  rest = e.fma(toReal(0x1.7f7d1cp-20), rest);
  rest = toReal(-0.5).fma(square, rest);
  return e.fma(toReal(0x1.62e4p-1), f.add(rest));
}

static SoftFloat hyperbolicTangent(const SoftFloat &x) {
  SoftFloat a = x.abs();
  if (!isLess(a, 0.625)) {
    SoftFloat power = exponential(a.add(a));
    return toReal(1).sub(toReal(2).div(power.add(toReal(1)))).copySign(x);
  }
  SoftFloat square = a.mul(a);
  SoftFloat q =
      evaluatePolynomial(square, {-0x1.55549ap-2, 0x1.10e8f8p-3, -0x1.b48b6ep-5,
                                  0x1.3b71e4p-6, -0x1.15c772p-8});
  return a.mul(square).fma(q, a).copySign(x);
}

static SoftFloat errorFunction(const SoftFloat &x) {
  if (x.isNaN())
    return x;
  SoftFloat a = x.abs();
  if (isLess(a, 1)) {
    SoftFloat p = evaluatePolynomial(
        a.mul(a), {0x1.06eba8p-3, -0x1.81273ep-2, 0x1.ce2ce6p-4, -0x1.b7f71ap-6,
                   0x1.53f224p-8, -0x1.a3515ep-11, 0x1.4771fep-14});
    return a.fma(p, a).copySign(x);
  }
  SoftFloat t = (isLess(a, 4) ? a : toReal(4)).sub(toReal(2.4375));
  return evaluatePolynomial(t,
                            {0x1.ffb5bep-1, 0x1.84b7e4p-9, -0x1.d9c65ep-8,
                             0x1.609450p-7, -0x1.5ea1c8p-7, 0x1.d7e42ep-8,
                             -0x1.8a4196p-9, 0x1.990c20p-12, 0x1.bc4942p-12,
                             -0x1.4b9adcp-12, 0x1.114bf6p-14, 0x1.eea828p-16,
                             -0x1.0aa4b6p-16, -0x1.18aeb4p-22, 0x1.e2275cp-21})
      .copySign(x);
}

/// Computes in f32 for all formats of the operand.
template <SoftFloat (*function)(const SoftFloat &)>
static llvm::Error evaluate(Evaluation &e) {
  SoftFloat x = e.getReal(0).convert(Format::F32);
  return e.give(function(x).convert(*getFormat(e.getResultElement())));
}

void tandem::reference::addTranscendentalOperations(OperationTable &table) {
  table["math.exp"] = evaluate<exponential>;
  table["math.log"] = evaluate<logarithm>;
  table["math.tanh"] = evaluate<hyperbolicTangent>;
  table["math.erf"] = evaluate<errorFunction>;
}
