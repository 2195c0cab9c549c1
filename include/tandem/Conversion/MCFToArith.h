//===- MCFToArith.h - Expansions as their components ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the patterns of -convert-mcf-to-arith.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_MCFTOARITH_H
#define TANDEM_CONVERSION_MCFTOARITH_H

#include "mlir/Transforms/DialectConversion.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Converts an expansion, or a tensor or vector of them, to its components.
/// Other types are not converted.
class ExpansionConverter : public TypeConverter {
public:
  ExpansionConverter();
};

/// Adds the patterns that replace the mcf dialect's operations by their
/// sequences.
void populateMCFToArithPatterns(const ExpansionConverter &converter,
                                RewritePatternSet &patterns);

} // namespace tandem

#endif // TANDEM_CONVERSION_MCFTOARITH_H
