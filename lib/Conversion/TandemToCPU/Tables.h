//===- Tables.h - Lookups in constant tables --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares lookups in constant tables on CPUs.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTOCPU_TABLES_H
#define TANDEM_LIB_CONVERSION_TANDEMTOCPU_TABLES_H

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"

namespace tandem {

/// Builds a load or, for vectors, a gather of the entries that `indices`
/// select. These replace the operation's indices. Equal tables of a module
/// share one global.
Value buildLookup(SequenceBuilder &b, LookupOp op, ValueRange indices);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTOCPU_TABLES_H
