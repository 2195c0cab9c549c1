//===- Rules.cpp - Strategies without a text ------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file builds a strategy from rules.
//
//===----------------------------------------------------------------------===//

#include "Rules.h"
#include "StorageText.h"
#include "mlir/IR/Verifier.h"
#include "tandem/Support/ParseModule.h"

using namespace mlir;
using namespace tandem;

/// Parses a policy and its format, such as "component bf16".
static llvm::Expected<ComputeAttr> parseCompute(SessionModule &session,
                                                StringRef text) {
  auto [policyName, formatName] = text.split(' ');
  std::optional<Policy> policy = symbolizePolicy(policyName);
  Type format = parseTypeText(formatName, session.getContext());
  if (!policy || !format)
    return ErrorBuilder(TandemErrorStrategy)
           << "'" + text +
                  "' is not a compute policy; policies are 'f32 f32' and "
                  "'component' with bf16, f16 or f32";
  Location unknown = UnknownLoc::get(session.getContext());
  auto compute = ComputeAttr::getChecked([&] { return emitError(unknown); },
                                         session.getContext(), *policy, format);
  if (!compute)
    return session.diagnostics.takeError(TandemErrorStrategy);
  return compute;
}

AssignOp tandem::addRule(OpBuilder &builder, RoleKind kind, StringRef name,
                         StorageAttrInterface storage,
                         std::optional<Granularity> per) {
  return AssignOp::create(
      builder, builder.getUnknownLoc(), kind, /*moment=*/{}, /*consumer=*/{},
      /*flow=*/{},
      per ? GranularityAttr::get(builder.getContext(), *per)
          : GranularityAttr(),
      name.empty() ? StringAttr() : builder.getStringAttr(name), storage);
}

llvm::Error tandem::addStrategy(SessionModule &session,
                                const CompileOptions &options) {
  if (options.rules.empty())
    return llvm::Error::success();
  if (options.strategy.empty())
    return ErrorBuilder(TandemErrorArgument)
           << "there are rules, but the strategy that they make has no name; "
              "give it one";
  auto compute = parseCompute(session, options.compute);
  if (!compute)
    return compute.takeError();
  ModuleOp module = *session.module;
  if (auto known = module.lookupSymbol<StrategyOp>(options.strategy))
    known.erase();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto strategy = StrategyOp::create(builder, builder.getUnknownLoc(),
                                     options.strategy, *compute);
  builder.setInsertionPointToStart(&strategy.getBody().emplaceBlock());
  for (const CompileOptions::Rule &rule : options.rules) {
    auto storage = parseStorage(session, rule.storage);
    if (!storage)
      return storage.takeError();
    addRule(builder, rule.kind, rule.name, *storage);
  }
  return succeeded(verify(strategy))
             ? llvm::Error::success()
             : session.diagnostics.takeError(TandemErrorStrategy);
}
