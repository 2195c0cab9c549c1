//===- InterpreterOperations.cpp - Element-wise operations ----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the table of operations and the operations on
// expansions.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/InterpreterOperations.h"

#include "mlir/IR/TypeUtilities.h"
#include "tandem/Dialect/MCF/IR/MCF.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"

using namespace mlir;
using namespace mlir::tandem::reference;

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

SmallVector<SoftFloat, 2> Evaluation::getComponents(unsigned i) const {
  SmallVector<SoftFloat, 2> components;
  for (const Number &number : getLane(i))
    components.push_back(std::get<SoftFloat>(number));
  return components;
}

llvm::Expected<Pair> Evaluation::getPair(unsigned i) const {
  SmallVector<SoftFloat, 2> parts = getComponents(i);
  if (parts.size() != 2 || parts[0].getFormat() != parts[1].getFormat())
    return fail("has a sequence for two components of one format");
  return Pair{parts[0], parts[1]};
}

Type Evaluation::getResultElement(unsigned i) const {
  return getElementTypeOrSelf(op->getResult(i).getType());
}

llvm::Error Evaluation::give(const SoftFloat &value) {
  if (!value.isNaN())
    return giveUnchanged(value);
  Format format = value.getFormat();
  return giveUnchanged(
      SoftFloat(format, llvm::APFloat::getNaN(getSemantics(format))));
}

llvm::Error Evaluation::give(const Integer &value) {
  return giveUnchanged(value);
}

llvm::Error Evaluation::give(const Pair &value) {
  return giveUnchanged(Lane{value.high, value.low});
}

llvm::Error Evaluation::giveUnchanged(const Number &value) {
  results.push_back({value});
  return llvm::Error::success();
}

llvm::Error Evaluation::giveUnchanged(const Lane &value) {
  results.push_back(value);
  return llvm::Error::success();
}

llvm::Error Evaluation::fail(const llvm::Twine &why) const {
  return makeError("'" + describe(op->getName()) + "' " + why);
}

//===----------------------------------------------------------------------===//
// Operations on expansions
//===----------------------------------------------------------------------===//

template <Pair (*sequence)(const SoftFloat &, const SoftFloat &)>
static llvm::Error evaluateTransform(Evaluation &e) {
  return e.give(sequence(e.getReal(0), e.getReal(1)));
}

template <Pair (*sequence)(const Pair &, const SoftFloat &)>
static llvm::Error evaluateWithComponent(Evaluation &e) {
  llvm::Expected<Pair> lhs = e.getPair(0);
  if (!lhs)
    return lhs.takeError();
  return e.give(sequence(*lhs, e.getReal(1)));
}

/// A grant is the graph's; without one the operation means two_sum.
static llvm::Error evaluateFastTwoSum(Evaluation &e) {
  bool isGranted = e.as<mcf::FastTwoSumOp>().getGranted();
  return e.give(isGranted ? fastTwoSum(e.getReal(0), e.getReal(1))
                          : twoSum(e.getReal(0), e.getReal(1)));
}

static llvm::Error evaluateSplit(Evaluation &e) {
  return e.give(split(e.getReal(0)));
}

static llvm::Error evaluateMul(Evaluation &e) {
  llvm::Expected<Pair> lhs = e.getPair(0);
  if (!lhs)
    return lhs.takeError();
  llvm::Expected<Pair> rhs = e.getPair(1);
  if (!rhs)
    return rhs.takeError();
  return e.give(mul(*lhs, *rhs));
}

static llvm::Error evaluateNeg(Evaluation &e) {
  Lane lane;
  for (const SoftFloat &component : e.getComponents(0))
    lane.push_back(component.neg());
  return e.giveUnchanged(lane);
}

static llvm::Error evaluatePack(Evaluation &e) {
  Lane lane;
  for (unsigned i = 0; i < e.getNumOperands(); ++i)
    lane.push_back(e.getReal(i));
  return e.giveUnchanged(lane);
}

static llvm::Error evaluateComponents(Evaluation &e) {
  for (const Number &component : e.getLane(0))
    if (llvm::Error error = e.giveUnchanged(component))
      return error;
  return llvm::Error::success();
}

static llvm::Error evaluateFromFloat(Evaluation &e) {
  auto expansion = cast<mcf::ExpansionType>(e.getResultElement());
  if (expansion.isMixed())
    return e.fail("has no sequence for a mixed expansion");
  Lane lane;
  for (const SoftFloat &component :
       toComponents(e.getReal(0), *getFormat(expansion.getLeading()),
                    expansion.getLength()))
    lane.push_back(component);
  return e.giveUnchanged(lane);
}

static llvm::Error evaluateToFloat(Evaluation &e) {
  SmallVector<SoftFloat, 2> components = e.getComponents(0);
  if (components.front().getFormat() != components.back().getFormat())
    return e.fail("has no sequence for a mixed expansion");
  return e.give(sumComponents(components, *getFormat(e.getResultElement())));
}

//===----------------------------------------------------------------------===//
// The named updates, on real numbers
//===----------------------------------------------------------------------===//

static llvm::Error evaluateAccumulate(Evaluation &e) {
  return e.give(e.getReal(0).add(e.getReal(1)));
}

static llvm::Error evaluateDecay(Evaluation &e) {
  return e.give(e.getReal(1).mul(e.getReal(0)));
}

static llvm::Error evaluateEma(Evaluation &e) {
  return e.give(e.getReal(1).mul(e.getReal(0)).add(e.getReal(2)));
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

void mlir::tandem::reference::addExpansionOperations(OperationTable &table) {
  table["mcf.fast_two_sum"] = evaluateFastTwoSum;
  table["mcf.two_sum"] = evaluateTransform<twoSum>;
  table["mcf.two_prod"] = evaluateTransform<twoProd>;
  table["mcf.two_prod_dekker"] = evaluateTransform<twoProdDekker>;
  table["mcf.split"] = evaluateSplit;
  table["mcf.grow"] = evaluateWithComponent<grow>;
  table["mcf.kahan"] = evaluateWithComponent<kahan>;
  table["mcf.scale"] = evaluateWithComponent<scale>;
  table["mcf.mul"] = evaluateMul;
  table["mcf.neg"] = evaluateNeg;
  table["mcf.pack"] = evaluatePack;
  table["mcf.components"] = evaluateComponents;
  table["mcf.from_float"] = evaluateFromFloat;
  table["mcf.to_float"] = evaluateToFloat;
  table["tandem.accumulate"] = evaluateAccumulate;
  table["tandem.decay"] = evaluateDecay;
  table["tandem.ema"] = evaluateEma;
}

OperationHandler mlir::tandem::reference::findHandler(Operation *op) {
  static const OperationTable table = [] {
    OperationTable result;
    addFloatOperations(result);
    addIntegerOperations(result);
    addExpansionOperations(result);
    addScaledOperations(result);
    return result;
  }();
  return table.lookup(op->getName().getStringRef());
}

llvm::Error mlir::tandem::reference::makeUnknownOperationError(Operation *op) {
  return makeError("the interpreter does not know the operation '" +
                   describe(op->getName()) + "'");
}
