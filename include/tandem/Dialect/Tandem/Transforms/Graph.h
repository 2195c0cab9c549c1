//===- Graph.h - Queries about a graph --------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the queries that passes and tools make about a source
// graph: its checked signature, where a value comes from, and whether it is
// uniform.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_TRANSFORMS_GRAPH_H
#define TANDEM_DIALECT_TANDEM_TRANSFORMS_GRAPH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/LLVM.h"
#include "llvm/Support/Error.h"

namespace tandem {

/// Returns whether a function is a graph: any of its arguments has a role.
bool isGraph(func::FuncOp function);

/// The program of a module, to be compiled or interpreted: a graph, the kernel
/// that a graph becomes, or the step that a kernel becomes.
struct Program {
  func::FuncOp graph;
  KernelOp kernel;
  StepOp step;
};

/// Finds the only program of a module, or the graph named `function` if there
/// are several, such as a layer's two passes. A graph needs a strategy's name;
/// a kernel has its storages and must not have one.
llvm::Expected<Program> findProgram(ModuleOp module, StringRef strategy,
                                    StringRef function = {});

/// Erases all kernels except the one of a name, if there is a name. The others
/// are a layer's other passes, which are not compiled.
void keepKernel(ModuleOp module, StringRef name);

/// Checks a graph's boundary: every argument has a role, names are unique,
/// there is a tensor to update or to write, at most one step and one seed, and
/// the results are the values of `getUpdatedArguments` in order.
LogicalResult verifyGraph(func::FuncOp function);

/// Returns whether a graph has rows and columns: tensors with an entry for each
/// of them, matrices of a layer, or reductions along them. Otherwise its
/// tensors are flat, whatever their rank.
bool isMatrixGraph(func::FuncOp function);

/// Returns the arguments that a graph updates or writes (params, states,
/// outputs and saved tensors), in the order of the results.
SmallVector<BlockArgument> getUpdatedArguments(func::FuncOp function);

/// Adds an argument after a graph's last tensor, where it changes the random
/// bits of none.
BlockArgument addTensor(func::FuncOp function, Type type, RoleAttr role);

/// Adds an argument at the end of a graph.
BlockArgument addScalar(func::FuncOp function, Type type, RoleAttr role);

/// Returns the params of a graph and their new values.
SmallVector<std::pair<BlockArgument, Value>>
getNewParams(func::FuncOp function);

/// Appends results to a graph, and updates its type.
void addResults(func::FuncOp function, ValueRange results);

/// Returns the value that `value` stands for, looking through the block
/// arguments and results of linalg operations and through tandem.decode and
/// tandem.encode.
Value resolve(Value value);

/// Returns whether `value` depends only on hyperparameters, step, seed and
/// literals.
bool isUniform(Value value);

} // namespace tandem

#endif // TANDEM_DIALECT_TANDEM_TRANSFORMS_GRAPH_H
