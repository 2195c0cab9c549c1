//===- tandem-reduce.cpp - Test case reducer ------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tandem-reduce, which shrinks an .mlir file while a test
// script still finds it interesting.
//
//===----------------------------------------------------------------------===//

#include "TakeOperands.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "tandem/InitAllDialects.h"
#include "tandem/InitAllPasses.h"
#include "tandem/Support/ToolVersion.h"

int main(int argc, char **argv) {
  tandem::setToolVersion();
  mlir::DialectRegistry registry;
  tandem::registerAllDialects(registry);
  tandem::registerAllPasses();
  tandem::registerTakeOperands();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
