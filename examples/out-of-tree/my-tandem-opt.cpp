//===- my-tandem-opt.cpp - Optimizer driver of an out-of-tree project -----===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements an opt driver with the dialects and passes of Tandem and
// of this project.
//
//===----------------------------------------------------------------------===//

#include "Passes.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tandem/InitAllDialects.h"
#include "tandem/InitAllPasses.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  tandem::registerAllDialects(registry);
  tandem::registerAllPasses();
  my::registerMyTandemPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "Optimizer driver with passes of its own\n", registry));
}
