//===- Blocks.h - Executes blocks of operations -----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the execution of straight-line and structured code on
// scalars and vectors.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_INTERPRETER_BLOCKS_H
#define TANDEM_REFERENCE_INTERPRETER_BLOCKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "tandem/Reference/Interpreter/Operations.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem::reference {

/// Executes the operations that reach outside the values of a block, such as
/// those on memory.
class Environment {
public:
  virtual ~Environment() = default;

  /// Executes an operation, or returns none if the environment does not handle
  /// it.
  virtual std::optional<llvm::Expected<llvm::SmallVector<Datum, 1>>>
  execute(Operation *op, llvm::ArrayRef<const Datum *> operands) = 0;
};

/// Interprets a block; it keeps the values of the block and of those around it.
class BlockInterpreter {
public:
  explicit BlockInterpreter(Environment *environment = nullptr,
                            unsigned depth = 0)
      : environment(environment), depth(depth) {}

  /// Runs a block and returns the operands of its terminator.
  llvm::Expected<llvm::SmallVector<Datum>> run(Block &block,
                                               llvm::ArrayRef<Datum> arguments);

  /// Defines a value before blocks run.
  void bind(Value value, Datum datum) { values[value] = std::move(datum); }

  /// Runs one operation of a block.
  llvm::Error execute(Operation *op);
  llvm::Expected<const Datum *> get(Value value) const;

private:
  llvm::Error executeConstant(Operation *op);
  llvm::Error executeBroadcast(Operation *op);
  llvm::Error executeCall(func::CallOp op);
  llvm::Error executeIf(scf::IfOp op);
  llvm::Error executeFor(scf::ForOp op);
  llvm::Error executeElementwise(Operation *op);
  llvm::Error setResults(Operation *op, llvm::ArrayRef<Datum> results);

  Environment *environment;
  /// The depth of the call stack.
  unsigned depth;
  llvm::DenseMap<Value, Datum> values;
};

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_INTERPRETER_BLOCKS_H
