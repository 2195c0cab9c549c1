//===- AnalyzeRanges.cpp - Prove preconditions ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that proves the preconditions of error-free
// transforms, shortens those for which they hold, and reports.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/Analysis/RangeAnalysis.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"

namespace tandem {
#define GEN_PASS_DEF_ANALYZERANGES
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// Returns whether a Fast2Sum is part of a TwoSum, which contains its
/// operations.
static bool isPartOfTwoSum(const Transform &transform) {
  if (transform.kind != TransformKind::fast_two_sum)
    return false;
  return llvm::any_of(transform.error->getUsers(), [&](Operation *user) {
    std::optional<Transform> outer = matchTransform(user);
    return outer && outer->kind == TransformKind::two_sum &&
           outer->difference == transform.difference;
  });
}

static SmallVector<Transform> findTransforms(Operation *top) {
  SmallVector<Transform> transforms;
  top->walk([&](Operation *op) {
    std::optional<Transform> transform = matchTransform(op);
    if (transform && !isPartOfTwoSum(*transform))
      transforms.push_back(*transform);
  });
  return transforms;
}

/// Returns the mcf operation that an operation was created for, as a prefix.
static std::string describeOrigin(Operation *op) {
  auto name = dyn_cast<NameLoc>(op->getLoc());
  if (!name || !name.getName().getValue().starts_with("mcf."))
    return "";
  return name.getName().str() + ": ";
}

static StringRef nameOf(TransformKind kind) {
  switch (kind) {
  case TransformKind::fast_two_sum:
    return "fast_two_sum";
  case TransformKind::two_sum:
  case TransformKind::ordered_two_sum:
    return "two_sum";
  case TransformKind::two_prod:
    return "two_prod";
  }
  llvm_unreachable("every kind is listed");
}

/// Describes what a two_sum is rewritten to, and why.
static std::string judgeTwoSum(FloatType type, Proof proof, bool isSumFinite) {
  std::string why = stringifyProof(proof).str();
  if (proof == Proof::none)
    return "guarded: " + why;
  if (!isSumFinite)
    return "guarded: the sum may overflow, but " + why;
  if (!hasLemmas(proof, type))
    return "guarded: there is no lemma about this format, but " + why;
  return "proved, and shortened: " + why;
}

/// Describes what a transform is rewritten to, and why.
static std::string judge(const Transform &transform, Proof proof,
                         bool isSumFinite) {
  if (transform.kind == TransformKind::two_sum)
    return judgeTwoSum(transform.getType(), proof, isSumFinite);
  std::string why = stringifyProof(proof).str();
  if (proof != Proof::none)
    return "proved: " + why;
  if (transform.kind == TransformKind::two_prod)
    return "kept: the error may be below the smallest positive number";
  return "granted: " + why;
}

namespace {
struct AnalyzeRangesPass
    : public tandem::impl::AnalyzeRangesBase<AnalyzeRangesPass> {
  using AnalyzeRangesBase::AnalyzeRangesBase;

  void runOnOperation() override {
    SmallVector<Transform> transforms = findTransforms(getOperation());
    if (transforms.empty())
      return;
    Ranges ranges(getOperation());
    SmallVector<Operation *> shortened;
    for (const Transform &transform : transforms) {
      Proof proof = ranges.prove(transform);
      bool isSumFinite =
          FloatRange::isSumFinite(transform.getType(), ranges.get(transform.a),
                                  ranges.get(transform.b));
      count(transform.kind, proof);
      if (report)
        transform.error->emitRemark()
            << describeOrigin(transform.error) << nameOf(transform.kind)
            << " is " << judge(transform, proof, isSumFinite);
      if (transform.kind == TransformKind::two_sum && isSumFinite &&
          hasLemmas(proof, transform.getType()))
        shortened.push_back(transform.error);
    }
    for (Operation *error : shortened)
      shorten(error);
  }

private:
  void count(TransformKind kind, Proof proof) {
    if (proof != Proof::none)
      ++numProved;
    else if (kind == TransformKind::fast_two_sum)
      ++numGranted;
    else if (kind == TransformKind::two_sum)
      ++numGuarded;
  }

  /// Rewrites the error of a TwoSum as y = (a - x) + b.
  void shorten(Operation *error) {
    ++numShortened;
    // Match again: an operand may be an error that has been shortened.
    Transform transform = *matchTransform(error);
    Operation *rest = error->getOperand(0).getDefiningOp();
    Operation *unused[] = {rest, rest->getOperand(1).getDefiningOp(),
                           error->getOperand(1).getDefiningOp(),
                           transform.difference};
    OpBuilder builder(error);
    SequenceBuilder b(builder, error->getLoc());
    Value sum = b.add(b.sub(transform.a, transform.result), transform.b);
    error->getResult(0).replaceAllUsesWith(sum);
    error->erase();
    for (Operation *op : unused)
      if (op->use_empty())
        op->erase();
  }
};
} // namespace
