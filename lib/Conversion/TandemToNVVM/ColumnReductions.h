//===- ColumnReductions.h - Reductions of a tile's columns ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares reductions of columns over the rows of a tile. Each thread
// reduces its own columns.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTONVVM_COLUMNREDUCTIONS_H
#define TANDEM_LIB_CONVERSION_TANDEMTONVVM_COLUMNREDUCTIONS_H

#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

namespace tandem {

/// The partial reductions of columns and blocks in a kernel. A thread carries
/// its state from row to row: a maximum or minimum, which all its columns in a
/// block share, or the levels of a sum's tree, where level k holds the sum of
/// 2^k rows.
class ColumnReductions {
public:
  ColumnReductions(LaunchOp kernel, LaunchBuilder &launch);

  ArrayRef<PartialOp> getOps() { return ops; }

  /// Returns the state before the first row.
  SmallVector<Value> getInitial(SequenceBuilder &b);
  /// Adds the row with number `row`: one vector for each partial of columns,
  /// one scalar for each of a block.
  SmallVector<Value> add(SequenceBuilder &b, ValueRange state,
                         ArrayRef<Value> values, Value row);
  /// Returns the results after a number of rows, in the same form.
  SmallVector<Value> getTotals(SequenceBuilder &b, ValueRange state,
                               Value rows);

private:
  static bool isSum(PartialOp op) { return op.getKind() == ReduceKind::sum; }
  unsigned getNumValues(PartialOp op) const {
    return isSum(op) ? numLevels : 1;
  }
  /// Adds a value at a level, carrying like a binary counter.
  SmallVector<Value> carry(SequenceBuilder &b, ArrayRef<Value> levels,
                           Value value, Value row, unsigned level);
  Value sumLevels(SequenceBuilder &b, ArrayRef<Value> levels, Value rows);
  Value isSet(SequenceBuilder &b, Value number, unsigned bit);
  SmallVector<SmallVector<Value>> split(ValueRange state);

  LaunchBuilder &launch;
  /// The number of levels of a tile's tree.
  unsigned numLevels;
  SmallVector<PartialOp> ops;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_COLUMNREDUCTIONS_H
