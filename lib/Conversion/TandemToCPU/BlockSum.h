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

/// The sum of a chunk's elements, which come in blocks. A block leaves a vector
/// of a few sums, and as many blocks as these are a batch, whose vectors are
/// folded into one. That costs far less than adding up the lanes of each.
class BlockSum {
public:
  /// Creates a sum of blocks of type `block`, a vector of several elements or a
  /// scalar.
  BlockSum(LaunchBuilder &launch, SequenceBuilder &b, Type block);

  /// Adds a block; those come in order. Lanes without an element are -0.0.
  void add(SequenceBuilder &b, Value block, Value number);

  /// The sum of the first `blocks` blocks.
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
  /// The vectors of a batch; none of scalars.
  Value batch;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTOCPU_BLOCKSUM_H
