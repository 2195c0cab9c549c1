//===- Operations.cpp - Element-wise operations ---------------------------===//
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

#include "tandem/Reference/Interpreter/Operations.h"

#include "mlir/IR/TypeUtilities.h"
#include "tandem/Dialect/MCF/IR/MCF.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

Components Evaluation::getComponents(unsigned i) const {
  Components components;
  for (const Number &number : getLane(i))
    components.push_back(std::get<SoftFloat>(number));
  return components;
}

Components Evaluation::getExpansion(unsigned i) const {
  return widenMixed(getComponents(i));
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

llvm::Error Evaluation::give(ComponentsRef value) {
  auto expansion = cast<mcf::ExpansionType>(getResultElement());
  if (!expansion.isMixed())
    return giveComponents(value);
  Format trailing = *getFormat(expansion.getComponents().back());
  return giveComponents(narrowMixed(value, trailing));
}

llvm::Error Evaluation::giveUnchanged(const Number &value) {
  results.push_back({value});
  return llvm::Error::success();
}

llvm::Error Evaluation::giveUnchanged(const Lane &value) {
  results.push_back(value);
  return llvm::Error::success();
}

llvm::Error Evaluation::giveComponents(ComponentsRef value) {
  return giveUnchanged(Lane(value.begin(), value.end()));
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

template <Components (*sequence)(ComponentsRef, const SoftFloat &)>
static llvm::Error evaluateWithComponent(Evaluation &e) {
  return e.give(sequence(e.getExpansion(0), e.getReal(1)));
}

template <Components (*sequence)(ComponentsRef, ComponentsRef)>
static llvm::Error evaluateBinary(Evaluation &e) {
  return e.give(sequence(e.getExpansion(0), e.getExpansion(1)));
}

template <Components (*sequence)(ComponentsRef)>
static llvm::Error evaluateUnary(Evaluation &e) {
  return e.give(sequence(e.getExpansion(0)));
}

/// Evaluates fast_two_sum, which means two_sum unless the graph grants its
/// condition.
static llvm::Error evaluateFastTwoSum(Evaluation &e) {
  bool isGranted = e.as<mcf::FastTwoSumOp>().getGranted();
  return e.give(isGranted ? fastTwoSum(e.getReal(0), e.getReal(1))
                          : twoSum(e.getReal(0), e.getReal(1)));
}

static llvm::Error evaluateSplit(Evaluation &e) {
  return e.give(split(e.getReal(0)));
}

static llvm::Error evaluateNeg(Evaluation &e) {
  return e.giveComponents(neg(e.getComponents(0)));
}

static llvm::Error evaluateExpansionCompare(Evaluation &e) {
  using P = mcf::ComparePredicate;
  P predicate = e.as<mcf::CompareOp>().getPredicate();
  switch (compare(e.getExpansion(0), e.getExpansion(1))) {
  case Ordering::Less:
    return e.give(Integer(1, predicate == P::lt || predicate == P::le));
  case Ordering::Equal:
    return e.give(Integer(1, predicate == P::eq || predicate == P::le ||
                                 predicate == P::ge));
  case Ordering::Greater:
    return e.give(Integer(1, predicate == P::gt || predicate == P::ge));
  case Ordering::Unordered:
    return e.give(Integer(1, 0));
  }
  llvm_unreachable("every outcome is listed");
}

static llvm::Error evaluatePack(Evaluation &e) {
  Components components;
  for (unsigned i = 0; i < e.getNumOperands(); ++i)
    components.push_back(e.getReal(i));
  return e.giveComponents(components);
}

static llvm::Error evaluateComponents(Evaluation &e) {
  for (const Number &component : e.getLane(0))
    if (llvm::Error error = e.giveUnchanged(component))
      return error;
  return llvm::Error::success();
}

/// Converts between a mixed expansion and two components of its leading format.
static llvm::Error evaluateConvert(Evaluation &e) {
  return e.give(e.getExpansion(0));
}

static llvm::Error giveNearest(Evaluation &e, const SoftFloat &wide) {
  auto expansion = cast<mcf::ExpansionType>(e.getResultElement());
  return e.give(toComponents(wide, *getFormat(expansion.getLeading()),
                             expansion.getLength()));
}

static llvm::Error evaluateExpansionConstant(Evaluation &e) {
  double value = e.as<mcf::ConstantOp>().getValue().convertToDouble();
  return giveNearest(e, SoftFloat::fromDouble(Format::F64, value));
}

static llvm::Error evaluateFromFloat(Evaluation &e) {
  return giveNearest(e, e.getReal(0));
}

static llvm::Error evaluateToFloat(Evaluation &e) {
  return e.give(
      sumComponents(e.getExpansion(0), *getFormat(e.getResultElement())));
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

void tandem::reference::addExpansionOperations(OperationTable &table) {
  table["mcf.fast_two_sum"] = evaluateFastTwoSum;
  table["mcf.two_sum"] = evaluateTransform<twoSum>;
  table["mcf.two_prod"] = evaluateTransform<twoProd>;
  table["mcf.two_prod_dekker"] = evaluateTransform<twoProdDekker>;
  table["mcf.split"] = evaluateSplit;
  table["mcf.grow"] = evaluateWithComponent<grow>;
  table["mcf.kahan"] = evaluateWithComponent<kahan>;
  table["mcf.scale"] = evaluateWithComponent<scale>;
  table["mcf.mul"] = evaluateBinary<mul>;
  table["mcf.add"] = evaluateBinary<add>;
  table["mcf.sub"] = evaluateBinary<sub>;
  table["mcf.div"] = evaluateBinary<div>;
  table["mcf.sqrt"] = evaluateUnary<sqrt>;
  table["mcf.renormalize"] = evaluateUnary<renormalize>;
  table["mcf.compare"] = evaluateExpansionCompare;
  table["mcf.constant"] = evaluateExpansionConstant;
  table["mcf.convert"] = evaluateConvert;
  table["mcf.neg"] = evaluateNeg;
  table["mcf.pack"] = evaluatePack;
  table["mcf.components"] = evaluateComponents;
  table["mcf.from_float"] = evaluateFromFloat;
  table["mcf.to_float"] = evaluateToFloat;
  table["tandem.accumulate"] = evaluateAccumulate;
  table["tandem.decay"] = evaluateDecay;
  table["tandem.ema"] = evaluateEma;
}

OperationHandler tandem::reference::findHandler(Operation *op) {
  static const OperationTable table = [] {
    OperationTable result;
    addFloatOperations(result);
    addIntegerOperations(result);
    addExpansionOperations(result);
    addScaledOperations(result);
    addTranscendentalOperations(result);
    return result;
  }();
  return table.lookup(op->getName().getStringRef());
}

llvm::Error tandem::reference::makeUnknownOperationError(Operation *op) {
  return makeError("the interpreter does not know the operation '" +
                   describe(op->getName()) + "'");
}
