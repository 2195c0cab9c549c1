//===- WarpReduce.h - Combining values across a warp ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares generated code that combines the values of a warp's
// threads with shuffles.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTONVVM_WARPREDUCE_H
#define TANDEM_LIB_CONVERSION_TANDEMTONVVM_WARPREDUCE_H

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

namespace tandem {

/// The number of threads of a warp.
constexpr int64_t warpSize = 32;

/// Builds the combination of two values, which must commute: either may come
/// from the lower lane.
using Combiner = function_ref<Value(Value, Value)>;

/// Returns the value of the lane whose number differs from this lane's in the
/// bits of `distance`. The value is a 32- or 64-bit integer or float. All
/// threads of the warp must execute this.
Value shuffleButterfly(SequenceBuilder &b, Value value, int64_t distance);

/// Combines the values of each `lanes` neighbouring threads, a power of two up
/// to 32, as a balanced binary tree with neighbours first. Each of them gets
/// the result. All threads of the warp must execute this.
Value reduceLanes(SequenceBuilder &b, Value value, int64_t lanes,
                  Combiner combine);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_WARPREDUCE_H
