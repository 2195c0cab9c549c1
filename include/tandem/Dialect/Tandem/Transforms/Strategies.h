//===- Strategies.h - Find a strategy by name -------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the search for strategies, which drivers do before a
// pipeline runs.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_TRANSFORMS_STRATEGIES_H
#define TANDEM_DIALECT_TANDEM_TRANSFORMS_STRATEGIES_H

#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/LLVM.h"
#include "tandem/Support/Library.h"

namespace tandem {

/// Returns the built-in strategies for a module's graphs, or recipes for
/// layers.
ArrayRef<LibraryFile> getStrategiesFor(ModuleOp module);

/// Finds the strategy of a name in a module. If the module does not define it,
/// adds the one of `<directory>/<name>.mlir` in the first directory that has
/// this file, or else the built-in one, and renames it if its symbol is taken.
/// Passes give no directories, so that they read no files. Diagnostics go to
/// the context.
FailureOr<StrategyOp> findStrategy(ModuleOp module, StringRef name,
                                   ArrayRef<std::string> directories = {});

/// Finds a recipe in the same way, in a module that need not have a layer.
FailureOr<StrategyOp> findRecipe(ModuleOp module, StringRef name,
                                 ArrayRef<std::string> directories = {});

} // namespace tandem

#endif // TANDEM_DIALECT_TANDEM_TRANSFORMS_STRATEGIES_H
