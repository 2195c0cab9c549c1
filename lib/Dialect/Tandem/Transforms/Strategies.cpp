//===- Strategies.cpp - Find a strategy by name ---------------------------===//
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
#include "tandem/Support/CompilerError.h"
#include "tandem/Support/ParseModule.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "tandem-apply-strategy"

using namespace mlir;
using namespace tandem;

/// Returns whether a module has functions of layers, whose strategies are
/// recipes.
static bool isOfLayers(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      if (RoleAttr role = getRole(argument); role && role.isOfLayer())
        return true;
  return false;
}

ArrayRef<LibraryFile> tandem::getStrategiesFor(ModuleOp module) {
  return isOfLayers(module) ? getBuiltinRecipes() : getBuiltinStrategies();
}

namespace {
/// A part of the library, and what messages call its entries.
struct LibrarySection {
  StringRef what;
  ArrayRef<LibraryFile> files;
};
} // namespace

/// Returns the text of a strategy that is not the module's own, or emits an
/// error.
static FailureOr<LibraryText> findText(MLIRContext *context,
                                       const LibrarySection &section,
                                       StringRef name,
                                       ArrayRef<std::string> directories) {
  auto error = [&]() { return emitError(UnknownLoc::get(context)); };
  if (name.empty())
    return error() << "no " << section.what << " given; built-in ones are "
                   << listNames(section.files);
  if (auto text = findInLibrary(name, directories, section.files)) {
    LDBG() << section.what << " '" << name << "' comes from " << text->file;
    return *text;
  }
  return error() << "unknown " << section.what << " '"
                 << Named{TDM_MESSAGE_STRATEGY, name} << "'"
                 << suggestName(name, section.files) << "; built-in ones are "
                 << listNames(section.files)
                 << "; others are files <name>.mlir on the search path, or "
                    "defined in the module";
}

static FailureOr<StrategyOp> find(ModuleOp module,
                                  const LibrarySection &section, StringRef name,
                                  ArrayRef<std::string> directories) {
  if (auto op = module.lookupSymbol<StrategyOp>(name))
    return op;
  MLIRContext *context = module.getContext();
  auto text = findText(context, section, name, directories);
  if (failed(text))
    return failure();
  OwningOpRef<ModuleOp> file = parseModule(text->text, context, text->file);
  if (!file)
    return failure();
  auto op = file->lookupSymbol<StrategyOp>(name);
  if (!op)
    return emitError(FileLineColLoc::get(context, text->file, 1, 1),
                     "the file of ")
           << section.what << " '" << Named{TDM_MESSAGE_STRATEGY, name}
           << "' does not define tandem.strategy @\"" << name << "\"";
  op->remove();
  SymbolTable(module).insert(op);
  return op;
}

FailureOr<StrategyOp> tandem::findStrategy(ModuleOp module, StringRef name,
                                           ArrayRef<std::string> directories) {
  if (isOfLayers(module))
    return findRecipe(module, name, directories);
  return find(module, {"strategy", getBuiltinStrategies()}, name, directories);
}

FailureOr<StrategyOp> tandem::findRecipe(ModuleOp module, StringRef name,
                                         ArrayRef<std::string> directories) {
  return find(module, {"recipe", getBuiltinRecipes()}, name, directories);
}
