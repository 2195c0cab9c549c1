//===- AddMetrics.cpp - Measure effective descent quality -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that measures how much of each intended update
// reaches the values that a kernel stores.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Dialect/Tandem/Transforms/Uniforms.h"

namespace tandem {
#define GEN_PASS_DEF_ADDMETRICS
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// Returns f32(factor - 1) as a uniform value, with the difference taken in
/// f64.
static Value getFactorMinusOne(KernelOp kernel, Value factor) {
  OpBuilder builder(kernel.getPrologueBlock().getTerminator());
  SequenceBuilder b(builder, kernel.getLoc());
  Value wide = getUniformSource(kernel, factor, b);
  Value difference = b.sub(wide, b.real(wide.getType(), 1.0));
  return addUniform(kernel, b.convert(difference, builder.getF32Type()));
}

namespace {
/// Sums the intended changes of a param's named updates, from the store back to
/// the load.
class IntendedUpdate {
public:
  explicit IntendedUpdate(StoreOp store)
      : kernel(store->getParentOfType<KernelOp>()), builder(store),
        b(builder, store.getLoc()), store(store) {
    builder.setInsertionPointAfter(store);
  }

  /// Builds the sum, or returns null after a diagnostic.
  Value build() {
    SmallVector<Operation *> steps;
    Value value = store.getValue();
    while (Operation *op = value.getDefiningOp()) {
      if (!isa<AccumulateOp, EmaOp, DecayOp>(op))
        break;
      steps.push_back(op);
      value = op->getOperand(0);
    }
    auto load = value.getDefiningOp<LoadOp>();
    if (steps.empty() || !load || load.getTensor() != store.getTensor()) {
      store.emitError("its value is not made of s + d, b * s + x and b * s, "
                      "so there is no intended update to measure");
      return {};
    }
    for (Operation *op : llvm::reverse(steps))
      if (failed(addStep(op)))
        return {};
    return sum;
  }

private:
  LogicalResult addStep(Operation *op) {
    Type f64 = builder.getF64Type();
    Value factor;
    if (auto ema = dyn_cast<EmaOp>(op))
      factor = ema.getFactor();
    else if (auto decay = dyn_cast<DecayOp>(op))
      factor = decay.getFactor();
    if (factor && !isa<BlockArgument>(factor))
      return op->emitError("the factor must be uniform: made only of "
                           "hyperparameters and literals");
    if (factor) {
      Value value = b.convert(op->getOperand(0), f64);
      factor = getFactorMinusOne(kernel, factor);
      add(b.mul(b.convert(factor, f64), value));
    }
    if (auto accumulate = dyn_cast<AccumulateOp>(op))
      add(b.convert(accumulate.getAddend(), f64));
    else if (auto ema = dyn_cast<EmaOp>(op))
      add(b.convert(ema.getAddend(), f64));
    return success();
  }
  void add(Value change) { sum = sum ? b.add(sum, change) : change; }

  KernelOp kernel;
  OpBuilder builder;
  SequenceBuilder b;
  StoreOp store;
  Value sum;
};

struct AddMetricsPass : public tandem::impl::AddMetricsBase<AddMetricsPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    for (auto store : llvm::to_vector(kernel.getBodyBlock().getOps<StoreOp>()))
      if (failed(measure(kernel, store)))
        return signalPassFailure();
  }

  LogicalResult measure(KernelOp kernel, StoreOp store) {
    unsigned tensor = cast<BlockArgument>(store.getTensor()).getArgNumber();
    if (kernel.getTensorRole(tensor).getKind() != RoleKind::param)
      return success();
    IntendedUpdate intended(store);
    Value sum = intended.build();
    if (!sum)
      return failure();
    OpBuilder builder(kernel.getBodyBlock().getTerminator());
    MeasureUpdateOp::create(builder, store.getLoc(), sum, store.getTensor());
    ++numMeasured;
    return success();
  }
};
} // namespace
