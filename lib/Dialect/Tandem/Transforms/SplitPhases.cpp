//===- SplitPhases.cpp - Separate the launches of a kernel ----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that separates the launches of a kernel: a
// reduction over a tensor or a model exists only when a launch has ended.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem/Transforms/Passes.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_SPLITPHASES
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

/// Whether an operation writes what all elements of a tensor share.
static bool writesSharedEntry(Operation &op) {
  if (isa<RememberOp>(op))
    return true;
  auto store = dyn_cast<StorePlaneOp>(op);
  return store && store.getPlaneInfo().group == Plane::wholeTensor;
}

static bool isReduction(Operation &op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && reduce.endsPhase();
}

/// Whether the last phase has an operation for its own sake.
static bool hasEffect(Operation &op) {
  return isa<StorePlaneOp, MetricOp, RaiseOp, PartialOp>(op) &&
         !writesSharedEntry(op);
}

/// Whether an operation gives each element a value of its own.
static bool isElementSource(Operation &op) {
  if (auto load = dyn_cast<LoadPlaneOp>(op))
    return load.getPlaneInfo().group != Plane::wholeTensor;
  return isa<RandomBitsOp>(op);
}

namespace {
/// Says in which phase each operation of a body is computed first.
class PhaseNumbers {
public:
  explicit PhaseNumbers(Block &body) {
    for (Operation &op : body) {
      unsigned phase = 0;
      for (Value operand : op.getOperands())
        if (Operation *source = operand.getDefiningOp())
          phase = std::max(phase, phases[source] + isReduction(*source));
      phases[&op] = phase;
      hasSharedStore |= writesSharedEntry(op);
      reductions += isReduction(op);
      // What is written stays as it was until the last phase has read it.
      if (isReduction(op) || hasEffect(op))
        last = std::max(last, phase);
    }
  }

  unsigned of(Operation *op) const { return phases.lookup(op); }
  unsigned getLast() const { return last; }
  unsigned getNumReductions() const { return reductions; }
  bool needsCommit() const { return hasSharedStore; }

private:
  llvm::DenseMap<Operation *, unsigned> phases;
  unsigned last = 0, reductions = 0;
  bool hasSharedStore = false;
};

/// Reduces a copy of a kernel to one of its parts.
class PartBuilder {
public:
  PartBuilder(KernelOp kernel, const PhaseNumbers &numbers)
      : kernel(kernel), numbers(numbers) {}

  void buildEarly(unsigned phase) {
    KernelOp part = clone("_phase" + llvm::Twine(phase), KernelPart::early,
                          /*behind=*/false);
    buildReductions(part, phase);
    keepOnly(part, [](Operation &op) { return isa<PartialOp>(op); });
  }

  LogicalResult buildCommit() {
    KernelOp part = clone("_commit", KernelPart::commit, /*behind=*/true);
    buildReductions(part, numbers.getLast() + 1);
    keepOnly(part, [](Operation &op) { return writesSharedEntry(op); });
    for (Operation &op : part.getBodyBlock())
      if (isElementSource(op)) {
        op.emitOpError("differs between the elements of a tensor, but an entry "
                       "that all of them share is made of it");
        part.erase();
        return failure();
      }
    return success();
  }

  /// The kernel itself becomes the last phase.
  void buildLast() {
    kernel.setReductions(numbers.getNumReductions());
    buildReductions(kernel, numbers.getLast());
    keepOnly(kernel, [](Operation &op) { return hasEffect(op); });
  }

private:
  KernelOp clone(const llvm::Twine &suffix, KernelPart kind, bool behind) {
    OpBuilder builder(kernel);
    if (behind)
      builder.setInsertionPointAfter(kernel);
    auto part = cast<KernelOp>(builder.clone(*kernel));
    part.setSymName((kernel.getSymName() + suffix).str());
    part.setPart(kind);
    part.setReductions(numbers.getNumReductions());
    return part;
  }

  /// Reductions of this phase are made here, those of earlier ones are known.
  void buildReductions(KernelOp part, unsigned phase) {
    SmallVector<Operation *> originals, copies;
    for (Operation &op : kernel.getBodyBlock())
      if (isReduction(op))
        originals.push_back(&op);
    for (Operation &op : part.getBodyBlock())
      if (isReduction(op))
        copies.push_back(&op);
    SmallVector<unsigned> phases = llvm::map_to_vector(
        originals, [&](Operation *op) { return numbers.of(op); });
    for (auto [index, op] : llvm::enumerate(copies)) {
      auto reduce = cast<ReduceOp>(op);
      OpBuilder builder(op);
      if (phases[index] == phase)
        PartialOp::create(builder, op->getLoc(), reduce.getKind(),
                          reduce.getValue(), index, reduce.getScope());
      auto total =
          TotalOp::create(builder, op->getLoc(), reduce.getType(), index);
      reduce.replaceAllUsesWith(total.getResult());
      reduce.erase();
    }
  }

  /// Erases all but some operations and those that these need.
  static void keepOnly(KernelOp part,
                       llvm::function_ref<bool(Operation &)> isWanted) {
    SmallVector<Operation *> old;
    for (Operation &op : part.getBodyBlock().without_terminator())
      old.push_back(&op);
    for (Operation *op : llvm::reverse(old))
      if (op->use_empty() && !isWanted(*op))
        op->erase();
  }

  KernelOp kernel;
  const PhaseNumbers &numbers;
};

struct SplitPhasesPass : public tandem::impl::SplitPhasesBase<SplitPhasesPass> {
  void runOnOperation() override {
    for (auto kernel :
         llvm::make_early_inc_range(getOperation().getOps<KernelOp>()))
      if (kernel.getPart() == KernelPart::whole && failed(split(kernel)))
        return signalPassFailure();
  }

  LogicalResult split(KernelOp kernel) {
    PhaseNumbers numbers(kernel.getBodyBlock());
    if (!numbers.getNumReductions() && !numbers.needsCommit())
      return success();
    PartBuilder builder(kernel, numbers);
    for (unsigned phase = 0; phase < numbers.getLast(); ++phase)
      builder.buildEarly(phase);
    if (numbers.needsCommit() && failed(builder.buildCommit()))
      return failure();
    numPhases += numbers.getLast() + 1;
    builder.buildLast();
    return success();
  }
};
} // namespace
