//===- PCH.h - Precompiled header -------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file lists the slow, stable headers that nearly every file includes;
// CMake precompiles it once. No file may rely on it: each includes what it
// uses.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_PCH_H
#define TANDEM_SUPPORT_PCH_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/DialectConversion.h"

#endif // TANDEM_SUPPORT_PCH_H
