//===- TreeSum.h - Sums as balanced trees -----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the generated code that sums blocks of a chunk in a
// balanced binary tree.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTOCPU_TREESUM_H
#define TANDEM_LIB_CONVERSION_TANDEMTOCPU_TREESUM_H

#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Support/SequenceBuilder.h"

namespace mlir::tandem {

/// One sum over the elements of a chunk: neighbours first, padded with -0.0.
/// Partial sums of 2^k blocks lie on a stack, level k; adding a block carries
/// like a binary counter.
class TreeSum {
public:
  /// Allocates the stack; once per function.
  TreeSum(SequenceBuilder &b, LaunchBuilder &launch);

  /// Adds block number `block`: a scalar, or a vector of which the first
  /// `count` lanes exist.
  void addBlock(SequenceBuilder &b, Value value, Value block, Value count);

  /// The sum of the first `blocks` blocks.
  Value getTotal(SequenceBuilder &b, Value blocks);

private:
  Value getLevel(Value level);

  LaunchBuilder &launch;
  Value stack;
};

} // namespace mlir::tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTOCPU_TREESUM_H
