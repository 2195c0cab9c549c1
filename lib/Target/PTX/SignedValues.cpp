//===- SignedValues.cpp - Values but for their signs ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the numbers of values that the optimizer computes once.
//
//===----------------------------------------------------------------------===//

#include "SignedValues.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::tandem;

bool SignedValues::repeats(Operation &op) {
  if (op.getNumResults() != 1)
    return false;
  auto [value, isNew] =
      isMemoryEffectFree(&op) ? find(op) : Found{SignedValue{next++}, true};
  known[op.getResult(0)] = value;
  return !isNew;
}

SignedValue SignedValues::get(Value value) {
  auto [place, isNew] = known.try_emplace(value);
  if (isNew)
    place->second = {next++};
  return place->second;
}

template <typename OpTy>
static const void *getKind(Operation &op) {
  return OperationName(OpTy::getOperationName(), op.getContext())
      .getAsOpaquePointer();
}

SignedValues::Found SignedValues::add(Operation &op, const void *kind,
                                      ArrayRef<uint64_t> operands,
                                      bool isNegative) {
  std::vector<uint64_t> key = {
      uint64_t(kind), uint64_t(op.getResult(0).getType().getAsOpaquePointer())};
  key.insert(key.end(), operands.begin(), operands.end());
  auto [place, isNew] = numbers.try_emplace(key, next);
  next += isNew;
  return {{place->second, isNegative}, isNew};
}

SignedValues::Found SignedValues::findMagnitude(Operation &op, SignedValue a) {
  uint64_t source = getMagnitude(a);
  Found found = add(op, getKind<math::AbsFOp>(op), {source});
  magnitudes[found.first.number] = source;
  return found;
}

SignedValues::Found SignedValues::findCopySign(Operation &op, SignedValue a,
                                               SignedValue sign) {
  uint64_t source = getMagnitude(a);
  Found found = add(op, getKind<math::CopySignOp>(op), {source, sign.number},
                    sign.isNegative);
  magnitudes[found.first.number] = source;
  return found;
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

// For which orders of two operands a comparison holds.
static constexpr unsigned equal = 1, greater = 2, less = 4, unordered = 8;

static unsigned getOrders(arith::CmpFOp op) {
  using P = arith::CmpFPredicate;
  P predicate = op.getPredicate();
  if (predicate == P::UNO)
    return unordered;
  // The names' values are their orders, but for the place of UNO.
  unsigned value = unsigned(predicate);
  return predicate < P::UEQ || predicate == P::AlwaysTrue ? value : value + 1;
}

static unsigned getOrders(arith::CmpIOp op) {
  using P = arith::CmpIPredicate;
  switch (op.getPredicate()) {
  case P::eq:
    return equal;
  case P::ne:
    return less | greater;
  case P::slt:
  case P::ult:
    return less;
  case P::sle:
  case P::ule:
    return less | equal;
  case P::sgt:
  case P::ugt:
    return greater;
  case P::sge:
  case P::uge:
    return greater | equal;
  }
  llvm_unreachable("unknown predicate");
}

/// Those of b and a.
static unsigned swapOrders(unsigned orders) {
  unsigned same = orders & (equal | unordered);
  return same | (orders & greater ? less : 0) | (orders & less ? greater : 0);
}

/// Whether an integer comparison is unsigned; 2 where signs do not matter.
static uint64_t getSignedness(arith::CmpIOp op) {
  using P = arith::CmpIPredicate;
  if (op.getPredicate() == P::eq || op.getPredicate() == P::ne)
    return 2;
  return op.getPredicate() >= P::ult;
}

SignedValues::Found SignedValues::findComparison(Operation &op, SignedValue a,
                                                 SignedValue b) {
  auto integers = dyn_cast<arith::CmpIOp>(op);
  bool isFloat = !integers;
  unsigned orders =
      isFloat ? getOrders(cast<arith::CmpFOp>(op)) : getOrders(integers);
  unsigned all = equal | greater | less | (isFloat ? unordered : 0);
  if (a.pack() > b.pack()) {
    std::swap(a, b);
    orders = swapOrders(orders);
  }
  // a < -b where b < -a.
  if (isFloat && b.isNegative) {
    a = -a, b = -b;
    orders = swapOrders(orders);
  }
  bool isOpposite = orders & equal;
  return add(op,
             isFloat ? getKind<arith::CmpFOp>(op) : getKind<arith::CmpIOp>(op),
             {isFloat ? 0 : getSignedness(integers),
              isOpposite ? all & ~orders : orders, a.pack(), b.pack()},
             isOpposite);
}

SignedValues::Found SignedValues::findChoice(Operation &op,
                                             SignedValue condition,
                                             SignedValue chosen,
                                             SignedValue other) {
  if (condition.isNegative)
    std::swap(chosen, other);
  bool areNegative = chosen.isNegative && other.isNegative;
  if (areNegative)
    chosen = -chosen, other = -other;
  return add(op, getKind<arith::SelectOp>(op),
             {condition.number, chosen.pack(), other.pack()}, areNegative);
}

/// An exclusive disjunction has the signs of both, and what is not both is not
/// one or not the other.
SignedValues::Found SignedValues::findCondition(Operation &op, SignedValue a,
                                                SignedValue b) {
  if (isa<arith::XOrIOp>(op) && matchPattern(op.getOperand(1), m_One()))
    return {-a, false};
  bool isNegative = isa<arith::OrIOp>(op);
  if (isNegative)
    a = -a, b = -b;
  if (isa<arith::XOrIOp>(op)) {
    isNegative = a.isNegative != b.isNegative;
    a.isNegative = b.isNegative = false;
  }
  const void *kind = isa<arith::XOrIOp>(op) ? getKind<arith::XOrIOp>(op)
                                            : getKind<arith::AndIOp>(op);
  return add(op, kind,
             {std::min(a.pack(), b.pack()), std::max(a.pack(), b.pack())},
             isNegative);
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Gives an operation's sign to its result, where its operands' decide it.
static bool takeSign(Operation &op, MutableArrayRef<SignedValue> operands) {
  // A difference is a sum.
  if (isa<arith::SubFOp>(op))
    operands[1] = -operands[1];
  // The sign of a product, or a quotient, is those of both.
  if (isa<arith::MulFOp, arith::DivFOp>(op)) {
    bool isNegative = operands[0].isNegative != operands[1].isNegative;
    operands[0].isNegative = operands[1].isNegative = false;
    return isNegative;
  }
  if (isa<math::FmaOp>(op)) {
    operands[0].isNegative ^= operands[1].isNegative;
    operands[1].isNegative = false;
  }
  return false;
}

SignedValues::Found SignedValues::find(Operation &op) {
  SmallVector<SignedValue> operands;
  for (Value operand : op.getOperands())
    operands.push_back(get(operand));
  if (isa<arith::NegFOp>(op))
    return {-operands[0], false};
  if (isa<math::AbsFOp>(op))
    return findMagnitude(op, operands[0]);
  if (isa<math::CopySignOp>(op))
    return findCopySign(op, operands[0], operands[1]);
  if (isa<arith::CmpFOp, arith::CmpIOp>(op))
    return findComparison(op, operands[0], operands[1]);
  if (isa<arith::SelectOp>(op))
    return findChoice(op, operands[0], operands[1], operands[2]);
  if (isa<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op) &&
      getElementTypeOrSelf(op.getResult(0)).isInteger(1))
    return findCondition(op, operands[0], operands[1]);
  bool isNegative = takeSign(op, operands);
  SmallVector<uint64_t> packed;
  for (SignedValue operand : operands)
    packed.push_back(operand.pack());
  bool isDifference = isa<arith::SubFOp>(op);
  if (op.hasTrait<OpTrait::IsCommutative>() || isDifference)
    llvm::sort(packed);
  packed.push_back(uint64_t(op.getAttrDictionary().getAsOpaquePointer()));
  return add(op,
             isDifference ? getKind<arith::AddFOp>(op)
                          : op.getName().getAsOpaquePointer(),
             packed, isNegative);
}
