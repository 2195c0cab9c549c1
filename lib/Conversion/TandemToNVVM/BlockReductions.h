//===- BlockReductions.h - Reductions by a block's threads ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares generated code that reduces values over the threads of a
// block, step by step.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTONVVM_BLOCKREDUCTIONS_H
#define TANDEM_LIB_CONVERSION_TANDEMTONVVM_BLOCKREDUCTIONS_H

#include "WarpReduce.h"
#include "tandem/Conversion/Reductions.h"
#include "tandem/Conversion/TreeSum.h"

namespace tandem {

/// Builds sums like those of TreeSum, over steps with the threads in order, and
/// maxima and minima, which each thread keeps to itself until the end. The
/// number of threads must be a power of two and a multiple of the warp size.
class BlockReductions {
public:
  /// Declares the shared memory under `name`, and reads the thread's indices at
  /// the insertion point of `b`.
  BlockReductions(SequenceBuilder &b, LaunchOp kernel, StringRef name,
                  LaunchBuilder &launch, ArrayRef<Reduction> items,
                  int64_t maxThreads);

  ArrayRef<Reduction> getItems() const { return items; }

  /// Adds the step with number `step`: one value of this thread for each sum,
  /// in order.
  void addStep(SequenceBuilder &b, ArrayRef<Value> values, Value step);

  /// Builds code for one thread, which gets the results of `steps` steps. All
  /// threads pass their maxima and minima, in order.
  void finish(SequenceBuilder &b, ArrayRef<Value> extremes, Value steps,
              function_ref<void(ArrayRef<Value>)> build);

  /// Builds code for one thread, which gets the results of a single step. All
  /// threads pass their values of the sums and of the extremes, in order.
  void reduceStep(SequenceBuilder &b, ArrayRef<Value> summands,
                  ArrayRef<Value> extremes,
                  function_ref<void(ArrayRef<Value>)> build);

private:
  /// Reduces the threads' values of some items to one value each for the block.
  SmallVector<Value> reduceBlock(SequenceBuilder &b, ArrayRef<unsigned> chosen,
                                 ArrayRef<Value> values);
  Value reduceWarps(SequenceBuilder &b, unsigned item);
  void buildForThread(SequenceBuilder &b, Value number,
                      function_ref<void()> build);

  LaunchBuilder &launch;
  SmallVector<Reduction> items;
  /// The indices of the sums and of the extremes in `items`.
  SmallVector<unsigned> sums, extremes;
  int64_t maxWarps;
  /// The index of this thread within its block and within its warp, and the
  /// index of its warp.
  Value thread, lane, warp;
  Value numWarps;
  /// The shared memory of each item: a slot per warp, and the levels of the
  /// tree.
  SmallVector<Value> warpSlots;
  SmallVector<TreeSum> trees;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_BLOCKREDUCTIONS_H
