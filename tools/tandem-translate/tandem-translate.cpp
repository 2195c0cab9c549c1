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
#include "llvm/Support/CommandLine.h"

static llvm::cl::extrahelp examples(R"(
EXAMPLES:

  Compile a graph under a strategy to PTX, and check it against the kernel:
    tandem-translate graph.mlir --strategy=flash-f16 --tandem-to-ptx --chip=sm_90

  Compile it for a CPU to assembly:
    tandem-translate graph.mlir --strategy=flash-f16 --tandem-to-asm

  Make a package of code for several targets:
    tandem-translate graph.mlir --strategy=flash-f16 --to-package \
      --targets=x86-64-v3,sm_90 -o adamw.tdm

  --help-hidden also lists the options of LLVM's libraries.
)");

TANDEM_MAIN(int argc, char **argv) {
  tandem::setToolVersion();
  tandem::hideLibraryOptions();
  tandem::registerTargetTranslations();
  tandem::registerInterpretTranslation();
  return tandem::runTool(argc, argv, [](int argc, char **argv) {
    return mlir::mlirTranslateMain(
        argc, argv,
        "Translate graphs and kernels to PTX, assembly and packages");
  });
}
