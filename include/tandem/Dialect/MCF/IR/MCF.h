//===- MCF.h - Multi-component float dialect --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the mcf dialect, its expansion type and its operations.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_MCF_IR_MCF_H
#define TANDEM_DIALECT_MCF_IR_MCF_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "tandem/Support/LLVM.h"

#include "tandem/Dialect/MCF/IR/MCFDialect.h.inc"
#include "tandem/Dialect/MCF/IR/MCFEnums.h.inc"

namespace tandem::mcf {
/// Returns whether `type` is a format that a component may have.
bool isComponentFormat(Type type);

/// Returns `shape` with its element type replaced. A scalar stays a scalar.
Type withElementType(Type shape, Type element);

/// Parse and print `bf16 x 2` or `bf16, f8E5M2`.
FailureOr<SmallVector<Type>> parseComponentList(AsmParser &parser);
void printComponentList(AsmPrinter &printer, ArrayRef<Type> components);

/// Returns the leading component's type of an expansion, in the expansion's
/// shape, or `type` itself if it holds no expansion (the verifier reports
/// that).
Type getLeadingLike(Type type);
} // namespace tandem::mcf

#define GET_TYPEDEF_CLASSES
#include "tandem/Dialect/MCF/IR/MCFTypes.h.inc"

#define GET_OP_CLASSES
#include "tandem/Dialect/MCF/IR/MCFOps.h.inc"

#endif // TANDEM_DIALECT_MCF_IR_MCF_H
