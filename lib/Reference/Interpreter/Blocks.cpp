//===- Blocks.cpp - Executes blocks of operations -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the execution of blocks, functions and structured
// control flow.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Interpreter/Blocks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "tandem/Reference/Interpreter/Interpreter.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem::reference;
namespace reference = tandem::reference;

llvm::Expected<SmallVector<Datum>>
BlockInterpreter::run(Block &block, ArrayRef<Datum> arguments) {
  for (auto [argument, datum] : llvm::zip(block.getArguments(), arguments))
    values[argument] = datum;
  for (Operation &op : block.without_terminator())
    if (llvm::Error error = execute(&op))
      return error;
  SmallVector<Datum> results;
  if (!block.mightHaveTerminator())
    return results;
  for (Value operand : block.getTerminator()->getOperands()) {
    llvm::Expected<const Datum *> datum = get(operand);
    if (!datum)
      return datum.takeError();
    results.push_back(**datum);
  }
  return results;
}

llvm::Expected<const Datum *> BlockInterpreter::get(Value value) const {
  auto found = values.find(value);
  if (found != values.end())
    return &found->second;
  return makeError("a value of type '" + describe(value.getType()) +
                   "' has no numbers");
}

llvm::Error BlockInterpreter::setResults(Operation *op,
                                         ArrayRef<Datum> results) {
  for (auto [value, datum] : llvm::zip(op->getResults(), results))
    values[value] = datum;
  return llvm::Error::success();
}

llvm::Error BlockInterpreter::execute(Operation *op) {
  return llvm::TypeSwitch<Operation *, llvm::Error>(op)
      .Case<arith::ConstantOp>([&](auto) { return executeConstant(op); })
      .Case<vector::BroadcastOp>([&](auto) { return executeBroadcast(op); })
      .Case<func::CallOp>([&](auto call) { return executeCall(call); })
      .Case<scf::IfOp>([&](auto branch) { return executeIf(branch); })
      .Case<scf::ForOp>([&](auto loop) { return executeFor(loop); })
      .Default([&](auto) { return executeElementwise(op); });
}

//===----------------------------------------------------------------------===//
// Values from elsewhere
//===----------------------------------------------------------------------===//

llvm::Error BlockInterpreter::executeConstant(Operation *op) {
  // A block that runs again for other elements has the same constants.
  Value result = op->getResult(0);
  if (values.contains(result))
    return llvm::Error::success();
  llvm::Expected<Datum> datum = datumFromAttribute(
      result.getType(), cast<arith::ConstantOp>(op).getValue());
  if (!datum)
    return datum.takeError();
  values[result] = std::move(*datum);
  return llvm::Error::success();
}

llvm::Error BlockInterpreter::executeBroadcast(Operation *op) {
  llvm::Expected<const Datum *> source = get(op->getOperand(0));
  if (!source)
    return source.takeError();
  unsigned lanes = getNumLanes(op->getResult(0).getType());
  if ((*source)->size() != 1 && (*source)->size() != lanes)
    return makeError("'vector.broadcast' from " +
                     describe(op->getOperand(0).getType()) +
                     " is not known to the interpreter; it broadcasts scalars");
  Datum datum = **source;
  if (datum.size() == 1)
    datum.resize(lanes, Lane(datum.front()));
  return setResults(op, datum);
}

//===----------------------------------------------------------------------===//
// Calls and control flow
//===----------------------------------------------------------------------===//

/// Runs the only block of a function with a new environment.
static llvm::Expected<SmallVector<Datum>>
runFunction(func::FuncOp function, ArrayRef<Datum> arguments, unsigned depth) {
  constexpr unsigned kDeepest = 100;
  if (function.isExternal() || !llvm::hasSingleElement(function.getBody()))
    return makeError(
        "function '" + function.getName() +
        "' must have one block; the interpreter knows scf, not cf");
  if (depth > kDeepest)
    return makeError("function '" + function.getName() + "' calls itself");
  return BlockInterpreter(nullptr, depth)
      .run(function.getBody().front(), arguments);
}

llvm::Error BlockInterpreter::executeCall(func::CallOp op) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      op, op.getCalleeAttr());
  if (!callee)
    return makeError("there is no function '" + op.getCallee() + "'");
  SmallVector<Datum> arguments;
  for (Value operand : op.getOperands()) {
    llvm::Expected<const Datum *> datum = get(operand);
    if (!datum)
      return datum.takeError();
    arguments.push_back(**datum);
  }
  llvm::Expected<SmallVector<Datum>> results =
      runFunction(callee, arguments, depth + 1);
  if (!results)
    return results.takeError();
  return setResults(op, *results);
}

llvm::Error BlockInterpreter::executeIf(scf::IfOp op) {
  llvm::Expected<const Datum *> condition = get(op.getCondition());
  if (!condition)
    return condition.takeError();
  bool isTrue = std::get<Integer>((*condition)->front().front()).bits;
  Region &region = isTrue ? op.getThenRegion() : op.getElseRegion();
  if (region.empty())
    return llvm::Error::success();
  llvm::Expected<SmallVector<Datum>> results = run(region.front(), {});
  if (!results)
    return results.takeError();
  return setResults(op, *results);
}

llvm::Error BlockInterpreter::executeFor(scf::ForOp op) {
  int64_t bounds[3];
  Value operands[] = {op.getLowerBound(), op.getUpperBound(), op.getStep()};
  unsigned width = 64;
  for (auto [bound, operand] : llvm::zip(bounds, operands)) {
    llvm::Expected<const Datum *> datum = get(operand);
    if (!datum)
      return datum.takeError();
    const Integer &integer = std::get<Integer>((*datum)->front().front());
    bound = integer.getSigned();
    width = integer.width;
  }
  SmallVector<Datum> carried;
  for (Value initial : op.getInitArgs()) {
    llvm::Expected<const Datum *> datum = get(initial);
    if (!datum)
      return datum.takeError();
    carried.push_back(**datum);
  }
  if (bounds[2] <= 0)
    return makeError("'scf.for' has the step " + llvm::Twine(bounds[2]) +
                     "; it must be positive");
  for (int64_t i = bounds[0]; i < bounds[1]; i += bounds[2]) {
    SmallVector<Datum> arguments = {Datum{Lane{Integer(width, i)}}};
    arguments.append(carried);
    llvm::Expected<SmallVector<Datum>> next = run(*op.getBody(), arguments);
    if (!next)
      return next.takeError();
    carried = std::move(*next);
  }
  return setResults(op, carried);
}

//===----------------------------------------------------------------------===//
// Element-wise operations
//===----------------------------------------------------------------------===//

llvm::Error BlockInterpreter::executeElementwise(Operation *op) {
  SmallVector<const Datum *> operands;
  for (Value operand : op->getOperands()) {
    auto found = values.find(operand);
    operands.push_back(found == values.end() ? nullptr : &found->second);
  }
  if (environment)
    if (auto results = environment->execute(op, operands))
      return *results ? setResults(op, **results) : results->takeError();
  OperationHandler handler = findHandler(op);
  if (!handler || op->getNumResults() == 0)
    return makeUnknownOperationError(op);

  size_t numLanes = getNumLanes(op->getResult(0).getType());
  for (const Datum *datum : operands)
    numLanes = std::max(numLanes, datum ? datum->size() : 0);
  SmallVector<Datum, 2> results(op->getNumResults(), Datum(numLanes));
  SmallVector<const Lane *, 3> lanes(operands.size());
  for (unsigned i = 0; i < numLanes; ++i) {
    for (auto [lane, datum, operand] :
         llvm::zip(lanes, operands, op->getOperands())) {
      if (!datum)
        return get(operand).takeError();
      // A scalar operand, such as the condition of a select, is used for every
      // lane.
      lane = &getLane(*datum, i);
    }
    Evaluation evaluation(op, lanes);
    if (llvm::Error error = handler(evaluation))
      return error;
    for (auto [datum, lane] : llvm::zip(results, evaluation.results))
      datum[i] = std::move(lane);
  }
  for (auto [value, datum] : llvm::zip(op->getResults(), results))
    values[value] = std::move(datum);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

llvm::Expected<SmallVector<ValueBits>>
reference::interpretFunction(func::FuncOp function,
                             ArrayRef<ValueBits> arguments) {
  if (arguments.size() != function.getNumArguments())
    return makeError("function '" + function.getName() + "' takes " +
                     llvm::Twine(function.getNumArguments()) +
                     " arguments, got " + llvm::Twine(arguments.size()));
  SmallVector<Datum> values;
  for (auto [type, bits] : llvm::zip(function.getArgumentTypes(), arguments)) {
    llvm::Expected<Datum> datum = datumFromBits(type, bits);
    if (!datum)
      return datum.takeError();
    values.push_back(std::move(*datum));
  }
  llvm::Expected<SmallVector<Datum>> results = runFunction(function, values, 0);
  if (!results)
    return results.takeError();
  SmallVector<ValueBits> bits;
  for (const Datum &datum : *results)
    bits.push_back(datumToBits(datum));
  return bits;
}
