//===- FloatCodesToArith.h - Small floats in integers -----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the patterns of -convert-float-codes-to-arith.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_FLOATCODESTOARITH_H
#define TANDEM_CONVERSION_FLOATCODESTOARITH_H

#include "mlir/IR/PatternMatch.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Adds the patterns that replace scaled.encode_float and scaled.decode_float
/// of the formats (of all formats if none is named) by f32 and integer
/// arithmetic. With `halfConversions` the target converts between f16 and f32.
/// An encode operation must be visited before those that decode its code.
void populateFloatCodesToArithPatterns(RewritePatternSet &patterns,
                                       ArrayRef<Type> formats = {},
                                       bool halfConversions = false);

} // namespace tandem

#endif // TANDEM_CONVERSION_FLOATCODESTOARITH_H
