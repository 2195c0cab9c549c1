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

/// The bits of a scalar for each value of the bytes that it depends on. The
/// column is the fastest index.
struct ByteFunction {
  bool hasRow = false, hasColumn = false;
  std::vector<uint32_t> values;

  uint32_t at(unsigned row, unsigned column) const {
    return values[(hasRow ? row * (hasColumn ? 256 : 1) : 0) +
                  (hasColumn ? column : 0)];
  }
};

/// Returns whether `evaluate` knows an operation, which must be on scalars of
/// at most 32 bits.
bool canEvaluate(Operation *op);

/// Evaluates an operation for all values of its operands.
ByteFunction evaluate(Operation *op, ArrayRef<const ByteFunction *> operands);

/// Sets the floating-point environment that the runtime uses for as long as it
/// lives, whatever the host's thread has set.
class DefaultFloatEnvironment {
public:
  DefaultFloatEnvironment();
  ~DefaultFloatEnvironment();

private:
  std::fenv_t saved;
};

} // namespace tandem

#endif // TANDEM_LIB_DIALECT_TANDEM_TRANSFORMS_BYTEFUNCTIONS_H
