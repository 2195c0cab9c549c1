//===- Widen.cpp - Compute several elements at once -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that turns a kernel's scalar body into vectors.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/IRMapping.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "llvm/Support/DebugLog.h"

namespace tandem {
#define GEN_PASS_DEF_WIDEN
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

#define DEBUG_TYPE "tandem-widen"

using namespace mlir;
using namespace tandem;

namespace {
/// Rebuilds a body on vectors. Values that do not depend on elements stay
/// scalar and are broadcast where a vector operation uses them.
class Widener {
public:
  Widener(LaunchOp kernel, int64_t width, Pass::Statistic &widened)
      : block(kernel.getBodyBlock()), width(width), widened(widened),
        builder(kernel.getContext()) {}

  LogicalResult run() {
    SmallVector<Operation *> old;
    for (Operation &op : block.without_terminator())
      old.push_back(&op);
    builder.setInsertionPoint(block.getTerminator());
    for (Operation *op : old)
      if (failed(widen(op)))
        return failure();
    for (Operation *op : llvm::reverse(old))
      op->erase();
    return success();
  }

private:
  VectorType vectorOf(Type type) { return VectorType::get({width}, type); }
  bool isWide(Value value) { return isa<VectorType>(lookup(value).getType()); }
  Value lookup(Value value) { return mapping.lookupOrDefault(value); }

  /// Returns whether an access is to an entry that many elements share.
  static bool isShared(Operation *op) {
    if (auto load = dyn_cast<LoadPlaneOp>(op))
      return load.getElementsPerEntry() != 1;
    if (auto store = dyn_cast<StorePlaneOp>(op))
      return store.getElementsPerEntry() != 1;
    // The elements of a row are computed together.
    auto total = dyn_cast<LoadReductionResultOp>(op);
    return total && !total.differsInRow();
  }

  LogicalResult widenShared(Operation *op) {
    if (auto store = dyn_cast<StorePlaneOp>(op);
        store && isWide(store.getValue()))
      return op->emitOpError("one entry for a group gets a value that differs "
                             "between the group's elements");
    builder.clone(*op, mapping);
    return success();
  }

  /// Widens a reduction, which takes all elements and gives one value for them.
  LogicalResult widenReduce(ReduceOp op) {
    auto result = ReduceOp::create(builder, op.getLoc(), op.getKind(),
                                   wide(op.getValue()), op.getGroup());
    mapping.map(op.getResult(), result.getResult());
    ++widened;
    return success();
  }

  LogicalResult widen(Operation *op) {
    if (isShared(op))
      return widenShared(op);
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return widenReduce(reduce);
    bool isSource = isa<LoadPlaneOp, LoadReductionResultOp, RandomBitsOp>(op);
    bool isStore = isa<StorePlaneOp, MetricOp, SetFlagOp, PartialOp>(op);
    if (!isSource && !isStore &&
        llvm::none_of(op->getOperands(),
                      [&](Value value) { return isWide(value); })) {
      builder.clone(*op, mapping);
      return success();
    }
    if (!isSource && !isStore && !OpTrait::hasElementwiseMappableTraits(op))
      return op->emitError("'") << op->getName()
                                << "' has no vector form; lower it before "
                                   "-tandem-widen";
    OperationState state(op->getLoc(), op->getName());
    for (Value operand : op->getOperands())
      state.addOperands(isSource || isa<StoredType>(operand.getType())
                            ? lookup(operand)
                            : wide(operand));
    for (Type type : op->getResultTypes())
      state.addTypes(vectorOf(type));
    state.addAttributes(op->getAttrs());
    Operation *result = builder.create(state);
    mapping.map(op->getResults(), result->getResults());
    ++widened;
    return success();
  }

  /// Returns the vector form of a value. A uniform one is broadcast once, at
  /// the top.
  Value wide(Value value) {
    Value known = lookup(value);
    if (isa<VectorType>(known.getType()))
      return known;
    Value &splat = splats[known];
    if (splat)
      return splat;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(known);
    return splat = vector::BroadcastOp::create(
               builder, value.getLoc(), vectorOf(known.getType()), known);
  }

  Block &block;
  int64_t width;
  Pass::Statistic &widened;
  OpBuilder builder;
  IRMapping mapping;
  llvm::DenseMap<Value, Value> splats;
};

struct WidenPass : public tandem::impl::WidenBase<WidenPass> {
  using WidenBase::WidenBase;

  /// Returns the smallest number, above 1, of elements that share an entry of a
  /// plane.
  static int64_t getSmallestGroup(LaunchOp kernel) {
    int64_t smallest = std::numeric_limits<int64_t>::max();
    for (unsigned i = 0; i < kernel.getNumTensors(); ++i)
      for (const Plane &plane :
           kernel.getTensorType(i).getStorage().getPlanes()) {
        int64_t sharing = kernel.getElementsPerEntry(i, plane);
        if (sharing > 1)
          smallest = std::min(smallest, sharing);
      }
    return smallest;
  }

  LogicalResult initialize(MLIRContext *context) override {
    if (LaunchOp::isWidth(width))
      return success();
    return emitError(UnknownLoc::get(context),
                     "width must be a power of two up to ")
           << LaunchOp::maxWidth << ", got " << int64_t(width);
  }

  void runOnOperation() override {
    for (LaunchOp launch : getOperation().getLaunchOps())
      if (failed(widen(launch)))
        return signalPassFailure();
  }

  LogicalResult widen(LaunchOp launch) {
    int64_t lanes = std::min<int64_t>(width, getSmallestGroup(launch));
    LDBG() << "'" << launch.getFunctionName() << "' takes " << lanes
           << " elements a step"
           << (lanes < width ? ", those of its smallest group" : "");
    if (lanes == 1 || launch.isPerTensor())
      return success();
    if (launch.getWidth() != 1)
      return launch.emitError("has width ")
             << int64_t(launch.getWidth())
             << " already; run -tandem-widen once";
    if (failed(Widener(launch, lanes, numWidened).run()))
      return failure();
    launch.setWidth(lanes);
    return success();
  }
};
} // namespace
