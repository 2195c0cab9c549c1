//===- ColumnReductions.cpp - Reductions of a tile's columns --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements reductions of columns over the rows of a tile.
//
//===----------------------------------------------------------------------===//

#include "ColumnReductions.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Conversion/Reductions.h"

using namespace mlir;
using namespace tandem;

ColumnReductions::ColumnReductions(LaunchOp kernel, LaunchBuilder &launch)
    : launch(launch),
      numLevels(llvm::Log2_64(getMaxTileRows(kernel, maxTileRowsOfGPU)) + 1) {
  for (auto op : kernel.getBodyBlock().getOps<PartialOp>())
    if (op.isDownColumns())
      ops.push_back(op);
}

SmallVector<Value> ColumnReductions::getInitial(SequenceBuilder &b) {
  SmallVector<Value> values;
  for (PartialOp op : ops) {
    Type type = op.getValue().getType();
    if (op.getScope() == Granularity::block)
      type = getElementTypeOrSelf(type);
    values.append(getNumValues(op), buildIdentity(b, op.getKind(), type));
  }
  return values;
}

SmallVector<SmallVector<Value>> ColumnReductions::split(ValueRange state) {
  SmallVector<SmallVector<Value>> parts;
  for (PartialOp op : ops) {
    unsigned count = getNumValues(op);
    parts.emplace_back(state.take_front(count));
    state = state.drop_front(count);
  }
  return parts;
}

Value ColumnReductions::isSet(SequenceBuilder &b, Value number, unsigned bit) {
  Value mask = launch.i64(int64_t(1) << bit);
  return b.compare(arith::CmpIPredicate::ne, b.andi(number, mask),
                   launch.i64(0));
}

SmallVector<Value> ColumnReductions::carry(SequenceBuilder &b,
                                           ArrayRef<Value> levels, Value value,
                                           Value row, unsigned level) {
  SmallVector<Value> stored(levels);
  stored[level] = value;
  if (level + 1 == levels.size())
    return stored;
  auto branch = scf::IfOp::create(b.builder, b.loc, TypeRange(levels),
                                  isSet(b, row, level),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b.builder);
  b.builder.setInsertionPointToStart(branch.thenBlock());
  Value sum = b.add(levels[level], value);
  scf::YieldOp::create(b.builder, b.loc, carry(b, levels, sum, row, level + 1));
  b.builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b.builder, b.loc, stored);
  return SmallVector<Value>(branch.getResults());
}

SmallVector<Value> ColumnReductions::add(SequenceBuilder &b, ValueRange state,
                                         ArrayRef<Value> values, Value row) {
  SmallVector<Value> next;
  for (auto [op, levels, value] : llvm::zip(ops, split(state), values)) {
    if (isSum(op))
      llvm::append_range(next, carry(b, levels, value, row, /*level=*/0));
    else
      next.push_back(buildJoin(b, op.getKind(), levels[0], value));
  }
  return next;
}

/// Adds up the set levels. The lowest level has no sum that it could be added
/// to.
Value ColumnReductions::sumLevels(SequenceBuilder &b, ArrayRef<Value> levels,
                                  Value rows) {
  Value total =
      b.select(isSet(b, rows, 0), levels[0], b.real(levels[0].getType(), -0.0));
  for (unsigned level = 1; level < levels.size(); ++level) {
    Value sum = b.add(levels[level], total);
    total = b.select(isSet(b, rows, level), sum, total);
  }
  return total;
}

SmallVector<Value> ColumnReductions::getTotals(SequenceBuilder &b,
                                               ValueRange state, Value rows) {
  SmallVector<Value> totals;
  for (auto [op, levels] : llvm::zip(ops, split(state)))
    totals.push_back(isSum(op) ? sumLevels(b, levels, rows) : levels[0]);
  return totals;
}
