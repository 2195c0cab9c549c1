//===- TileStages.h - The parts of a body between reductions --------*- C++
//-*-===//
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

/// Says for each operation of a body in which stage it runs, and for each value
/// how a later stage gets it.
class TileStages {
public:
  explicit TileStages(LaunchOp kernel);

  unsigned getCount() const { return count; }
  unsigned getStage(Operation *op) const { return stageOf.lookup(op); }
  /// Elements of the largest group: what all stages run over before the next
  /// elements' turn.
  int64_t getTile() const { return tile; }

  /// Whether no element enters the value.
  bool isUniform(Value value) const;
  /// Whether a reduction ends its stage.
  bool isBoundary(Operation *op) const;
  /// Whether an operation is on what all elements of a tile share, so that it
  /// runs once for the tile, before its stage.
  bool isShared(Operation *op) const { return shared.contains(op); }
  /// Whether a value is kept in memory for later stages; others are computed
  /// again where they are needed.
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
