//===- RangeAnalysis.cpp - Ranges of floats -------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the transfer functions of the range analysis.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem/Analysis/RangeAnalysis.h"
#include "mlir/Analysis/DataFlow/ConstantPropagationAnalysis.h"
#include "mlir/Analysis/DataFlow/DeadCodeAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace tandem;
using arith::CmpFPredicate;

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static FloatType floatTypeOf(Value value) {
  return dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
}

/// Returns the range of a float that is converted from an integer.
static FloatRange fromInteger(FloatType type, Value integer, bool isSigned) {
  unsigned width =
      getElementTypeOrSelf(integer.getType()).getIntOrFloatBitWidth();
  double high = std::ldexp(1.0, width - isSigned);
  FloatRange range;
  range.low = isSigned ? -high : 0.0;
  range.high = high;
  return FloatRange::convert(type, range);
}

/// Returns the range of a select. select(x < y, y, x) is not below the lower
/// bound of y and select(x > y, y, x) not above its upper bound, even if x is
/// NaN. A NaN y is never selected.
static FloatRange clamp(arith::SelectOp op, const FloatRange &chosen,
                        const FloatRange &other) {
  FloatRange range = FloatRange::join(chosen, other);
  auto comparison = op.getCondition().getDefiningOp<arith::CmpFOp>();
  if (!comparison || comparison.getRhs() != op.getTrueValue() ||
      comparison.getLhs() != op.getFalseValue() || chosen.mayBeNaN)
    return range;
  CmpFPredicate predicate = comparison.getPredicate();
  if (predicate == CmpFPredicate::OLT || predicate == CmpFPredicate::OLE)
    range.low = std::max(chosen.low, other.low);
  if (predicate == CmpFPredicate::OGT || predicate == CmpFPredicate::OGE)
    range.high = std::min(chosen.high, other.high);
  return range;
}

/// Returns the range of a decoded float. Infinities and NaN, if the format has
/// them, are f32's.
static FloatRange decode(scaled::DecodeFloatOp op) {
  return FloatRange::all(op.getFormat());
}

using RangeRefs = ArrayRef<const RangeLattice *>;

/// Returns the range of an operation's one result, a float.
static FloatRange infer(Operation *op, FloatType type, RangeRefs operands) {
  auto in = [&](unsigned i) -> const FloatRange & {
    return operands[i]->getValue();
  };
  return llvm::TypeSwitch<Operation *, FloatRange>(op)
      .Case([&](arith::ConstantOp op) {
        auto number = dyn_cast<FloatAttr>(op.getValue());
        return number ? FloatRange::constant(number.getValue())
                      : FloatRange::all(type);
      })
      .Case([&](arith::AddFOp) { return FloatRange::add(type, in(0), in(1)); })
      .Case([&](arith::SubFOp) {
        return FloatRange::add(type, in(0), FloatRange::negate(in(1)));
      })
      .Case([&](arith::MulFOp op) {
        return op.getLhs() == op.getRhs()
                   ? FloatRange::square(type, in(0))
                   : FloatRange::multiply(type, in(0), in(1));
      })
      .Case(
          [&](arith::DivFOp) { return FloatRange::divide(type, in(0), in(1)); })
      .Case([&](math::FmaOp) {
        return FloatRange::fma(type, in(0), in(1), in(2));
      })
      .Case([&](math::SqrtOp) { return FloatRange::sqrt(type, in(0)); })
      .Case([&](arith::NegFOp) { return FloatRange::negate(in(0)); })
      .Case([&](math::AbsFOp) { return FloatRange::magnitude(in(0)); })
      .Case([&](arith::MaximumFOp) {
        return FloatRange::maximum(in(0), in(1), /*isNaNKept=*/true);
      })
      .Case([&](arith::MaxNumFOp) {
        return FloatRange::maximum(in(0), in(1), /*isNaNKept=*/false);
      })
      .Case([&](arith::MinimumFOp) {
        return FloatRange::minimum(in(0), in(1), /*isNaNKept=*/true);
      })
      .Case([&](arith::MinNumFOp) {
        return FloatRange::minimum(in(0), in(1), /*isNaNKept=*/false);
      })
      .Case([&](arith::SelectOp op) { return clamp(op, in(1), in(2)); })
      .Case<arith::ExtFOp, arith::TruncFOp>(
          [&](Operation *) { return FloatRange::convert(type, in(0)); })
      .Case([&](arith::UIToFPOp op) {
        return fromInteger(type, op.getIn(), /*isSigned=*/false);
      })
      .Case([&](arith::SIToFPOp op) {
        return fromInteger(type, op.getIn(), /*isSigned=*/true);
      })
      .Case([&](scaled::DecodeFloatOp op) { return decode(op); })
      .Default([&](Operation *) { return FloatRange::all(type); });
}

//===----------------------------------------------------------------------===//
// Trails
//===----------------------------------------------------------------------===//

static bool isOperandOfSum(Value part, Value sum) {
  Operation *op = sum.getDefiningOp();
  return isa_and_nonnull<arith::AddFOp, arith::SubFOp>(op) &&
         llvm::is_contained(op->getOperands(), part);
}

/// Returns the trail of y + y', if y trails one lead and y' trails another. A
/// sum u = fl(c + d) is a multiple of half an ulp of c, even where it cancels.
static std::optional<Trail> addTrail(const Trail &a, const Trail &b) {
  if (a.lead == b.lead)
    return Trail{a.lead, std::max(a.exponent, b.exponent) + 1,
                 a.isUlp && b.isUlp};
  if (a.isUlp && isOperandOfSum(a.lead, b.lead))
    return Trail{b.lead, std::max(a.exponent + 1, b.exponent) + 1, false};
  if (b.isUlp && isOperandOfSum(b.lead, a.lead))
    return Trail{a.lead, std::max(a.exponent, b.exponent + 1) + 1, false};
  return std::nullopt;
}

/// Records that y * v is small compared with lead * v, if the program computes
/// both. This holds only for up to half an ulp of the lead: half an ulp of a
/// subnormal lead rounds to zero, but a larger number may not be small compared
/// with it.
static void addProductTrails(arith::MulFOp op, Value small, Value factor,
                             const FloatRange &range, FloatRange &result) {
  for (const Trail &trail : range.trails) {
    if (!trail.isUlp || trail.exponent >= 0 ||
        trail.lead.getType() != op.getType())
      continue;
    for (Operation *user : trail.lead.getUsers()) {
      auto product = dyn_cast<arith::MulFOp>(user);
      if (product && product != op &&
          ((product.getLhs() == trail.lead && product.getRhs() == factor) ||
           (product.getRhs() == trail.lead && product.getLhs() == factor)))
        result.addTrail({product, 0, /*isUlp=*/true});
    }
  }
}

/// Returns hi if lo = fl(x - hi) and hi = fl(x), or null. A select may replace
/// x - hi by zero.
static Value matchSplit(arith::TruncFOp low) {
  Value rest = low.getIn();
  auto choice = rest.getDefiningOp<arith::SelectOp>();
  if (choice && matchPattern(choice.getFalseValue(), m_AnyZeroFloat()))
    rest = choice.getTrueValue();
  auto difference = rest.getDefiningOp<arith::SubFOp>();
  auto back = difference ? difference.getRhs().getDefiningOp<arith::ExtFOp>()
                         : arith::ExtFOp();
  auto high =
      back ? back.getIn().getDefiningOp<arith::TruncFOp>() : arith::TruncFOp();
  return high && high.getType() == low.getType() &&
                 high.getIn() == difference.getLhs()
             ? high.getOut()
             : Value();
}

void RangeAnalysis::addTrails(Operation *op, FloatRange &range) {
  auto rangeOf = [&](Value value) -> const FloatRange & {
    return getLatticeElementFor(getProgramPointAfter(op), value)->getValue();
  };
  if (std::optional<Transform> transform = matchTransform(op))
    range.addTrail(
        getTrail(*transform, proveExact(*transform, rangeOf(transform->a),
                                        rangeOf(transform->b))));
  if (isa<arith::AddFOp, arith::SubFOp>(op)) {
    for (const Trail &a : rangeOf(op->getOperand(0)).trails)
      for (const Trail &b : rangeOf(op->getOperand(1)).trails)
        if (std::optional<Trail> sum = addTrail(a, b))
          range.addTrail(*sum);
  } else if (auto product = dyn_cast<arith::MulFOp>(op)) {
    Value x = product.getLhs(), y = product.getRhs();
    addProductTrails(product, x, y, rangeOf(x), range);
    addProductTrails(product, y, x, rangeOf(y), range);
  } else if (auto truncation = dyn_cast<arith::TruncFOp>(op)) {
    if (Value high = matchSplit(truncation))
      range.addTrail({high, -1, /*isUlp=*/true});
  }
}

//===----------------------------------------------------------------------===//
// The analysis
//===----------------------------------------------------------------------===//

LogicalResult RangeAnalysis::visitOperation(Operation *op, RangeRefs operands,
                                            ArrayRef<RangeLattice *> results) {
  FloatType type =
      results.size() == 1 ? floatTypeOf(op->getResult(0)) : FloatType();
  if (!type) {
    setAllToEntryStates(results);
    return success();
  }
  for (auto [lattice, operand] : llvm::zip(operands, op->getOperands()))
    if (lattice->getValue().isBottom() && floatTypeOf(operand))
      return success();
  FloatRange range = infer(op, type, operands);
  range.tighten(type);
  addTrails(op, range);
  propagateIfChanged(results[0], results[0]->join(range));
  return success();
}

/// Gives the body's uniform values the ranges that they have in the prologue.
void RangeAnalysis::visitNonControlFlowArguments(
    Operation *op, const RegionSuccessor &successor,
    ArrayRef<RangeLattice *> arguments, unsigned firstIndex) {
  auto kernel = dyn_cast<ProgramOpInterface>(op);
  if (!kernel || successor.getSuccessor() != kernel.getBodyBlock().getParent())
    return setAllToEntryStates(arguments);
  unsigned numTensors = kernel.getNumTensors();
  setAllToEntryStates(arguments.take_front(numTensors));
  Operation *yield = kernel.getPrologueBlock().getTerminator();
  for (auto [argument, value] :
       llvm::zip(arguments.drop_front(numTensors), yield->getOperands())) {
    FloatRange range = getLatticeElementFor(
                           getProgramPointBefore(&kernel.getBodyBlock()), value)
                           ->getValue();
    SmallVector<Trail, 2> trails;
    for (const Trail &trail : range.trails)
      for (auto [uniform, lead] :
           llvm::zip(kernel.getUniforms(), yield->getOperands()))
        if (lead == trail.lead)
          trails.push_back({uniform, trail.exponent, trail.isUlp});
    range.trails = trails;
    propagateIfChanged(argument, argument->join(range));
  }
}

/// Returns whether a value is one that a kernel's prologue yields to its body.
static bool isUniform(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return false;
  auto kernel =
      dyn_cast<ProgramOpInterface>(argument.getOwner()->getParentOp());
  return kernel && argument.getOwner() == &kernel.getBodyBlock() &&
         argument.getArgNumber() >= kernel.getNumTensors();
}

void RangeAnalysis::setToEntryState(RangeLattice *lattice) {
  // The solver considers all arguments of the operation that it starts from
  // unknown, but those of a kernel follow from its prologue.
  if (isUniform(lattice->getAnchor()))
    return;
  Type type = getElementTypeOrSelf(lattice->getAnchor().getType());
  propagateIfChanged(lattice, lattice->join(FloatRange::all(type)));
}

Ranges::Ranges(Operation *top) {
  solver.load<dataflow::DeadCodeAnalysis>();
  solver.load<dataflow::SparseConstantPropagation>();
  solver.load<RangeAnalysis>();
  // It fails only if a transfer function does.
  [[maybe_unused]] LogicalResult result = solver.initializeAndRun(top);
  assert(succeeded(result) && "transfer functions do not fail");
}

const FloatRange &Ranges::get(Value value) const {
  auto *lattice = solver.lookupState<RangeLattice>(value);
  return lattice ? lattice->getValue() : nothing;
}
