//===- ExpandOperations.h - Apply patterns in one walk ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the driver of conversions that convert no types.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_EXPANDOPERATIONS_H
#define TANDEM_CONVERSION_EXPANDOPERATIONS_H

#include "mlir/Rewrite/FrozenRewritePatternSet.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Applies patterns to the operations in `top`, each once and in order, without
/// folding, so that only patterns create operations. Returns the number of
/// operations that the patterns have erased.
unsigned expandOperations(Operation *top,
                          const FrozenRewritePatternSet &patterns);

} // namespace tandem

#endif // TANDEM_CONVERSION_EXPANDOPERATIONS_H
