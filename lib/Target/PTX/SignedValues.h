//===- SignedValues.h - Values but for their signs --------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the numbers of values that the optimizer computes once.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_PTX_SIGNEDVALUES_H
#define TANDEM_LIB_TARGET_PTX_SIGNEDVALUES_H

#include "mlir/IR/Operation.h"
#include <map>

namespace mlir::tandem {

/// A value but for its sign, and the sign. Of a condition, which is negative
/// where it is another's opposite.
struct SignedValue {
  uint64_t number = 0;
  bool isNegative = false;

  SignedValue operator-() const { return {number, !isNegative}; }
  uint64_t pack() const { return number << 1 | unsigned(isNegative); }
};

/// Numbers the values of a body, the same but for their sign alike: the
/// optimizer computes once what differs in the sign alone, and x + (-y) once
/// where there is an x - y too. So it does with comparisons that differ in the
/// order of their operands or are opposites, and with choices by such.
class SignedValues {
public:
  /// Whether an operation computes what was there already.
  bool repeats(Operation &op);

private:
  /// A value, and whether it is new.
  using Found = std::pair<SignedValue, bool>;

  SignedValue get(Value value);
  Found find(Operation &op);
  Found findMagnitude(Operation &op, SignedValue a);
  Found findCopySign(Operation &op, SignedValue a, SignedValue sign);
  Found findComparison(Operation &op, SignedValue a, SignedValue b);
  Found findChoice(Operation &op, SignedValue condition, SignedValue chosen,
                   SignedValue other);
  Found findCondition(Operation &op, SignedValue a, SignedValue b);

  uint64_t getMagnitude(SignedValue a) const {
    auto place = magnitudes.find(a.number);
    return place == magnitudes.end() ? a.number : place->second;
  }

  /// The value of an operation on some operands. `kind` tells it from others
  /// with the same result type.
  Found add(Operation &op, const void *kind, ArrayRef<uint64_t> operands,
            bool isNegative = false);

  llvm::DenseMap<Value, SignedValue> known;
  std::map<std::vector<uint64_t>, uint64_t> numbers;
  /// Of what has another value's magnitude, that value.
  llvm::DenseMap<uint64_t, uint64_t> magnitudes;
  uint64_t next = 0;
};

} // namespace mlir::tandem

#endif // TANDEM_LIB_TARGET_PTX_SIGNEDVALUES_H
