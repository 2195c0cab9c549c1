//===- tandem-lsp-server.cpp - Language server ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tandem-lsp-server, an MLIR language server that knows
// Tandem's dialects.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "tandem/InitAllDialects.h"
#include "tandem/Support/ToolVersion.h"

int main(int argc, char **argv) {
  tandem::setToolVersion();
  mlir::DialectRegistry registry;
  tandem::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
