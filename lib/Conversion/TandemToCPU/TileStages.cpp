//===- TileStages.cpp - The parts of a body between reductions ------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the division of a kernel's body into stages.
//
//===----------------------------------------------------------------------===//

#include "TileStages.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem/Conversion/LaunchABI.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "convert-tandem-to-cpu"

using namespace mlir;
using namespace tandem;

TileStages::TileStages(LaunchOp kernel)
    : width(kernel.getWidth()), tile(kernel.getWidth()) {
  Block &body = kernel.getBodyBlock();
  for (Operation &op : body.without_terminator()) {
    if (auto reduce = dyn_cast<ReduceOp>(op))
      tile = std::max<int64_t>(tile, reduce.getGroup());
    auto load = dyn_cast<LoadPlaneOp>(op);
    if (load && !kernel.isPerTensor() && LaunchBuilder::isLoadedOnce(load))
      uniform.insert(&op);
    if (isPure(&op) && !isa<ReduceOp>(op) &&
        llvm::all_of(op.getOperands(),
                     [&](Value operand) { return isUniform(operand); }))
      uniform.insert(&op);
  }
  assignStages(body);
  LDBG() << "'" << kernel.getFunctionName() << "' has " << count
         << " stages, over tiles of " << tile << " elements in blocks of "
         << width;
  if (count == 1)
    return;
  if (width > 1)
    findShared(body);
  findKept(body);
  for (Value value : kept)
    LDBG() << "stays in memory for a later stage: " << value;
}

bool TileStages::isUniform(Value value) const {
  Operation *op = value.getDefiningOp();
  return !op || uniform.contains(op);
}

bool TileStages::isBoundary(Operation *op) const {
  auto reduce = dyn_cast_or_null<ReduceOp>(op);
  return reduce && int64_t(reduce.getGroup()) > width;
}

/// Assigns each operation to the earliest stage that its operands allow, then
/// moves those that only later stages read to the latest stage possible.
void TileStages::assignStages(Block &body) {
  for (Operation &op : body.without_terminator()) {
    unsigned stage = 0;
    for (Value operand : op.getOperands())
      if (Operation *source = operand.getDefiningOp())
        stage = std::max(stage, stageOf[source] + isBoundary(source));
    stageOf[&op] = stage;
    count = std::max(count, stage + 1);
  }
  if (count > 1)
    for (Operation &op : llvm::reverse(body.without_terminator()))
      delay(&op);
}

void TileStages::delay(Operation *op) {
  if (!isPure(op) || isa<ReduceOp>(op) || op->use_empty())
    return;
  unsigned earliest = count;
  for (Operation *user : op->getUsers())
    earliest = std::min(earliest, stageOf[user]);
  stageOf[op] = std::max(stageOf[op], earliest);
}

/// Returns whether all elements of a tile have the same value, known before a
/// stage begins.
bool TileStages::isSharedOperand(Value value) const {
  Operation *op = value.getDefiningOp();
  if (isUniform(value) || isShared(op))
    return true;
  return isBoundary(op) && int64_t(cast<ReduceOp>(op).getGroup()) == tile;
}

/// Finds accesses to entries that the elements of a tile share, and scalars
/// that depend only on these entries and on reductions of the tile.
void TileStages::findShared(Block &body) {
  auto isVector = [](Type type) { return isa<VectorType>(type); };
  for (Operation &op : body.without_terminator()) {
    bool isEntry = false;
    if (auto load = dyn_cast<LoadPlaneOp>(op))
      isEntry = load.getElementsPerEntry() >= tile;
    else if (auto store = dyn_cast<StorePlaneOp>(op))
      isEntry = store.getElementsPerEntry() >= tile;
    bool isScalar = llvm::none_of(op.getOperandTypes(), isVector) &&
                    llvm::none_of(op.getResultTypes(), isVector);
    if (isScalar && (isEntry || (isPure(&op) && !isa<ReduceOp>(op))) &&
        !uniform.contains(&op) &&
        llvm::all_of(op.getOperands(),
                     [&](Value operand) { return isSharedOperand(operand); }))
      shared.insert(&op);
  }
}

void TileStages::findKept(Block &body) {
  for (Operation &op : body.without_terminator())
    for (Value operand : op.getOperands())
      if (!isUniform(operand) && !isBoundary(operand.getDefiningOp()) &&
          !isShared(operand.getDefiningOp()) &&
          stageOf[operand.getDefiningOp()] < stageOf[&op])
        kept.insert(operand);
  for (Value value : llvm::to_vector(llvm::reverse(kept)))
    if (isRecomputed(value, /*depth=*/0))
      kept.remove(value);
}

/// Returns whether a few cheap operations compute the value from kept values.
bool TileStages::isRecomputed(Value value, unsigned depth) const {
  constexpr unsigned deepest = 4;
  Operation *op = value.getDefiningOp();
  if (depth == deepest || !isPure(op) ||
      isa<ReduceOp, LookupOp, arith::DivFOp, math::SqrtOp>(op))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return isUniform(operand) || kept.contains(operand) ||
           isShared(operand.getDefiningOp()) ||
           isBoundary(operand.getDefiningOp()) ||
           isRecomputed(operand, depth + 1);
  });
}
