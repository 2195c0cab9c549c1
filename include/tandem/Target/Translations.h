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

#include <string>
#include <vector>

namespace tandem {

/// Registers --tandem-to-ptx, --tandem-to-llvmir, --tandem-to-asm and
/// --check-ptx. They take a graph (with --strategy), a kernel on planes, or a
/// module in the LLVM dialect.
void registerTargetTranslations();

/// Registers --interpret, which runs one step of a graph (with --strategy) or
/// of a kernel at any stage in the reference interpreter.
void registerInterpretTranslation();

/// The values of --strategy, --function and --strategy-path.
std::string getStrategyOption();
std::string getFunctionOption();
std::vector<std::string> getStrategyPathOption();

} // namespace tandem

#endif // TANDEM_TARGET_TRANSLATIONS_H
