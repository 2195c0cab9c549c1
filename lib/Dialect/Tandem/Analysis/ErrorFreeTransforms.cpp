//===- ErrorFreeTransforms.cpp - Sums and their errors --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the search for error-free transforms, and the conditions
// under which they are exact.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem/Analysis/ErrorFreeTransforms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

static bool isSumOf(arith::AddFOp sum, Value a, Value b) {
  return sum && ((sum.getLhs() == a && sum.getRhs() == b) ||
                 (sum.getLhs() == b && sum.getRhs() == a));
}

/// Matches b - (x - a).
static std::optional<Transform> matchFastTwoSum(arith::SubFOp op) {
  auto difference = op.getRhs().getDefiningOp<arith::SubFOp>();
  if (!difference)
    return std::nullopt;
  Value a = difference.getRhs(), b = op.getLhs(), sum = difference.getLhs();
  if (!isSumOf(sum.getDefiningOp<arith::AddFOp>(), a, b))
    return std::nullopt;
  return Transform{TransformKind::fast_two_sum, a, b, sum, difference, op};
}

/// Matches (a - (x - b')) + (b - b').
static std::optional<Transform> matchTwoSum(arith::AddFOp op) {
  auto error = op.getRhs().getDefiningOp<arith::SubFOp>();
  auto rest = op.getLhs().getDefiningOp<arith::SubFOp>();
  auto first =
      rest ? rest.getRhs().getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  auto transform = error ? matchFastTwoSum(error) : std::nullopt;
  if (!first || !transform || rest.getLhs() != transform->a ||
      first.getLhs() != transform->result ||
      first.getRhs() != transform->difference->getResult(0))
    return std::nullopt;
  transform->kind = TransformKind::two_sum;
  transform->error = op;
  return transform;
}

/// Matches (a - x) + b.
static std::optional<Transform> matchOrderedTwoSum(arith::AddFOp op) {
  auto difference = op.getLhs().getDefiningOp<arith::SubFOp>();
  if (!difference)
    return std::nullopt;
  Value a = difference.getLhs(), b = op.getRhs(), sum = difference.getRhs();
  if (!isSumOf(sum.getDefiningOp<arith::AddFOp>(), a, b))
    return std::nullopt;
  return Transform{TransformKind::ordered_two_sum, a, b, sum, difference, op};
}

/// Matches fma(a, b, -(a * b)).
static std::optional<Transform> matchTwoProd(math::FmaOp op) {
  auto negation = op.getC().getDefiningOp<arith::NegFOp>();
  auto product = negation ? negation.getOperand().getDefiningOp<arith::MulFOp>()
                          : arith::MulFOp();
  if (!product)
    return std::nullopt;
  Value a = op.getA(), b = op.getB();
  std::pair factors(product.getLhs(), product.getRhs());
  if (factors != std::pair(a, b) && factors != std::pair(b, a))
    return std::nullopt;
  return Transform{TransformKind::two_prod, a, b, product, nullptr, op};
}

std::optional<Transform> tandem::matchTransform(Operation *op) {
  std::optional<Transform> transform;
  if (auto difference = dyn_cast<arith::SubFOp>(op))
    transform = matchFastTwoSum(difference);
  else if (auto fma = dyn_cast<math::FmaOp>(op))
    transform = matchTwoProd(fma);
  else if (auto sum = dyn_cast<arith::AddFOp>(op)) {
    transform = matchTwoSum(sum);
    if (!transform)
      transform = matchOrderedTwoSum(sum);
  }
  if (transform && !isa<FloatType>(transform->result.getType()))
    return std::nullopt;
  return transform;
}

//===----------------------------------------------------------------------===//
// Proofs
//===----------------------------------------------------------------------===//

StringRef tandem::stringifyProof(Proof proof) {
  switch (proof) {
  case Proof::none:
    return "nothing is known of the operands' order";
  case Proof::order:
    return "the first operand is the larger one";
  case Proof::multiple:
    return "the first operand is a multiple of the second one's ulp";
  case Proof::trail:
    return "the second operand is made of errors of sums that lead to the "
           "first";
  case Proof::exponents:
    return "the product is a multiple of the smallest positive number";
  }
  llvm_unreachable("every proof is listed");
}

/// Returns whether a is a multiple of the ulp of the largest b.
static bool isMultipleOfUlp(FloatType type, const FloatRange &a,
                            const FloatRange &b) {
  double largest = b.maxMagnitude();
  if (largest == 0)
    return true;
  int exponent =
      std::isinf(largest)
          ? llvm::APFloat::semanticsMaxExponent(type.getFloatSemantics())
          : std::ilogb(largest);
  return a.quantum >=
         std::max(exponent - int(getPrecision(type)) + 1, getMinQuantum(type));
}

/// Returns whether b < 2^p g, where a is a multiple of g. Then a is also a
/// multiple of b's ulp.
static bool isTrail(const Transform &transform, const FloatRange &b) {
  int precision = getPrecision(transform.getType());
  return llvm::any_of(b.trails, [&](const Trail &trail) {
    return trail.lead == transform.a && trail.exponent < precision;
  });
}

Proof tandem::proveExact(const Transform &transform, const FloatRange &a,
                         const FloatRange &b) {
  FloatType type = transform.getType();
  if (a.isBottom() || b.isBottom())
    return Proof::none;
  if (transform.kind == TransformKind::two_prod)
    return a.quantum + b.quantum >= getMinQuantum(type) ? Proof::exponents
                                                        : Proof::none;
  if (a.minMagnitude() >= b.maxMagnitude())
    return Proof::order;
  if (isMultipleOfUlp(type, a, b))
    return Proof::multiple;
  return isTrail(transform, b) ? Proof::trail : Proof::none;
}

/// The formats in which the lemmas of a proof hold. A test compares them with
/// the record (test/Python/verification/test_proofs.py).
static constexpr std::pair<Proof, StringLiteral> formatsWithLemmas[] = {
    {Proof::order, "bf16 f16 f32 f8E4M3FN f8E5M2"},
    {Proof::multiple, "bf16 f16 f32 f8E4M3FN f8E5M2"},
    {Proof::trail, "bf16 f16 f8E4M3FN f8E5M2"},
    {Proof::exponents, "bf16 f16 f8E4M3FN f8E5M2"}};

bool tandem::hasLemmas(Proof proof, FloatType type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return llvm::any_of(formatsWithLemmas, [&](const auto &entry) {
    return entry.first == proof &&
           llvm::is_contained(llvm::split(entry.second, ' '), name);
  });
}

Trail tandem::getTrail(const Transform &transform, Proof proof) {
  // An error of rounding to nearest, or what a Fast2Sum gives in its place:
  // b' may be rounded once more, which doubles it at most. Its other form,
  // (a - x) + b, gives the same.
  bool isExact = transform.kind == TransformKind::two_sum ||
                 transform.kind == TransformKind::two_prod ||
                 proof != Proof::none;
  return {transform.result, isExact ? -1 : 0, /*isUlp=*/true};
}
