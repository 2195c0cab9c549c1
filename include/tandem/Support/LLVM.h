//===- LLVM.h - Names of LLVM and MLIR --------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file makes MLIR's names, and those of LLVM that MLIR imports, visible in
// namespace tandem.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_LLVM_H
#define TANDEM_SUPPORT_LLVM_H

#include "mlir/Support/LLVM.h"

namespace tandem {
using namespace mlir;
} // namespace tandem

#endif // TANDEM_SUPPORT_LLVM_H
