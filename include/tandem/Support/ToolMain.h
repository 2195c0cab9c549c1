//===- ToolMain.h - Main functions of upstream's tools ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how Tandem's tools call the main functions of MLIR's
// tools.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_TOOLMAIN_H
#define TANDEM_SUPPORT_TOOLMAIN_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/LogicalResult.h"

/// Begins the declaration of a tool's main function. A static build defines
/// TANDEM_TOOL_MAIN as the function's name in libTandem, which exports it.
#ifdef TANDEM_TOOL_MAIN
#define TANDEM_MAIN extern "C" int TANDEM_TOOL_MAIN
#else
#define TANDEM_MAIN int main
#endif

namespace tandem {

/// Leaves the options that exist so far to `--help-hidden`, except those of all
/// tools, such as `--version`. Before a tool registers its own options, these
/// are the options of LLVM's libraries: several hundreds, of all back ends.
void hideLibraryOptions();

/// Calls the main function of a tool with an option `-o FILE`, and returns the
/// exit status. The file appears complete or not at all: if the tool fails, the
/// previous file stays, even if it is the tool's input. (MLIR's own main
/// functions empty the file first and delete it after a failure.)
int runTool(
    int argc, char **argv,
    llvm::function_ref<llvm::LogicalResult(int argc, char **argv)> main);

} // namespace tandem

#endif // TANDEM_SUPPORT_TOOLMAIN_H
