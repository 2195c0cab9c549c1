//===- EvenOddLayout.h - Order of a block's lanes ---------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the order of elements in the lanes of a CPU kernel.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTOCPU_EVENODDLAYOUT_H
#define TANDEM_LIB_CONVERSION_TANDEMTOCPU_EVENODDLAYOUT_H

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"

namespace tandem {

/// The order of a block's elements while they are wider than the 16 bits that
/// they are stored in. In memory order, widening and narrowing would move each
/// element to another lane. If the even elements come first and then the odd
/// ones, both are shifts and masks within 32-bit words. A kernel whose planes
/// all have 16 bits uses this order, which does not affect arithmetic.
class EvenOddLayout {
public:
  explicit EvenOddLayout(LaunchOp kernel)
      : isUsed(kernel.getWidth() > 1 && canPair(kernel)) {}

  /// Returns whether an operation changes lanes between 16 and 32 bits.
  bool isExtension(Operation *op) const;
  bool isTruncation(Operation *op) const;

  /// Returns the element of each of `width` lanes that are wider than 16 bits.
  SmallVector<int64_t> getElements(int64_t width) const;

  /// Zero-extends 16-bit integers in memory order to 32 bits.
  Value extend(SequenceBuilder &b, Value narrow) const;
  /// Truncates 32-bit integers to 16-bit ones in memory order.
  Value truncate(SequenceBuilder &b, Value wide) const;
  /// Returns wide values in memory order.
  Value inOrder(SequenceBuilder &b, Value wide) const;

private:
  static bool canPair(LaunchOp kernel);

  bool isUsed;
};

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTOCPU_EVENODDLAYOUT_H
