//===- Rules.h - Strategies without a text ----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how the rules that a host gives are added to the module
// that is compiled with them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_COMPILER_RULES_H
#define TANDEM_LIB_TARGET_COMPILER_RULES_H

#include "Session.h"

namespace tandem {

/// Adds the strategy that the rules of `options` make, in place of one that the
/// module has by this name. Does nothing if there are no rules.
llvm::Error addStrategy(SessionModule &session, const CompileOptions &options);

/// Adds a rule to the strategy at the builder's insertion point. Without a
/// name, the rule applies to all tensors of the kind, or with `per` to those
/// with entries of that granularity.
AssignOp addRule(OpBuilder &builder, RoleKind kind, StringRef name,
                 StorageAttrInterface storage,
                 std::optional<Granularity> per = std::nullopt);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_COMPILER_RULES_H
