//===- ErrorFreeTransforms.h - Sums and their errors ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the functions that find error-free transforms in
// arithmetic of one format and prove them exact.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_ANALYSIS_ERRORFREETRANSFORMS_H
#define TANDEM_DIALECT_TANDEM_ANALYSIS_ERRORFREETRANSFORMS_H

#include "tandem/Dialect/Tandem/Analysis/FloatRange.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <optional>

namespace tandem {

enum class TransformKind {
  /// x = a + b, y = b - (x - a).
  fast_two_sum,
  /// x = a + b, y = (a - (x - b')) + (b - b') with b' = x - a.
  two_sum,
  /// x = a + b, y = (a - x) + b: two_sum where fast_two_sum is exact and x is
  /// finite.
  ordered_two_sum,
  /// x = a * b, y = fma(a, b, -x).
  two_prod
};

/// The operations of a transform; the last one, `error`, gives y.
struct Transform {
  TransformKind kind;
  Value a, b, result;
  /// x - a or a - x.
  Operation *difference;
  Operation *error;

  FloatType getType() const { return cast<FloatType>(result.getType()); }
};

/// Returns the transform whose last operation is `op`, or none.
std::optional<Transform> matchTransform(Operation *op);

/// The reason why a transform gives the error exactly if everything is finite.
enum class Proof {
  none,
  /// |a| >= |b|.
  order,
  /// a is a multiple of b's unit in the last place.
  multiple,
  /// b trails a: it is the error of a sum that a is, or is a part of.
  trail,
  /// The product is a multiple of the smallest positive number.
  exponents
};
StringRef stringifyProof(Proof proof);

/// Proves, if it can, that the format represents x - a (for a sum) or the error
/// (for a product).
Proof proveExact(const Transform &transform, const FloatRange &a,
                 const FloatRange &b);

/// Returns whether all lemmas that a proof uses, and those about the rewriting
/// that it allows, are known to hold in the format
/// (verification/proof_lemmas.py and proof_steps.py have them). If not, nothing
/// may be rewritten.
bool hasLemmas(Proof proof, FloatType type);

/// Returns the bound on a transform's error relative to its result.
Trail getTrail(const Transform &transform, Proof proof);

} // namespace tandem

#endif // TANDEM_DIALECT_TANDEM_ANALYSIS_ERRORFREETRANSFORMS_H
