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

/// The sums of neighbouring lanes of a vector, half as many.
Value addNeighbours(SequenceBuilder &b, Value vector);

/// Adds the lanes of the concatenated vectors, neighbours first. The number of
/// vectors is a power of two.
Value sumLanes(SequenceBuilder &b, ArrayRef<Value> vectors);

/// Adds the lanes of a vector; those from `count` on are -0.0. A scalar is its
/// own sum.
Value sumLanes(SequenceBuilder &b, Value value, Value count);

/// One sum over the blocks of a chunk: neighbours first, padded with -0.0.
/// Partial sums of 2^k blocks lie on a stack, level k; adding a block carries
/// like a binary counter.
class TreeSum {
public:
  /// Levels of the stack, 8 bytes each: more than the bits of any chunk size.
  static constexpr int64_t maxLevels = 64;

  /// A sum of f32 or f64, or of vectors of them lane by lane, whose stack is at
  /// a pointer and has a level every `levelBytes` bytes.
  TreeSum(LaunchBuilder &launch, Value stack, Type type, int64_t levelBytes = 8)
      : launch(launch), stack(stack), type(type), levelBytes(levelBytes) {}

  /// Adds the sum of block number `block`; blocks come in order.
  void addBlock(SequenceBuilder &b, Value sum, Value block);

  /// The sum of the first `blocks` blocks.
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
