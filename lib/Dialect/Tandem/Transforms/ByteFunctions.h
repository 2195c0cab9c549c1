//===- ByteFunctions.h - Functions of bytes ---------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the values of scalar operations for all bytes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_TANDEM_TRANSFORMS_BYTEFUNCTIONS_H
#define TANDEM_LIB_DIALECT_TANDEM_TRANSFORMS_BYTEFUNCTIONS_H

#include "mlir/IR/Operation.h"
#include "tandem/Support/LLVM.h"
#include <cfenv>
#include <vector>

namespace tandem {

/// The bits of a scalar for each value of the bytes that it depends on, the
/// column counting fastest.
struct ByteFunction {
  bool hasRow = false, hasColumn = false;
  std::vector<uint32_t> values;

  uint32_t at(unsigned row, unsigned column) const {
    return values[(hasRow ? row * (hasColumn ? 256 : 1) : 0) +
                  (hasColumn ? column : 0)];
  }
};

/// Whether an operation is one on scalars of at most 32 bits that `evaluate`
/// knows.
bool canEvaluate(Operation *op);

/// An operation's result, from its operands.
ByteFunction evaluate(Operation *op, ArrayRef<const ByteFunction *> operands);

/// While it lives floats are computed as the runtime computes them, whatever
/// the host's thread is set to.
class DefaultFloatEnvironment {
public:
  DefaultFloatEnvironment();
  ~DefaultFloatEnvironment();

private:
  std::fenv_t saved;
};

} // namespace tandem

#endif // TANDEM_LIB_DIALECT_TANDEM_TRANSFORMS_BYTEFUNCTIONS_H
