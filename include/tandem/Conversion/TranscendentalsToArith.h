//===- TranscendentalsToArith.h - exp, log, tanh, erf -----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the patterns of -convert-transcendentals-to-arith.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_TRANSCENDENTALSTOARITH_H
#define TANDEM_CONVERSION_TRANSCENDENTALSTOARITH_H

#include "mlir/IR/PatternMatch.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Adds the patterns that replace math.exp, math.log, math.tanh and math.erf by
/// f32 and integer arithmetic.
void populateTranscendentalsToArithPatterns(RewritePatternSet &patterns);

} // namespace tandem

#endif // TANDEM_CONVERSION_TRANSCENDENTALSTOARITH_H
