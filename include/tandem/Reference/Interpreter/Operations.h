//===- Operations.h - Element-wise operations -------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the table of operations that the reference interpreter can
// evaluate lane by lane.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_INTERPRETER_OPERATIONS_H
#define TANDEM_REFERENCE_INTERPRETER_OPERATIONS_H

#include "mlir/IR/Operation.h"
#include "tandem/Reference/Interpreter/Arithmetic.h"
#include "tandem/Reference/Interpreter/Values.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"

namespace tandem::reference {

/// One lane of an operation. The operands decide the format in which it is
/// computed; the operation has everything else, such as attributes.
class Evaluation {
public:
  Evaluation(Operation *op, llvm::ArrayRef<const Lane *> operands)
      : op(op), operands(operands) {}

  template <typename OpTy>
  OpTy as() const {
    return llvm::cast<OpTy>(op);
  }
  unsigned getNumOperands() const { return operands.size(); }
  const Lane &getLane(unsigned i) const { return *operands[i]; }
  const SoftFloat &getReal(unsigned i) const {
    return std::get<SoftFloat>(operands[i]->front());
  }
  const Integer &getInteger(unsigned i) const {
    return std::get<Integer>(operands[i]->front());
  }
  /// Returns the components of an expansion, as they are stored.
  Components getComponents(unsigned i) const;
  /// Returns the same, those of a mixed expansion in its leading format.
  Components getExpansion(unsigned i) const;

  /// Returns the element type of a result.
  Type getResultElement(unsigned i = 0) const;

  /// Adds a result of arithmetic. A NaN loses its payload, since any payload is
  /// allowed.
  llvm::Error give(const SoftFloat &value);
  llvm::Error give(const Integer &value);
  llvm::Error give(const Pair &value);
  /// Adds a result of expansion arithmetic, narrowed if the result is mixed.
  llvm::Error give(ComponentsRef value);
  /// Adds a number that is passed on unchanged.
  llvm::Error giveUnchanged(const Number &value);
  llvm::Error giveUnchanged(const Lane &value);
  llvm::Error giveComponents(ComponentsRef value);
  llvm::Error fail(const llvm::Twine &why) const;

  Operation *const op;
  SmallVector<Lane, 2> results;

private:
  llvm::ArrayRef<const Lane *> operands;
};

using OperationHandler = llvm::Error (*)(Evaluation &);
using OperationTable = llvm::StringMap<OperationHandler>;

void addFloatOperations(OperationTable &table);
void addIntegerOperations(OperationTable &table);
void addExpansionOperations(OperationTable &table);
void addScaledOperations(OperationTable &table);
void addTranscendentalOperations(OperationTable &table);

/// Returns the handler of an operation, or null if the interpreter does not
/// know it.
OperationHandler findHandler(Operation *op);

/// Returns the error for an operation that the interpreter does not know.
llvm::Error makeUnknownOperationError(Operation *op);

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_INTERPRETER_OPERATIONS_H
