//===- Reductions.h - The steps of reductions -------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the steps that reductions consist of on every target.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_REDUCTIONS_H
#define TANDEM_CONVERSION_REDUCTIONS_H

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// A reduction and the type of its values: f32 or f64 for a sum, else i32.
struct Reduction {
  ReduceKind kind;
  Type type;

  bool isSum() const { return kind == ReduceKind::sum; }
};

/// Returns the reduction over elements that a partial or a metric is part of. A
/// metric is a sum.
Reduction getReduction(Operation *op);

/// Builds the identity of a reduction, -0.0 for a sum. Maxima and minima are
/// those of unsigned integers.
Value buildIdentity(SequenceBuilder &b, ReduceKind kind, Type type);

/// Builds the reduction of two values.
Value buildJoin(SequenceBuilder &b, ReduceKind kind, Value x, Value y);

/// Builds the maximum or minimum of a vector's lanes.
Value buildExtreme(SequenceBuilder &b, ReduceKind kind, Value vector);

/// Builds the numbers of a vector's lanes: 0, 1, 2...
Value buildLaneNumbers(SequenceBuilder &b, VectorType type);

/// Builds a mask of the lanes whose number is below `count`.
Value buildLaneMask(SequenceBuilder &b, Value numbers, Value count);

} // namespace tandem

#endif // TANDEM_CONVERSION_REDUCTIONS_H
