//===- FloatCodesToNVVM.h - Small floats by a chip --------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the patterns of -convert-float-codes-to-nvvm.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_FLOATCODESTONVVM_FLOATCODESTONVVM_H
#define TANDEM_CONVERSION_FLOATCODESTONVVM_FLOATCODESTONVVM_H

#include "mlir/IR/PatternMatch.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Adds the patterns that replace scaled.encode_float and scaled.decode_float
/// of 8-bit floats by the instructions of sm_89 and later chips. They match
/// scalars and vectors of pairs.
void populateFloatCodesToNVVMPatterns(RewritePatternSet &patterns);

} // namespace tandem

#endif // TANDEM_CONVERSION_FLOATCODESTONVVM_FLOATCODESTONVVM_H
