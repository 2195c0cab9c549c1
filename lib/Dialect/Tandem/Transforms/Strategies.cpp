//===- Strategies.cpp - Find the strategy of a name -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the search for strategies.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem/Transforms/Strategies.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Support/ParseModule.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "tandem-apply-strategy"

using namespace mlir;
using namespace mlir::tandem;

ArrayRef<LibraryFile> mlir::tandem::getStrategiesFor(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      if (RoleAttr role = getRole(argument); role && role.isOfLayer())
        return getBuiltinRecipes();
  return getBuiltinStrategies();
}

/// The text of a strategy that is not the module's own, or a diagnostic.
static FailureOr<LibraryText> findText(ModuleOp module, StringRef name,
                                       ArrayRef<std::string> directories) {
  ArrayRef<LibraryFile> builtin = getStrategiesFor(module);
  auto error = [&]() {
    return emitError(UnknownLoc::get(module.getContext()));
  };
  if (name.empty())
    return error() << "no strategy given; built-in ones are "
                   << listNames(builtin);
  if (auto text = findInLibrary(name, directories, builtin)) {
    LDBG() << "strategy '" << name << "' comes from " << text->file;
    return *text;
  }
  return error() << "unknown strategy '" << name << "'; built-in ones are "
                 << listNames(builtin)
                 << "; others are files <name>.mlir on the search path, or "
                    "defined in the module";
}

FailureOr<StrategyOp>
mlir::tandem::findStrategy(ModuleOp module, StringRef name,
                           ArrayRef<std::string> directories) {
  if (auto op = module.lookupSymbol<StrategyOp>(name))
    return op;
  FailureOr<LibraryText> text = findText(module, name, directories);
  if (failed(text))
    return failure();
  MLIRContext *context = module.getContext();
  OwningOpRef<ModuleOp> file = parseModule(text->text, context, text->file);
  if (!file)
    return failure();
  auto op = file->lookupSymbol<StrategyOp>(name);
  if (!op)
    return emitError(FileLineColLoc::get(context, text->file, 1, 1),
                     "the file of strategy '")
           << name << "' does not define tandem.strategy @\"" << name << "\"";
  op->remove();
  SymbolTable(module).insert(op);
  return op;
}
