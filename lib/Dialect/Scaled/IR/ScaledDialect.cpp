//===- ScaledDialect.cpp - The scaled dialect -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the dialect of scaled low-precision numbers.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"

using namespace mlir;
using namespace tandem::scaled;

#include "tandem/Dialect/Scaled/IR/ScaledDialect.cpp.inc"

void ScaledDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "tandem/Dialect/Scaled/IR/ScaledOps.cpp.inc"
      >();
}
