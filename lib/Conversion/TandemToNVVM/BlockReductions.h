//===- BlockReductions.h - Reductions by a block's threads ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares generated code in which a block of threads reduces the
// values of its threads, step by step.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTONVVM_BLOCKREDUCTIONS_H
#define TANDEM_LIB_CONVERSION_TANDEMTONVVM_BLOCKREDUCTIONS_H

#include "WarpReduce.h"
#include "tandem/Conversion/Reductions.h"
#include "tandem/Conversion/TreeSum.h"

namespace tandem {

/// Sums as TreeSum makes them, over steps that count threads in order, and
/// maxima and minima, for which a thread keeps its own until the end. The
/// number of threads is a power of two of whole warps.
class BlockReductions {
public:
  /// Declares the shared memory under `name`; thread numbers are read where `b`
  /// stands.
  BlockReductions(SequenceBuilder &b, LaunchOp kernel, StringRef name,
                  LaunchBuilder &launch, ArrayRef<Reduction> items,
                  int64_t maxThreads);

  ArrayRef<Reduction> getItems() const { return items; }

  /// Adds step number `step`: a value of this thread for each sum, in order.
  void addStep(SequenceBuilder &b, ArrayRef<Value> values, Value step);

  /// Builds code for one thread, which gets the results over `steps` steps; all
  /// threads give their maxima and minima, in order.
  void finish(SequenceBuilder &b, ArrayRef<Value> extremes, Value steps,
              function_ref<void(ArrayRef<Value>)> build);

  /// Builds code for one thread, which gets the results of a single step; all
  /// threads give their values of the sums and of the others, in order.
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
  /// The numbers of the sums and of the others.
  SmallVector<unsigned> sums, extremes;
  int64_t maxWarps;
  /// The index of this thread within its block and within its warp, and the
  /// index of its warp.
  Value thread, lane, warp;
  Value numWarps;
  /// Each item's shared memory: a slot per warp, and the stack of steps.
  SmallVector<Value> warpSlots;
  SmallVector<TreeSum> trees;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_BLOCKREDUCTIONS_H
