//===- Rules.h - Strategies without a text ----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how a strategy that a host gives rule by rule gets into
// the module that is compiled under it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_COMPILER_RULES_H
#define TANDEM_LIB_TARGET_COMPILER_RULES_H

#include "Session.h"

namespace mlir::tandem {

/// Adds the strategy that the rules of `options` make, in place of one that the
/// module has by this name. Without rules it does nothing.
llvm::Error addStrategy(SessionModule &session, const CompileOptions &options);

} // namespace mlir::tandem

#endif // TANDEM_LIB_TARGET_COMPILER_RULES_H
