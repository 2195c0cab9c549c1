//===- TreeSum.h - Sums as balanced trees -----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the generated code that sums the elements of a chunk in a
// balanced binary tree.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_TREESUM_H
#define TANDEM_CONVERSION_TREESUM_H

#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Adds neighbouring lanes of a vector, which gives half as many lanes.
Value addNeighbours(SequenceBuilder &b, Value vector);

/// Adds the lanes of the concatenated vectors, neighbours first. The number of
/// vectors is a power of two.
Value sumLanes(SequenceBuilder &b, ArrayRef<Value> vectors);

/// Adds the lanes of a vector, with -0.0 in place of those from `count` on. A
/// scalar is its own sum.
Value sumLanes(SequenceBuilder &b, Value value, Value count);

/// One sum over the blocks of a chunk, which adds neighbours first and pads
/// with -0.0. Level k of a stack holds the sum of 2^k blocks; adding a block
/// carries like a binary counter.
class TreeSum {
public:
  /// The number of levels of the stack, which exceeds the bits of any chunk
  /// size. A level has 8 bytes.
  static constexpr int64_t maxLevels = 64;

  /// Creates a sum of f32 or f64, or of vectors of them lane by lane. The stack
  /// is at a pointer and has a level every `levelBytes` bytes.
  TreeSum(LaunchBuilder &launch, Value stack, Type type, int64_t levelBytes = 8)
      : launch(launch), stack(stack), type(type), levelBytes(levelBytes) {}

  /// Adds the sum of block number `block`; blocks come in order.
  void addBlock(SequenceBuilder &b, Value sum, Value block);

  /// Returns the sum of the first `blocks` blocks.
  Value getTotal(SequenceBuilder &b, Value blocks);

private:
  Value getLevel(Value level);
  Value loadLevel(Value level);
  unsigned getAlignment() const;

  LaunchBuilder &launch;
  Value stack;
  Type type;
  int64_t levelBytes;
};

} // namespace tandem

#endif // TANDEM_CONVERSION_TREESUM_H
