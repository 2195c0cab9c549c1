//===- NaNsToNVVM.h - NaNs of NVIDIA chips ----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the patterns that use what is known of an NVIDIA chip's
// NaNs.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_NANSTONVVM_H
#define TANDEM_CONVERSION_NANSTONVVM_H

#include "mlir/IR/PatternMatch.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Adds the patterns of `convert-nans-to-nvvm`.
void populateNaNsToNVVMPatterns(RewritePatternSet &patterns);

} // namespace tandem

#endif // TANDEM_CONVERSION_NANSTONVVM_H
