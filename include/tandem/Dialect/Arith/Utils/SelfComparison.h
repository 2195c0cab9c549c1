//===- SelfComparison.h - A float compared with itself ---------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the analysis of comparisons of a float with itself.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_ARITH_UTILS_SELFCOMPARISON_H
#define TANDEM_DIALECT_ARITH_UTILS_SELFCOMPARISON_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Support/LLVM.h"
#include <optional>

namespace tandem {

/// Returns the result of a comparison of a value with itself if it is the same
/// for NaN and for numbers. LLVM folds such a comparison and drops what is
/// computed for the other case.
std::optional<bool> compareWithItself(arith::CmpFOp op);

} // namespace tandem

#endif // TANDEM_DIALECT_ARITH_UTILS_SELFCOMPARISON_H
