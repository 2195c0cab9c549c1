//===- tandem-translate.cpp - Translation driver --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tandem-translate, the driver that turns graphs and
// kernels into PTX, LLVM IR, assembly and results.
//
//===----------------------------------------------------------------------===//

#include "mlir/Support/LogicalResult.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "tandem/Support/ToolMain.h"
#include "tandem/Support/ToolVersion.h"
#include "tandem/Target/Translations.h"

TANDEM_MAIN(int argc, char **argv) {
  tandem::setToolVersion();
  tandem::registerTargetTranslations();
  tandem::registerInterpretTranslation();
  return tandem::runTool(argc, argv, [](int argc, char **argv) {
    return mlir::mlirTranslateMain(argc, argv, "Tandem translation driver");
  });
}
