//===- ScaledToArith.h - Scaled operations as arith -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the patterns of -convert-scaled-to-arith.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_SCALEDTOARITH_H
#define TANDEM_CONVERSION_SCALEDTOARITH_H

#include "mlir/IR/PatternMatch.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Adds the patterns that replace the scaled dialect's operations, except
/// scaled.encode_float and scaled.decode_float, by f32 and integer arithmetic.
void populateScaledToArithPatterns(RewritePatternSet &patterns);

} // namespace tandem

#endif // TANDEM_CONVERSION_SCALEDTOARITH_H
