//===- BytesToNVVM.h - Byte permutations on NVIDIA chips --------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the patterns that turn integer operations into byte
// permutations.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_BYTESTONVVM_H
#define TANDEM_CONVERSION_BYTESTONVVM_H

#include "mlir/IR/PatternMatch.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Adds the patterns of `convert-bytes-to-nvvm`.
void populateBytesToNVVMPatterns(RewritePatternSet &patterns);

} // namespace tandem

#endif // TANDEM_CONVERSION_BYTESTONVVM_H
