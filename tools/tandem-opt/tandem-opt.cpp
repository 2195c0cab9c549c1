//===- tandem-opt.cpp - Optimizer driver ----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tandem-opt, the driver that runs Tandem's passes on
// .mlir files.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tandem/InitAllDialects.h"
#include "tandem/InitAllPasses.h"
#include "tandem/Support/ToolMain.h"
#include "tandem/Support/ToolVersion.h"

TANDEM_MAIN(int argc, char **argv) {
  tandem::setToolVersion();
  mlir::DialectRegistry registry;
  tandem::registerAllDialects(registry);
  tandem::registerAllPasses();
  return tandem::runTool(argc, argv, [&](int argc, char **argv) {
    return mlir::MlirOptMain(argc, argv, "Tandem optimizer driver\n", registry);
  });
}
