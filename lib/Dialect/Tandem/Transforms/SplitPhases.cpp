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

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "llvm/Support/DebugLog.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_SPLITPHASES
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace mlir::tandem

#define DEBUG_TYPE "tandem-split-phases"

using namespace mlir;
using namespace mlir::tandem;

static bool isReduction(Operation &op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && reduce.endsPhase();
}

//===----------------------------------------------------------------------===//
// What differs between elements
//===----------------------------------------------------------------------===//

namespace {
/// Along which axes of a matrix, or of a flat tensor all at once, values
/// differ. The elements of a block need not differ where the blocks do.
enum Variation : unsigned {
  none = 0,
  byRow = 1,
  byColumn = 2,
  byBlock = 4,
  byElement = 7
};

/// That of a plane's entries.
unsigned getVariation(KernelOp kernel, Value tensor, const Plane &plane) {
  if (plane.group.isTensor())
    return none;
  if (plane.group.isRow())
    return byRow;
  if (plane.group.isBlock())
    return byBlock;
  unsigned index = cast<BlockArgument>(tensor).getArgNumber();
  Granularity per = kernel.getTensorRole(index).getPer();
  return per == Granularity::row      ? byRow
         : per == Granularity::column ? byColumn
                                      : byElement;
}

/// That of a reduction's results.
unsigned getVariation(Scope scope) {
  return scope == Scope::row      ? byRow
         : scope == Scope::column ? byColumn
         : scope == Scope::block  ? byBlock
                                  : none;
}

/// Finds along which axes the values of a body differ.
class Variations {
public:
  explicit Variations(KernelOp kernel) : kernel(kernel) {
    for (Operation &op : kernel.getBodyBlock())
      known[&op] = find(op);
  }

  unsigned of(Operation *op) const { return known.lookup(op); }
  unsigned of(Value value) const { return of(value.getDefiningOp()); }

private:
  unsigned find(Operation &op) const {
    if (auto load = dyn_cast<LoadPlaneOp>(op))
      return getVariation(kernel, load.getTensor(), load.getPlaneInfo());
    if (auto bits = dyn_cast<RandomBitsOp>(op))
      return getVariation(kernel, bits.getTensor(), Plane());
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && reduce.endsPhase())
      return getVariation(reduce.getScope());
    if (auto total = dyn_cast<LoadTotalOp>(op))
      return getVariation(total.getScope());
    unsigned joined = none;
    for (Value operand : op.getOperands())
      joined |= of(operand);
    return joined;
  }

  KernelOp kernel;
  llvm::DenseMap<Operation *, unsigned> known;
};
} // namespace

static bool isWhole(ReduceOp reduce) {
  return reduce.getScope() == Scope::tensor ||
         reduce.getScope() == Scope::model;
}

/// Refuses to count elements that differ once for a row or column of them.
static LogicalResult checkCounted(KernelOp kernel) {
  Variations variations(kernel);
  for (auto reduce : kernel.getBodyBlock().getOps<ReduceOp>()) {
    Granularity per = reduce.getPer();
    unsigned counted = per == Granularity::row      ? byRow
                       : per == Granularity::column ? byColumn
                                                    : byElement;
    if (variations.of(reduce.getValue()) & ~counted)
      return reduce.emitOpError("counts once per ")
             << stringifyGranularity(per)
             << " what differs between its elements; leave out 'per "
             << stringifyGranularity(per) << "'";
  }
  return success();
}

/// A maximum may count once per row or column what differs between these alone.
static void countOnce(KernelOp kernel) {
  Variations variations(kernel);
  for (auto reduce : kernel.getBodyBlock().getOps<ReduceOp>()) {
    unsigned varies = variations.of(reduce.getValue());
    if (!isWhole(reduce) || reduce.getKind() == ReduceKind::sum)
      continue;
    if (varies == byRow || varies == byColumn)
      reduce.setPer(varies == byRow ? Granularity::row : Granularity::column);
  }
}

/// In a matrix kernel the elements meet in their rows before the rows do.
static void reduceRowsFirst(KernelOp kernel) {
  for (auto reduce : kernel.getBodyBlock().getOps<ReduceOp>()) {
    if (!isWhole(reduce) || reduce.getPer() != Granularity::element)
      continue;
    OpBuilder builder(reduce);
    reduce.getValueMutable().assign(
        ReduceOp::create(builder, reduce.getLoc(), reduce.getKind(),
                         reduce.getValue(), Scope::row));
    reduce.setPer(Granularity::row);
  }
}

//===----------------------------------------------------------------------===//
// Maxima and minima of numbers
//===----------------------------------------------------------------------===//

/// Unsigned integers in the order of numbers, -0 before +0; a NaN is behind all
/// of them for a maximum, in front for a minimum.
static Value buildKey(SequenceBuilder &b, Value number, bool isMax) {
  Value bits = b.bits(number);
  Value isNegative =
      b.compare(arith::CmpIPredicate::slt, bits, b.zero(bits.getType()));
  Value flips =
      b.select(isNegative, b.like(bits, ~uint64_t(0)), b.like(bits, 1u << 31));
  Value isNaN = b.compare(arith::CmpFPredicate::UNO, number, number);
  Value last = b.like(bits, isMax ? ~uint64_t(0) : 0);
  return b.select(isNaN, last, b.xori(bits, flips));
}

/// The number of a key, any NaN the one that stores write.
static Value buildNumber(SequenceBuilder &b, Value key) {
  Value isNegative =
      b.compare(arith::CmpIPredicate::sge, key, b.zero(key.getType()));
  Value flips =
      b.select(isNegative, b.like(key, ~uint64_t(0)), b.like(key, 1u << 31));
  Value number = b.bitcast(b.xori(key, flips), b.builder.getF32Type());
  return b.bitcast(b.canonicalBits(number), b.builder.getF32Type());
}

/// Devices join integers.
static void reduceKeys(KernelOp kernel) {
  for (auto reduce :
       llvm::make_early_inc_range(kernel.getBodyBlock().getOps<ReduceOp>())) {
    if (reduce.getKind() == ReduceKind::sum || !reduce.getType().isF32())
      continue;
    OpBuilder builder(reduce);
    SequenceBuilder b(builder, reduce.getLoc());
    bool isMax = reduce.getKind() == ReduceKind::max;
    Value key = ReduceOp::create(builder, reduce.getLoc(), reduce.getKind(),
                                 buildKey(b, reduce.getValue(), isMax),
                                 reduce.getScope(), reduce.getPer());
    reduce.replaceAllUsesWith(buildNumber(b, key));
    reduce.erase();
  }
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// What runs over rows or columns comes before what it has no part in.
static unsigned getOrder(Granularity granularity) {
  return granularity == Granularity::row      ? 0
         : granularity == Granularity::column ? 1
                                              : 2;
}

namespace {
/// A launch that makes reductions: which of those that follow each other, and
/// what it runs over.
struct Phase {
  unsigned depth = 0;
  Granularity per = Granularity::element;

  bool operator==(const Phase &other) const {
    return depth == other.depth && per == other.per;
  }
  bool operator<(const Phase &other) const {
    return std::pair(depth, getOrder(per)) <
           std::pair(other.depth, getOrder(other.per));
  }
};

/// Says in which phase each reduction of a body is made, and what is written
/// when.
class PhasePlan {
public:
  explicit PhasePlan(KernelOp kernel) {
    Phase last;
    for (Operation &op : kernel.getBodyBlock()) {
      unsigned depth = 0;
      for (Value operand : op.getOperands())
        if (Operation *source = operand.getDefiningOp())
          depth = std::max(depth, depths[source] + isReduction(*source));
      depths[&op] = depth;
      // What is written stays as it was until the last phase has read it.
      if (isReduction(op) || hasEffect(op))
        last.depth = std::max(last.depth, depth);
    }
    for (Operation &op : kernel.getBodyBlock())
      if (isReduction(op))
        reductions.push_back(find(cast<ReduceOp>(op)));
    phases = reductions;
    phases.push_back(last);
    llvm::sort(phases);
    phases.erase(llvm::unique(phases), phases.end());
  }

  ArrayRef<Phase> getEarly() const { return ArrayRef(phases).drop_back(); }
  Phase getLast() const { return phases.back(); }
  /// The phases of the reductions, in their order.
  ArrayRef<Phase> getReductions() const { return reductions; }

  /// Whether the last phase has an operation for its own sake.
  bool hasEffect(Operation &op) const {
    return isa<StorePlaneOp, RememberOp, MetricOp, RaiseOp, PartialOp>(op) &&
           !getShared(op);
  }

  /// The variation of an entry that elements share, if the operation writes
  /// one.
  std::optional<unsigned> getShared(Operation &op) const {
    if (isa<RememberOp>(op))
      return none;
    auto store = dyn_cast<StorePlaneOp>(op);
    if (!store)
      return std::nullopt;
    unsigned variation = getVariation(op.getParentOfType<KernelOp>(),
                                      store.getTensor(), store.getPlaneInfo());
    return variation == byElement ? std::nullopt : std::optional(variation);
  }

private:
  Phase find(ReduceOp op) const { return {depths.lookup(op), op.getPer()}; }

  llvm::DenseMap<Operation *, unsigned> depths;
  SmallVector<Phase> reductions, phases;
};

/// Reduces a copy of a kernel to one of its parts.
class PartBuilder {
public:
  PartBuilder(KernelOp kernel, const PhasePlan &plan)
      : kernel(kernel), plan(plan) {}

  KernelOp buildEarly(unsigned number, Phase phase) {
    KernelOp part = clone("_phase" + llvm::Twine(number), KernelPart::early,
                          phase.per, kernel);
    buildReductions(part, phase);
    keepOnly(part, [](Operation &op) { return isa<PartialOp>(op); });
    return part;
  }

  /// Builds what writes the entries that elements share: all of them, those of
  /// a row, a column or a block. There need be none.
  LogicalResult buildCommit(Operation *&behind, unsigned shared,
                            Granularity per, StringRef suffix) {
    auto isWanted = [&](Operation &op) { return plan.getShared(op) == shared; };
    if (llvm::none_of(kernel.getBodyBlock(), isWanted))
      return success();
    KernelOp part = clone(suffix, KernelPart::commit, per, behind);
    // Every reduction is known by then.
    buildReductions(part, Phase{~0u, Granularity::element});
    keepOnly(part, isWanted);
    Variations variations(part);
    for (Operation &op : part.getBodyBlock())
      if (isa<LoadPlaneOp, RandomBitsOp, LoadTotalOp>(op) &&
          (variations.of(&op) & ~shared)) {
        op.emitOpError("differs between the elements of a ")
            << (per == Granularity::element ? "tensor"
                                            : stringifyGranularity(per))
            << ", but an entry that all of them share is made of it";
        part.erase();
        return failure();
      }
    behind = part;
    return success();
  }

  /// The kernel itself becomes the last phase.
  void buildLast() {
    kernel.setReductions(plan.getReductions().size());
    buildReductions(kernel, plan.getLast());
    keepOnly(kernel, [&](Operation &op) { return plan.hasEffect(op); });
  }

private:
  KernelOp clone(const llvm::Twine &suffix, KernelPart kind, Granularity per,
                 Operation *place) {
    OpBuilder builder(kernel);
    if (kind == KernelPart::commit)
      builder.setInsertionPointAfter(place);
    auto part = cast<KernelOp>(builder.clone(*kernel));
    part.setSymName((kernel.getSymName() + suffix).str());
    part.setPart(kind);
    part.setPer(per);
    part.setReductions(plan.getReductions().size());
    return part;
  }

  /// Reductions of this phase are made here, those of earlier ones are known.
  void buildReductions(KernelOp part, Phase phase) {
    SmallVector<ReduceOp> reductions;
    for (auto reduce : part.getBodyBlock().getOps<ReduceOp>())
      if (reduce.endsPhase())
        reductions.push_back(reduce);
    for (auto [index, reduce] : llvm::enumerate(reductions)) {
      OpBuilder builder(reduce);
      if (plan.getReductions()[index] == phase)
        PartialOp::create(builder, reduce.getLoc(), reduce.getKind(),
                          reduce.getValue(), index, reduce.getScope());
      reduce.replaceAllUsesWith(buildTotal(builder, reduce, index));
      reduce.erase();
    }
  }

  static Value buildTotal(OpBuilder &builder, ReduceOp reduce, unsigned index) {
    Scope scope = reduce.getScope();
    if (scope == Scope::row || scope == Scope::column || scope == Scope::block)
      return LoadTotalOp::create(builder, reduce.getLoc(), reduce.getType(),
                                 index, scope);
    return TotalOp::create(builder, reduce.getLoc(), reduce.getType(), index);
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
  const PhasePlan &plan;
};
} // namespace

/// Whether a phase reads a reduction beyond a row or block.
static bool readsBeyondRows(KernelOp phase,
                            const llvm::DenseSet<uint64_t> &reductions) {
  return llvm::any_of(phase.getBodyBlock(), [&](Operation &op) {
    if (auto total = dyn_cast<TotalOp>(op))
      return reductions.contains(total.getIndex());
    auto total = dyn_cast<LoadTotalOp>(op);
    return total && total.getScope() == Scope::column &&
           reductions.contains(total.getIndex());
  });
}

/// Marks the phases that can run in the launch of the one before them, and
/// counts the launches. Phases over rows cannot: their own sums would be of
/// other chunks.
static unsigned joinLaunches(ArrayRef<KernelOp> phases) {
  bool wasAlongRows = false;
  unsigned launches = 0;
  llvm::DenseSet<uint64_t> made;
  for (KernelOp phase : phases) {
    bool isAlongRows =
        phase.getMatrix() && phase.getPer() == Granularity::element;
    bool continues =
        wasAlongRows && isAlongRows && !readsBeyondRows(phase, made);
    LDBG() << "'" << phase.getSymName() << "' runs per "
           << stringifyGranularity(phase.getPer())
           << (continues      ? ", in the launch of the phase before it"
               : !isAlongRows ? ", in its own launch: not along rows"
               : !wasAlongRows
                   ? ", in its own launch: it is the first along rows"
                   : ", in its own launch: it reads sums of other "
                     "rows");
    if (continues)
      phase.setContinues(true);
    else
      made.clear();
    launches += !continues;
    for (auto partial : phase.getBodyBlock().getOps<PartialOp>())
      made.insert(partial.getIndex());
    wasAlongRows = isAlongRows;
  }
  return launches;
}

namespace {
struct SplitPhasesPass : public tandem::impl::SplitPhasesBase<SplitPhasesPass> {
  void runOnOperation() override {
    for (auto kernel :
         llvm::make_early_inc_range(getOperation().getOps<KernelOp>()))
      if (kernel.getPart() == KernelPart::whole && failed(split(kernel)))
        return signalPassFailure();
  }

  LogicalResult split(KernelOp kernel) {
    if (failed(checkCounted(kernel)))
      return failure();
    if (kernel.getMatrix()) {
      countOnce(kernel);
      reduceRowsFirst(kernel);
    }
    reduceKeys(kernel);
    PhasePlan plan(kernel);
    LDBG() << "'" << kernel.getSymName() << "' has "
           << plan.getReductions().size() << " reductions, made by "
           << plan.getEarly().size() << " phases before the last one";
    if (!needsParts(kernel, plan))
      return success();
    PartBuilder builder(kernel, plan);
    SmallVector<KernelOp> phases;
    for (auto [number, phase] : llvm::enumerate(plan.getEarly()))
      phases.push_back(builder.buildEarly(number, phase));
    // A tensor's own entries are read with those of its rows and blocks.
    Operation *behind = kernel;
    if (failed(builder.buildCommit(behind, byRow, Granularity::row,
                                   "_commit_rows")) ||
        failed(builder.buildCommit(behind, byColumn, Granularity::column,
                                   "_commit_columns")) ||
        failed(builder.buildCommit(behind, byBlock, Granularity::block,
                                   "_commit_blocks")) ||
        failed(
            builder.buildCommit(behind, none, Granularity::element, "_commit")))
      return failure();
    builder.buildLast();
    phases.push_back(kernel);
    numPhases += phases.size();
    numLaunches += joinLaunches(phases);
    return success();
  }

  static bool needsParts(KernelOp kernel, const PhasePlan &plan) {
    return !plan.getReductions().empty() ||
           llvm::any_of(kernel.getBodyBlock(), [&](Operation &op) {
             return plan.getShared(op).has_value();
           });
  }
};
} // namespace
