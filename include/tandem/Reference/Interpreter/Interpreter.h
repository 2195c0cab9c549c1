//===- Interpreter.h - The reference interpreter ----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the reference interpreter, the oracle of every backend. It
// applies docs/Numerics.md to source graphs by itself, and runs kernels and
// functions at any stage of their lowering. It shares no code with the
// lowerings, computes in integer arithmetic, and puts readability before speed.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_INTERPRETER_INTERPRETER_H
#define TANDEM_REFERENCE_INTERPRETER_INTERPRETER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tandem::reference {

/// The elements of one plane as bit patterns.
struct PlaneData {
  /// Bits of an element: 8, 16 or 32.
  unsigned width;
  std::vector<uint64_t> elements;
  /// The dimensions. There is one if it is empty.
  std::vector<int64_t> shape = {};
};

/// The data that a launch reads and writes. Planes are named by their role and
/// the storage's suffix: "param", "param.lo", "exp_avg_sq"...
struct MachineState {
  std::map<std::string, PlaneData> planes;
  /// Hyperparameters by the name of their role.
  std::map<std::string, double> hypers;
  int64_t step = 1;
  uint64_t seed = 0;
  /// The random-number key of the tensor.
  uint32_t key = 0;
  /// The index of element 0 in the unsharded tensor; 0 for a matrix.
  int64_t first = 0;
  /// The flags raised by the launch so far; bit 0 by a gradient that is not
  /// finite.
  uint32_t flags = 0;
  /// Computes an external step by its name: reads the planes that are sent to
  /// it, and writes those that are received from it.
  std::function<llvm::Error(llvm::StringRef, MachineState &)> external = {};
};

/// Runs one step of a source graph under a strategy as specified, without
/// compiling it. Planes are updated in place; a plane that a step only writes
/// (a transposed copy) is created where it is missing. A sum over the model is
/// one over this tensor, as if the launch had no other. In a graph of matrices
/// the shapes of their planes say how many rows and columns there are. After an
/// error every plane has its old value.
llvm::Error interpretGraph(func::FuncOp graph, StrategyOp strategy,
                           MachineState &state);

/// Runs one step of an unmodified kernel, at any stage between
/// -tandem-form-kernel and -tandem-split-phases, as if the model were this
/// tensor. Before -tandem-apply-policy its values are real numbers, which f32
/// represents. It has no phases, and all of it runs once more after each
/// external step. After an error every plane has its old value.
llvm::Error interpretKernel(KernelOp kernel, MachineState &state);

/// Runs all launches of an unmodified step likewise, at any stage up to
/// -tandem-widen.
llvm::Error interpretStep(StepOp step, MachineState &state);

/// The bits of one value: a number for each lane of a vector and, within a
/// lane, for each component of an expansion.
using ValueBits = llvm::SmallVector<uint64_t, 2>;

/// Runs a function over scalars and vectors. NaNs in the results are canonical.
llvm::Expected<llvm::SmallVector<ValueBits>>
interpretFunction(func::FuncOp function, llvm::ArrayRef<ValueBits> arguments);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_INTERPRETER_INTERPRETER_H
