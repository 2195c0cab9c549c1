//===- BlockSum.h - Sums over the blocks of a chunk -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the sum over a chunk's blocks of elements.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTOCPU_BLOCKSUM_H
#define TANDEM_LIB_CONVERSION_TANDEMTOCPU_BLOCKSUM_H

#include "tandem/Conversion/TreeSum.h"

namespace tandem {

/// Sums the elements of a chunk, which come in blocks. Each block is reduced to
/// a vector of a few sums. As many blocks as such a vector has lanes form a
/// batch, whose vectors are reduced to one. That costs far less than adding up
/// the lanes of each block.
class BlockSum {
public:
  /// Creates a sum of blocks of type `block`, a vector of several elements or a
  /// scalar.
  BlockSum(LaunchBuilder &launch, SequenceBuilder &b, Type block);

  /// Adds a block. Blocks must come in order, and lanes without an element must
  /// be -0.0.
  void add(SequenceBuilder &b, Value block, Value number);

  /// Returns the sum of the first `blocks` blocks.
  Value getTotal(SequenceBuilder &b, Value blocks);

private:
  Value getSlot(SequenceBuilder &b, Value place);
  Value getLowBits(SequenceBuilder &b, Value number);
  void addBatch(SequenceBuilder &b, Value number);
  void fillBatch(SequenceBuilder &b, Value begin);

  LaunchBuilder &launch;
  /// The type that a block is reduced to, and its number of lanes.
  Type type;
  int64_t lanes;
  TreeSum tree;
  /// The vectors of a batch; null for scalars.
  Value batch;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTOCPU_BLOCKSUM_H
