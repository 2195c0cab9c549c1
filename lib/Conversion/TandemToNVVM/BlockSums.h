//===- BlockSums.h - Sums by the threads of a block -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares generated code in which a block of threads sums the
// elements of a chunk.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTONVVM_BLOCKSUMS_H
#define TANDEM_LIB_CONVERSION_TANDEMTONVVM_BLOCKSUMS_H

#include "WarpReduce.h"
#include "tandem/Conversion/TreeSum.h"

namespace mlir::tandem {

/// The metrics of a kernel, summed over a chunk as TreeSum does: a thread sums
/// its lanes, a warp its threads by shuffles, the first lanes its warps through
/// shared memory, and one thread the steps of the chunk. All threads of the
/// block must come to each step; their number is a power of two from 32 to
/// `maxThreads`.
class BlockSums {
public:
  /// Declares the shared memory; thread numbers are read where `b` stands.
  BlockSums(SequenceBuilder &b, KernelOp kernel, LaunchBuilder &launch,
            int64_t maxThreads);

  /// Adds one step: a vector per metric, of which the first `count` lanes
  /// exist.
  void addStep(SequenceBuilder &b, ArrayRef<Value> values, Value count,
               Value step);

  /// Writes the sums over `steps` steps to the slots of a chunk.
  void store(SequenceBuilder &b, Value slots, Value steps);

private:
  /// The sum over the block of one f64 per thread, which the warps have left
  /// in `slots`.
  Value sumWarps(SequenceBuilder &b, Value slots);
  void buildForThread(SequenceBuilder &b, Value number,
                      function_ref<void()> build);

  LaunchBuilder &launch;
  int64_t maxWarps;
  /// Of this thread, within its block and its warp, and of its warp.
  Value thread, lane, warp;
  Value numWarps;
  /// In shared memory, per metric: a slot per warp, and the stack of steps.
  SmallVector<Value> warpSlots;
  SmallVector<TreeSum> sums;
};

} // namespace mlir::tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_BLOCKSUMS_H
