//===- Translations.h - Translations to target code -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the translations of tandem-translate.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TARGET_TRANSLATIONS_H
#define TANDEM_TARGET_TRANSLATIONS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "tandem/Support/LLVM.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace tandem {

/// Registers --to-package, --tandem-to-llvmir, --tandem-to-asm and the
/// translations of each registered target. They take a graph (with --strategy),
/// a kernel on planes, or a module in the LLVM dialect.
void registerTargetTranslations();

/// Registers --interpret, which runs one step of a graph (with --strategy) or
/// of a kernel at any stage in the reference interpreter.
void registerInterpretTranslation();

/// Return the values of --strategy, --function and --strategy-path.
std::string getStrategyOption();
std::string getFunctionOption();
std::vector<std::string> getStrategyPathOption();
/// Returns the value of --width; 0 leaves the choice to the target.
int64_t getWidthOption();

/// Emits an error, if there is one, as a diagnostic on the module.
LogicalResult reportError(ModuleOp module, llvm::Error error);

/// Returns whether a module has kernels, or the steps that they become.
bool hasKernels(ModuleOp module);

/// Lowers graphs and kernels to kernels on planes. Other modules stay
/// unchanged.
LogicalResult lowerToKernel(ModuleOp module);

/// Lowers kernels to the LLVM dialect by a target's pipeline. A module that is
/// in it already stays unchanged.
LogicalResult
lowerToTarget(ModuleOp module,
              llvm::function_ref<void(OpPassManager &)> buildPipeline);

} // namespace tandem

#endif // TANDEM_TARGET_TRANSLATIONS_H
