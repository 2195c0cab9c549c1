//===- Graph.h - Questions about a graph ------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what passes and tools ask of a source graph: its checked
// signature, where a value comes from, whether it is uniform.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_TRANSFORMS_GRAPH_H
#define TANDEM_DIALECT_TANDEM_TRANSFORMS_GRAPH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/LLVM.h"
#include "llvm/Support/Error.h"

namespace tandem {

/// Whether a function is a graph: any of its arguments has a role.
bool isGraph(func::FuncOp function);

/// The program of a module, to be compiled or interpreted: a graph, the kernel
/// that a graph becomes, or the step that a kernel becomes.
struct Program {
  func::FuncOp graph;
  KernelOp kernel;
  StepOp step;
};

/// Finds the one program of a module. A graph needs a strategy's name; a kernel
/// has its storages and must come without.
/// `function` is its name where there are several, such as a layer's two
/// passes.
llvm::Expected<Program> findProgram(ModuleOp module, StringRef strategy,
                                    StringRef function = {});

/// Erases all kernels but the one of a name, if there is a name: a layer's
/// other passes, when they have had their say.
void keepKernel(ModuleOp module, StringRef name);

/// Checks a graph's boundary: every argument has a role, names are unique,
/// there is a param, at most one step and one seed, and the results are the new
/// values of the param and state arguments in order.
LogicalResult verifyGraph(func::FuncOp function);

/// Whether a graph has rows and columns: tensors with an entry for each of
/// them, or reductions along them. Else its tensors are flat, whatever their
/// rank.
bool isMatrixGraph(func::FuncOp function);

/// The param and state arguments, in the order of the results.
SmallVector<BlockArgument> getUpdatedArguments(func::FuncOp function);

/// The value that `value` is, looking through the block arguments and results
/// of linalg operations and through tandem.decode and tandem.encode.
Value resolve(Value value);

/// Whether `value` depends only on hyperparameters, step, seed and literals.
bool isUniform(Value value);

} // namespace tandem

#endif // TANDEM_DIALECT_TANDEM_TRANSFORMS_GRAPH_H
