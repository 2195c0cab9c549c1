//===- InitAllDialects.h - Register dialects --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file registers the dialects that Tandem's tools and pipelines know.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_INITALLDIALECTS_H
#define TANDEM_INITALLDIALECTS_H

#include "mlir/IR/DialectRegistry.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Registers Tandem's dialects, the upstream dialects of graphs and kernels,
/// and the interfaces and translations that lowering them needs.
void registerAllDialects(DialectRegistry &registry);

} // namespace tandem

#endif // TANDEM_INITALLDIALECTS_H
