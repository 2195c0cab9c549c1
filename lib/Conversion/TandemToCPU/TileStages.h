//===- TileStages.h - The parts of a body between reductions ----*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the division of a kernel's body into stages. A reduction
// over more elements than a block computes at once is known only when all
// blocks of its group have run: it ends a stage.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTOCPU_TILESTAGES_H
#define TANDEM_LIB_CONVERSION_TANDEMTOCPU_TILESTAGES_H

#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "llvm/ADT/MapVector.h"

namespace tandem {

/// Assigns each operation of a body to a stage, and decides how later stages
/// get each value.
class TileStages {
public:
  explicit TileStages(LaunchOp kernel);

  unsigned getCount() const { return count; }
  unsigned getStage(Operation *op) const { return stageOf.lookup(op); }
  /// Returns the number of elements of the largest group. All stages run over
  /// these elements before the next ones.
  int64_t getTile() const { return tile; }

  /// Returns whether the value does not depend on elements.
  bool isUniform(Value value) const;
  /// Returns whether an operation is a reduction that ends its stage.
  bool isBoundary(Operation *op) const;
  /// Returns whether an operation handles values that all elements of a tile
  /// share, so that it runs once per tile, before its stage.
  bool isShared(Operation *op) const { return shared.contains(op); }
  /// Returns whether a value is kept in memory for later stages. Other values
  /// are recomputed where they are needed.
  bool isKept(Value value) const { return kept.contains(value); }
  const llvm::SetVector<Value> &getKept() const { return kept; }

private:
  void assignStages(Block &body);
  void delay(Operation *op);
  void findShared(Block &body);
  bool isSharedOperand(Value value) const;
  void findKept(Block &body);
  bool isRecomputed(Value value, unsigned depth) const;

  int64_t width, tile;
  unsigned count = 1;
  llvm::DenseMap<Operation *, unsigned> stageOf;
  llvm::DenseSet<Operation *> uniform, shared;
  llvm::SetVector<Value> kept;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTOCPU_TILESTAGES_H
