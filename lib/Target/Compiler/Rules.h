//===- Rules.h - Strategies without a text ----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how rules that a host gives get into the module that is
// compiled under them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_COMPILER_RULES_H
#define TANDEM_LIB_TARGET_COMPILER_RULES_H

#include "Session.h"

namespace tandem {

/// Adds the strategy that the rules of `options` make, in place of one that the
/// module has by this name. Without rules it does nothing.
llvm::Error addStrategy(SessionModule &session, const CompileOptions &options);

/// Adds a rule to the strategy that the builder stands in. Without a name it is
/// for all tensors of the kind, and with `per` for those with such entries.
AssignOp addRule(OpBuilder &builder, RoleKind kind, StringRef name,
                 StorageAttrInterface storage,
                 std::optional<Granularity> per = std::nullopt);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_COMPILER_RULES_H
