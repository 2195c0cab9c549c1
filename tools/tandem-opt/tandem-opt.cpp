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
#include "llvm/Support/CommandLine.h"

static llvm::cl::extrahelp examples(R"(
EXAMPLES:

  Rewrite a graph into a kernel under a strategy of the library:
    tandem-opt graph.mlir -tandem-to-kernel=strategy=dither-mulaw

  Continue to code for an NVIDIA GPU, and print the IR after each pass:
    tandem-opt graph.mlir -tandem-to-kernel=strategy=bf16 -tandem-to-nvvm \
      --mlir-print-ir-after-all

  Run one pass of a pipeline on the result of those before it:
    tandem-opt kernel.mlir -tandem-split-phases

  --help-hidden also lists the options of LLVM's libraries.
)");

TANDEM_MAIN(int argc, char **argv) {
  tandem::setToolVersion();
  tandem::hideLibraryOptions();
  mlir::DialectRegistry registry;
  tandem::registerAllDialects(registry);
  tandem::registerAllPasses();
  return tandem::runTool(argc, argv, [&](int argc, char **argv) {
    return mlir::MlirOptMain(argc, argv,
                             "Rewrite optimizer graphs and layers into fused "
                             "kernels, pass by pass\n",
                             registry);
  });
}
