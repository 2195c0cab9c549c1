//===- EvenOddLayout.cpp - Order of a block's lanes -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the order of elements in the lanes of a CPU kernel.
//
//===----------------------------------------------------------------------===//

#include "EvenOddLayout.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "tandem/Conversion/PaddingLanes.h"

using namespace mlir;
using namespace tandem;

static unsigned bitsOf(Value value) {
  return getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
}

/// Returns whether `op` is an OpTy on vectors of these widths.
template <typename OpTy>
static bool converts(Operation *op, unsigned from, unsigned to) {
  return isa<OpTy>(op) && isa<VectorType>(op->getResult(0).getType()) &&
         bitsOf(op->getOperand(0)) == from && bitsOf(op->getResult(0)) == to;
}

/// Returns whether all lanes of a vector are equal, so that their order does
/// not matter.
static bool isSplat(Value value) {
  return value.getDefiningOp<vector::BroadcastOp>() ||
         matchPattern(value, m_Constant());
}

namespace {
enum class Order { any, plain, paired };

/// Determines whether each value of a body can have one order: 16-bit values
/// and the results of comparing them are plain, wider ones are paired.
class OrderAnalysis {
public:
  bool visit(Operation *op);

private:
  Order orderOf(Value value) const;

  llvm::DenseMap<Value, Order> conditions;
};
} // namespace

Order OrderAnalysis::orderOf(Value value) const {
  if (!isa<VectorType>(value.getType()) || isSplat(value))
    return Order::any;
  if (bitsOf(value) == 1)
    return conditions.lookup(value);
  return bitsOf(value) > 16 ? Order::paired : Order::plain;
}

/// Returns whether the orders of all operands and results agree.
bool OrderAnalysis::visit(Operation *op) {
  Order order = Order::any;
  auto agrees = [&](Value value) {
    Order next = orderOf(value);
    if (order == Order::any)
      order = next;
    return next == Order::any || next == order;
  };
  if (!llvm::all_of(op->getOperands(), agrees))
    return false;
  for (Value result : op->getResults()) {
    if (isa<VectorType>(result.getType()) && bitsOf(result) == 1)
      conditions[result] = order;
    else if (!agrees(result))
      return false;
  }
  return true;
}

/// Returns whether a type is not a vector, or one of integers or floats.
static bool hasKnownLanes(Type type) {
  return !isa<VectorType>(type) || getElementTypeOrSelf(type).isIntOrFloat();
}

bool EvenOddLayout::canPair(LaunchOp kernel) {
  OrderAnalysis orders;
  for (Operation &op : kernel.getBodyBlock().without_terminator()) {
    if (!llvm::all_of(op.getOperandTypes(), hasKnownLanes) ||
        !llvm::all_of(op.getResultTypes(), hasKnownLanes))
      return false;
    // Lanes past the last element of a group are recognized by their positions.
    if (isa<ReduceOp>(op))
      return false;
    // The vector of an earlier phase's results is in memory order.
    if (isa<LoadReductionResultOp>(op) &&
        isa<VectorType>(op.getResult(0).getType()))
      return false;
    // Lanes without an element are recognized by their positions.
    if (auto setFlag = dyn_cast<SetFlagOp>(op);
        setFlag && mayHoldInPadding(setFlag))
      return false;
    if (auto load = dyn_cast<LoadPlaneOp>(op)) {
      if (bitsOf(load.getResult()) != 16)
        return false;
    } else if (auto store = dyn_cast<StorePlaneOp>(op)) {
      if (bitsOf(store.getValue()) != 16)
        return false;
    } else if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (dense && !dense.isSplat())
        return false;
    } else if (!isa<RandomBitsOp, MetricOp>(op) &&
               !converts<arith::ExtUIOp>(&op, 16, 32) &&
               !converts<arith::TruncIOp>(&op, 32, 16) && !orders.visit(&op)) {
      return false;
    }
  }
  return true;
}

bool EvenOddLayout::isExtension(Operation *op) const {
  return isUsed && converts<arith::ExtUIOp>(op, 16, 32);
}
bool EvenOddLayout::isTruncation(Operation *op) const {
  return isUsed && converts<arith::TruncIOp>(op, 32, 16);
}

/// Returns a vector type with another length and element width.
static VectorType reshape(Value value, int64_t length, unsigned bits) {
  return VectorType::get({length}, IntegerType::get(value.getContext(), bits));
}
static int64_t lengthOf(Value value) {
  return cast<VectorType>(value.getType()).getNumElements();
}

SmallVector<int64_t> EvenOddLayout::getElements(int64_t width) const {
  if (!isUsed)
    return llvm::to_vector(llvm::seq<int64_t>(0, width));
  return llvm::map_to_vector(llvm::seq<int64_t>(0, width), [=](int64_t lane) {
    return 2 * lane % width + 2 * lane / width;
  });
}

Value EvenOddLayout::extend(SequenceBuilder &b, Value narrow) const {
  if (!isUsed)
    return b.resize(narrow, b.builder.getI32Type());
  int64_t length = lengthOf(narrow);
  Value words = vector::BitCastOp::create(
      b.builder, b.loc, reshape(narrow, length / 2, 32), narrow);
  Value even = b.andi(words, b.like(words, 0xFFFF));
  Value odd = b.shr(words, 16);
  return vector::ShuffleOp::create(
      b.builder, b.loc, even, odd,
      llvm::to_vector(llvm::seq<int64_t>(0, length)));
}

/// Returns the even and the odd elements.
static std::pair<Value, Value> split(SequenceBuilder &b, Value wide) {
  int64_t half = lengthOf(wide) / 2;
  auto slice = [&](int64_t from) -> Value {
    return vector::ShuffleOp::create(
        b.builder, b.loc, wide, wide,
        llvm::to_vector(llvm::seq<int64_t>(from, from + half)));
  };
  Value even = slice(0);
  return {even, slice(half)};
}

Value EvenOddLayout::truncate(SequenceBuilder &b, Value wide) const {
  auto [even, odd] = split(b, wide);
  Value low = b.andi(even, b.like(even, 0xFFFF));
  Value words = b.ori(low, b.shl(odd, 16));
  return vector::BitCastOp::create(b.builder, b.loc,
                                   reshape(wide, lengthOf(wide), 16), words);
}

Value EvenOddLayout::inOrder(SequenceBuilder &b, Value wide) const {
  if (!isUsed)
    return wide;
  auto [even, odd] = split(b, wide);
  return vector::InterleaveOp::create(b.builder, b.loc, even, odd);
}
