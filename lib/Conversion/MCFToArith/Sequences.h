//===- Sequences.h - The sequences of mcf operations ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the exact component sequence of each mcf operation.
// docs/MCF.md lists them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_MCFTOARITH_SEQUENCES_H
#define TANDEM_LIB_CONVERSION_MCFTOARITH_SEQUENCES_H

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/MCF/IR/MCF.h"

namespace tandem::mcf {

using tandem::SequenceBuilder;

/// Components of one format in decreasing magnitude.
using Parts = SmallVector<Value>;

/// Two components.
struct Pair {
  Value high, low;
};

// Error-free transforms of two components.
Pair fastTwoSum(SequenceBuilder &b, Value x, Value y);
Pair twoSum(SequenceBuilder &b, Value x, Value y);
Pair twoProd(SequenceBuilder &b, Value x, Value y);
Pair twoProdDekker(SequenceBuilder &b, Value x, Value y);
Pair split(SequenceBuilder &b, Value x);

// Expansions of two or three components.
Parts grow(SequenceBuilder &b, ValueRange x, Value a);
Parts kahan(SequenceBuilder &b, ValueRange x, Value a);
Parts scale(SequenceBuilder &b, ValueRange x, Value v);
Parts mul(SequenceBuilder &b, ValueRange x, ValueRange y);
Parts add(SequenceBuilder &b, ValueRange x, ValueRange y);
Parts neg(SequenceBuilder &b, ValueRange x);
Parts div(SequenceBuilder &b, ValueRange x, ValueRange y);
Parts sqrt(SequenceBuilder &b, ValueRange x);
Parts renormalize(SequenceBuilder &b, ValueRange x);
Value compare(SequenceBuilder &b, ComparePredicate predicate, ValueRange x,
              ValueRange y);

// Mixed expansions: the trailing component in the leading format and back.
Parts widenMixed(SequenceBuilder &b, ValueRange x);
Parts narrowMixed(SequenceBuilder &b, ValueRange x, Type trailing);

} // namespace tandem::mcf

#endif // TANDEM_LIB_CONVERSION_MCFTOARITH_SEQUENCES_H
