//===- PairwiseSum.h - Sums of a fixed shape --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the order in which the runtime adds numbers.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_PAIRWISESUM_H
#define TANDEM_RUNTIME_LIB_PAIRWISESUM_H

#include <cstdint>

namespace tandem::runtime {

/// Adds values as a balanced binary tree over their index: neighbours first,
/// padded with -0.0 to a power of two. Stores one partial sum per level.
template <typename T>
class PairwiseSum {
public:
  void add(T value) {
    // The number of trailing ones of the count is the number of subtrees that
    // this value completes.
    for (uint64_t bits = count++; bits & 1; bits >>= 1)
      value = partial[--depth] + value;
    partial[depth++] = value;
  }

  /// Returns the sum, or -0.0 if there are no values. Adding -0.0 changes no
  /// number, so the padding is not added.
  T result() const {
    T sum = T(-0.0);
    for (int level = depth; level-- > 0;)
      sum = partial[level] + sum;
    return sum;
  }

private:
  T partial[64];
  uint64_t count = 0;
  int depth = 0;
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_PAIRWISESUM_H
