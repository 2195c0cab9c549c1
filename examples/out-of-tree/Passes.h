//===- Passes.h - The passes of an out-of-tree project ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the passes of this project.
//
//===----------------------------------------------------------------------===//

#ifndef MY_TANDEM_PASSES_H
#define MY_TANDEM_PASSES_H

#include "mlir/Pass/Pass.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"

namespace my {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "Passes.h.inc"
} // namespace my

#endif // MY_TANDEM_PASSES_H
