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

#include "mlir/IR/IRMapping.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/DebugLog.h"

namespace tandem {
#define GEN_PASS_DEF_SPLITPHASES
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

#define DEBUG_TYPE "tandem-split-phases"

using namespace mlir;
using namespace tandem;

static bool isReduction(Operation &op) {
  auto reduce = dyn_cast<ReduceOp>(op);
  return reduce && reduce.endsPhase();
}

//===----------------------------------------------------------------------===//
// Values that differ between elements
//===----------------------------------------------------------------------===//

namespace {
/// The axes of a matrix along which values differ; a flat tensor has all of
/// them at once. Values that differ between blocks need not differ within one.
enum Axes : unsigned { none = 0, rows = 1, columns = 2, blocks = 4, all = 7 };

/// Returns the axes along which values of a granularity differ.
Axes getAxes(Granularity per) {
  switch (per) {
  case Granularity::element:
  case Granularity::group:
    return all;
  case Granularity::row:
    return rows;
  case Granularity::column:
    return columns;
  case Granularity::block:
    return blocks;
  case Granularity::tensor:
  case Granularity::model:
    return none;
  }
  llvm_unreachable("every granularity is listed");
}

/// Returns the axes along which a plane's entries differ.
Axes getAxes(ProgramOpInterface program, Value tensor, const Plane &plane) {
  RoleAttr role = program.getTensorRole(getTensorNumber(tensor));
  return getAxes(role.getGranularity(plane));
}

/// Finds along which axes the values of a body differ.
class Variations {
public:
  explicit Variations(ProgramOpInterface program) : program(program) {
    for (Operation &op : program.getBodyBlock())
      known[&op] = find(op);
  }

  unsigned of(Operation *op) const { return known.lookup(op); }
  unsigned of(Value value) const { return of(value.getDefiningOp()); }

private:
  unsigned find(Operation &op) const {
    if (auto load = dyn_cast<LoadPlaneOp>(op))
      return getAxes(program, load.getTensor(), load.getPlaneInfo());
    if (auto bits = dyn_cast<RandomBitsOp>(op))
      return getAxes(program, bits.getTensor(), Plane());
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && reduce.endsPhase())
      return getAxes(reduce.getScope());
    if (auto result = dyn_cast<LoadReductionResultOp>(op))
      return getAxes(result.getScope());
    unsigned joined = none;
    for (Value operand : op.getOperands())
      joined |= of(operand);
    return joined;
  }

  ProgramOpInterface program;
  llvm::DenseMap<Operation *, unsigned> known;
};
} // namespace

static bool isWhole(ReduceOp reduce) {
  return reduce.getScope() == Granularity::tensor ||
         reduce.getScope() == Granularity::model;
}

/// Refuses to count elements once per row or column if they differ within it.
static LogicalResult checkCounted(KernelOp kernel) {
  Variations variations(kernel);
  for (auto reduce : kernel.getBodyBlock().getOps<ReduceOp>()) {
    Granularity per = reduce.getPer();
    if (variations.of(reduce.getValue()) & ~getAxes(per))
      return reduce.emitOpError("counts once per ")
             << stringifyGranularity(per)
             << " what differs between its elements; leave out 'per "
             << stringifyGranularity(per) << "'";
  }
  return success();
}

/// Lets a maximum count a value once per row or column if it differs only
/// between these.
static void countOnce(KernelOp kernel) {
  Variations variations(kernel);
  for (auto reduce : kernel.getBodyBlock().getOps<ReduceOp>()) {
    unsigned varies = variations.of(reduce.getValue());
    if (!isWhole(reduce) || reduce.getKind() == ReduceKind::sum)
      continue;
    if (varies == rows || varies == columns)
      reduce.setPer(varies == rows ? Granularity::row : Granularity::column);
  }
}

/// Reduces the elements of a matrix kernel in each row before the rows.
static void reduceRowsFirst(KernelOp kernel) {
  for (auto reduce : kernel.getBodyBlock().getOps<ReduceOp>()) {
    if (!isWhole(reduce) || reduce.getPer() != Granularity::element)
      continue;
    OpBuilder builder(reduce);
    reduce.getValueMutable().assign(
        ReduceOp::create(builder, reduce.getLoc(), reduce.getKind(),
                         reduce.getValue(), Granularity::row));
    reduce.setPer(Granularity::row);
  }
}

//===----------------------------------------------------------------------===//
// Maxima and minima of numbers
//===----------------------------------------------------------------------===//

/// Returns unsigned integers in the order of numbers, with -0 before +0. A NaN
/// comes after all of them for a maximum, before them for a minimum.
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

/// Returns the number of a key, with any NaN replaced by the one that stores
/// write.
static Value buildNumber(SequenceBuilder &b, Value key) {
  Value isNegative =
      b.compare(arith::CmpIPredicate::sge, key, b.zero(key.getType()));
  Value flips =
      b.select(isNegative, b.like(key, ~uint64_t(0)), b.like(key, 1u << 31));
  Value number = b.bitcast(b.xori(key, flips), b.builder.getF32Type());
  return b.bitcast(b.canonicalBits(number), b.builder.getF32Type());
}

/// Replaces maxima and minima of f32 by those of integers, which devices
/// reduce.
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

/// Orders reductions over rows first, then those over columns, then all others.
static unsigned getOrder(Granularity granularity) {
  return granularity == Granularity::row      ? 0
         : granularity == Granularity::column ? 1
                                              : 2;
}

namespace {
/// A launch that makes reductions: its position among those that depend on each
/// other, and the units that it runs over.
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

/// Determines in which phase each reduction of a body is made, after which
/// phase the host computes each external step, and which operations write
/// shared entries.
class PhasePlan {
public:
  explicit PhasePlan(KernelOp kernel) {
    findExternals(kernel);
    // Operations that a step's operands depend on may follow in the body those
    // that read its results.
    Phase last;
    for (size_t i = 0; i <= externals.size() && !isSettled; ++i)
      last.depth = findDepths(kernel);
    for (Operation &op : kernel.getBodyBlock())
      if (isReduction(op))
        reductions.push_back(find(cast<ReduceOp>(op)));
    phases = reductions;
    for (auto &[name, depth] : externals) {
      phases.push_back({depth, Granularity::element});
      last.depth = std::max(last.depth, depth + 1);
    }
    phases.push_back(last);
    llvm::sort(phases);
    phases.erase(llvm::unique(phases), phases.end());
  }

  /// Returns how many phases come before the one of an operation.
  unsigned getDepth(Operation &op) const { return depths.lookup(&op); }

  ArrayRef<Phase> getEarly() const { return ArrayRef(phases).drop_back(); }
  Phase getLast() const { return phases.back(); }
  /// Returns the phases of the reductions, in their order.
  ArrayRef<Phase> getReductions() const { return reductions; }

  /// Returns whether each external step sends something, and nothing that
  /// depends on what it receives.
  bool areExternalsOrdered() const { return isSettled && isComplete; }
  /// Returns the external steps that follow a phase, in the graph's order.
  SmallVector<Attribute> getExternalsAfter(Phase phase) const {
    SmallVector<Attribute> names;
    for (auto &[name, depth] : externals)
      if (Phase{depth, Granularity::element} == phase)
        names.push_back(name);
    return names;
  }

  /// Returns whether the last phase executes an operation for its effect.
  bool hasEffect(Operation &op) const {
    return !wouldOpBeTriviallyDead(&op) && !getShared(op) && !getSentTo(op);
  }

  /// Returns whether a phase writes what an operation sends to an external
  /// step.
  bool sends(Phase phase, Operation &op) const {
    StringAttr external = getSentTo(op);
    return external &&
           Phase{externals.lookup(external), Granularity::element} == phase;
  }

  /// Returns the axes along which shared entries differ, if the operation
  /// writes such an entry.
  std::optional<unsigned> getShared(Operation &op) const {
    if (isa<PushHistoryOp>(op))
      return none;
    auto store = dyn_cast<StorePlaneOp>(op);
    if (!store)
      return std::nullopt;
    unsigned axes = getAxes(op.getParentOfType<ProgramOpInterface>(),
                            store.getTensor(), store.getPlaneInfo());
    return axes == all ? std::nullopt : std::optional(axes);
  }

private:
  Phase find(ReduceOp op) const { return {depths.lookup(op), op.getPer()}; }

  /// Returns the external step that an operation writes an operand of, or null.
  static StringAttr getSentTo(Operation &op) {
    auto store = dyn_cast<StorePlaneOp>(op);
    return store ? getExternal(op, store.getTensor(), RoleKind::sent)
                 : StringAttr();
  }

  static StringAttr getExternal(Operation &op, Value tensor, RoleKind kind) {
    auto program = op.getParentOfType<ProgramOpInterface>();
    RoleAttr role = program.getTensorRole(getTensorNumber(tensor));
    return role.getKind() == kind ? role.getExternal() : StringAttr();
  }

  void findExternals(KernelOp kernel) {
    for (auto role : kernel.getTensorRoles().getAsRange<RoleAttr>())
      if (role.getKind() == RoleKind::sent)
        externals.insert({role.getExternal(), 0});
    for (auto role : kernel.getTensorRoles().getAsRange<RoleAttr>())
      if (role.getKind() == RoleKind::received)
        isComplete &= externals.contains(role.getExternal());
  }

  /// Finds how many phases come before each operation, given those before what
  /// each external step sends, and returns how many come before the last one.
  unsigned findDepths(KernelOp kernel) {
    unsigned last = 0;
    isSettled = true;
    for (Operation &op : kernel.getBodyBlock()) {
      unsigned depth = 0;
      for (Value operand : op.getOperands())
        if (Operation *source = operand.getDefiningOp())
          depth = std::max(depth, depths[source] + isReduction(*source));
      if (auto load = dyn_cast<LoadPlaneOp>(op))
        if (StringAttr from =
                getExternal(op, load.getTensor(), RoleKind::received))
          depth = std::max(depth, externals.lookup(from) + 1);
      depths[&op] = depth;
      if (StringAttr to = getSentTo(op); to && externals[to] < depth) {
        externals[to] = depth;
        isSettled = false;
      }
      // Written tensors keep their old values until the last phase has read
      // them.
      if (isReduction(op) || hasEffect(op))
        last = std::max(last, depth);
    }
    return last;
  }

  llvm::DenseMap<Operation *, unsigned> depths;
  SmallVector<Phase> reductions, phases;
  /// The number of phases before the one that writes a step's operands.
  llvm::MapVector<StringAttr, unsigned> externals;
  bool isSettled = false, isComplete = true;
};

/// Finds out whether the params and states can be written before the last
/// phase. This is so if only outputs depend on its reductions, and on elements
/// only by what the new params and states hold: the operands of the next
/// forward pass. The last launch then reads these instead of computing the step
/// once more.
class EarlyUpdate {
public:
  EarlyUpdate(KernelOp kernel, const PhasePlan &plan) : kernel(kernel) {
    for (Operation &op : kernel.getBodyBlock())
      if (isOfUpdate(op, plan))
        phase.depth = std::max(phase.depth, plan.getDepth(op));
    isPossible = phase.depth < plan.getLast().depth &&
                 llvm::is_contained(plan.getEarly(), phase) &&
                 kernel.getBodyBlock().getOps<MetricOp>().empty() &&
                 findReads(plan);
  }

  explicit operator bool() const { return isPossible; }
  Phase getPhase() const { return phase; }

  /// Returns whether an operation writes a param or a state of an element.
  static bool isOfUpdate(Operation &op, const PhasePlan &plan) {
    auto store = dyn_cast<StorePlaneOp>(op);
    if (!store || !plan.hasEffect(op))
      return false;
    auto program = op.getParentOfType<ProgramOpInterface>();
    return !program.getTensorRole(getTensorNumber(store.getTensor()))
                .isDestination();
  }

  /// Makes a copy of the body read what the update has stored.
  static void readBack(Block &body, const PhasePlan &plan) {
    OpBuilder builder(&body, body.begin());
    for (Operation &op : llvm::make_early_inc_range(body)) {
      if (!isOfUpdate(op, plan))
        continue;
      auto store = cast<StorePlaneOp>(op);
      Value value = store.getValue();
      if (isReadable(store) && !value.hasOneUse())
        value.replaceAllUsesExcept(
            LoadPlaneOp::create(builder, op.getLoc(), value.getType(),
                                store.getTensor(), store.getPlane()),
            &op);
      op.erase();
    }
  }

private:
  /// Returns whether a plane holds what an element has stored there.
  static bool isReadable(StorePlaneOp store) {
    const Plane &plane = store.getPlaneInfo();
    return plane.packed == 1 && !plane.isTransposed;
  }

  /// Returns whether the operations after the update need nothing of the params
  /// and states but what it has stored.
  bool findReads(const PhasePlan &plan) {
    llvm::DenseSet<Value> known, written;
    SmallVector<Operation *> needed;
    bool hasOutput = false;
    for (Operation &op : kernel.getBodyBlock()) {
      if (isOfUpdate(op, plan)) {
        auto store = cast<StorePlaneOp>(op);
        written.insert(store.getTensor());
        if (isReadable(store))
          known.insert(store.getValue());
        continue;
      }
      bool isLate = plan.getDepth(op) > phase.depth &&
                    (isReduction(op) || !wouldOpBeTriviallyDead(&op));
      hasOutput |= isLate && isa<StorePlaneOp>(op);
      // The last launch writes all outputs, even those that depend on nothing.
      if (isLate || plan.hasEffect(op))
        needed.push_back(&op);
    }
    return hasOutput && !written.empty() && !readsOld(needed, known, written);
  }

  /// Returns whether operations depend on planes that the update overwrites,
  /// apart from known values and by reductions.
  static bool readsOld(SmallVector<Operation *> &needed,
                       const llvm::DenseSet<Value> &known,
                       const llvm::DenseSet<Value> &written) {
    llvm::DenseSet<Operation *> seen;
    while (!needed.empty()) {
      for (Value operand : needed.pop_back_val()->getOperands()) {
        Operation *source = operand.getDefiningOp();
        if (!source || known.contains(operand) || isReduction(*source) ||
            !seen.insert(source).second)
          continue;
        auto load = dyn_cast<LoadPlaneOp>(source);
        if (load && written.contains(load.getTensor()))
          return true;
        needed.push_back(source);
      }
    }
    return false;
  }

  KernelOp kernel;
  Phase phase;
  bool isPossible;
};

/// Builds the step of a kernel, launch by launch: each begins as a copy of the
/// kernel's body.
class StepBuilder {
public:
  StepBuilder(KernelOp kernel, const PhasePlan &plan)
      : kernel(kernel), plan(plan), update(kernel, plan), builder(kernel) {
    step = StepOp::create(builder, kernel.getLoc(), kernel.getSymName(),
                          kernel.getCompute(), kernel.getTensorRoles(),
                          kernel.getScalarRoles(), plan.getReductions().size());
    step->setDiscardableAttrs(kernel->getDiscardableAttrDictionary());
    kernel.getPrologue().cloneInto(&step.getPrologue(), mapping);
    builder.setInsertionPointToStart(&step.getLaunches().emplaceBlock());
  }

  LogicalResult build() {
    for (Phase phase : plan.getEarly())
      buildReduction(phase);
    buildMain();
    // The launches for rows and blocks still read a tensor's own entries, so
    // that these are written last.
    for (Granularity per : {Granularity::row, Granularity::column,
                            Granularity::block, Granularity::tensor})
      if (failed(buildEpilogue(per)))
        return failure();
    return success();
  }

  StepOp getStep() const { return step; }

private:
  void buildReduction(Phase phase) {
    LaunchOp launch = createLaunch(LaunchRole::reduction, phase.per);
    if (isAfterUpdate(phase))
      EarlyUpdate::readBack(launch.getBodyBlock(), plan);
    buildReductions(launch, phase);
    bool updates = update && update.getPhase() == phase;
    keepOnly(launch, [&](Operation &op) {
      return isa<PartialOp>(op) || plan.sends(phase, op) ||
             (updates && EarlyUpdate::isOfUpdate(op, plan));
    });
    if (SmallVector<Attribute> after = plan.getExternalsAfter(phase);
        !after.empty())
      launch.setExternalsAttr(builder.getArrayAttr(after));
  }

  void buildMain() {
    LaunchOp launch = createLaunch(LaunchRole::main, Granularity::element);
    if (update)
      EarlyUpdate::readBack(launch.getBodyBlock(), plan);
    buildReductions(launch, plan.getLast());
    keepOnly(launch, [&](Operation &op) { return plan.hasEffect(op); });
  }

  /// Builds the launch that writes the entries that elements share, one for
  /// each row, column, block or tensor. Does nothing if there are none.
  LogicalResult buildEpilogue(Granularity per) {
    auto isWanted = [&](Operation &op) {
      return plan.getShared(op) == getAxes(per);
    };
    if (llvm::none_of(kernel.getBodyBlock(), isWanted))
      return success();
    LaunchOp launch = createLaunch(LaunchRole::epilogue, per);
    // Every reduction is known by then.
    buildReductions(launch, Phase{~0u, Granularity::element});
    keepOnly(launch, isWanted);
    return verifyShared(launch);
  }

  /// Refuses a shared entry that depends on values that differ between its
  /// elements.
  LogicalResult verifyShared(LaunchOp launch) {
    Granularity per = launch.getPer();
    Variations variations(launch);
    for (Operation &op : launch.getBodyBlock())
      if (isa<LoadPlaneOp, RandomBitsOp, LoadReductionResultOp>(op) &&
          (variations.of(&op) & ~getAxes(per)))
        return op.emitOpError("differs between the elements of a ")
               << stringifyGranularity(per)
               << ", but an entry that all of them share depends on it";
    return success();
  }

  /// Returns whether a phase finds the new params and states in memory.
  bool isAfterUpdate(Phase phase) const {
    return update && update.getPhase().depth < phase.depth;
  }

  LaunchOp createLaunch(LaunchRole role, Granularity per) {
    auto launch = LaunchOp::create(builder, kernel.getLoc(), role, per,
                                   /*width=*/1, /*fused_with_previous=*/false,
                                   /*externals=*/ArrayAttr());
    IRMapping ofBody;
    kernel.getBody().cloneInto(&launch.getBody(), ofBody);
    return launch;
  }

  /// Creates the partials of this phase's reductions, and reads the results of
  /// all.
  void buildReductions(LaunchOp launch, Phase phase) {
    SmallVector<ReduceOp> reductions;
    for (auto reduce : launch.getBodyBlock().getOps<ReduceOp>())
      if (reduce.endsPhase())
        reductions.push_back(reduce);
    for (auto [index, reduce] : llvm::enumerate(reductions)) {
      OpBuilder builder(reduce);
      if (plan.getReductions()[index] == phase)
        PartialOp::create(builder, reduce.getLoc(), reduce.getKind(),
                          reduce.getValue(), index, reduce.getScope());
      reduce.replaceAllUsesWith(buildResult(builder, reduce, index));
      reduce.erase();
    }
  }

  static Value buildResult(OpBuilder &builder, ReduceOp reduce,
                           unsigned index) {
    Granularity scope = reduce.getScope();
    if (isWithinMatrix(scope))
      return LoadReductionResultOp::create(builder, reduce.getLoc(),
                                           reduce.getType(), index, scope);
    return ReductionResultOp::create(builder, reduce.getLoc(), reduce.getType(),
                                     index);
  }

  /// Erases all operations except those that \p isWanted names and the ones
  /// that they need.
  static void keepOnly(LaunchOp launch,
                       llvm::function_ref<bool(Operation &)> isWanted) {
    SmallVector<Operation *> old;
    for (Operation &op : launch.getBodyBlock().without_terminator())
      old.push_back(&op);
    for (Operation *op : llvm::reverse(old))
      if (op->use_empty() && !isWanted(*op))
        op->erase();
  }

  KernelOp kernel;
  const PhasePlan &plan;
  EarlyUpdate update;
  OpBuilder builder;
  StepOp step;
  IRMapping mapping;
};
} // namespace

/// Returns whether a launch reads a reduction beyond a row or block.
static bool readsBeyondRows(LaunchOp launch,
                            const llvm::DenseSet<uint64_t> &reductions) {
  return llvm::any_of(launch.getBodyBlock(), [&](Operation &op) {
    if (auto result = dyn_cast<ReductionResultOp>(op))
      return reductions.contains(result.getIndex());
    auto result = dyn_cast<LoadReductionResultOp>(op);
    return result && result.getScope() == Granularity::column &&
           reductions.contains(result.getIndex());
  });
}

/// Fuses launches with the previous ones if they can run in one launch of the
/// device, and returns the number of launches that remain. Launches over rows
/// cannot be fused: their own sums would be of other chunks.
static unsigned fuseLaunches(StepOp step) {
  bool wasAlongRows = false;
  unsigned launches = 0;
  llvm::DenseSet<uint64_t> made;
  for (LaunchOp launch : step.getLaunchOps()) {
    if (launch.getRole() == LaunchRole::epilogue)
      break;
    bool isFused =
        wasAlongRows && launch.isAlongRows() && !readsBeyondRows(launch, made);
    LDBG() << "'" << launch.getFunctionName() << "' runs per "
           << stringifyGranularity(launch.getPer())
           << (isFused                 ? ", in the launch of the one before it"
               : !launch.isAlongRows() ? ", in its own launch: not along rows"
               : !wasAlongRows
                   ? ", in its own launch: it is the first along rows, or "
                     "after an external step"
                   : ", in its own launch: it reads sums of other rows");
    launch.setFusedWithPrevious(isFused);
    if (!isFused)
      made.clear();
    launches += !isFused;
    for (auto partial : launch.getBodyBlock().getOps<PartialOp>())
      made.insert(partial.getIndex());
    wasAlongRows = launch.isAlongRows() && !launch.getExternals();
  }
  return launches;
}

namespace {
struct SplitPhasesPass : public tandem::impl::SplitPhasesBase<SplitPhasesPass> {
  void runOnOperation() override {
    for (auto kernel :
         llvm::make_early_inc_range(getOperation().getOps<KernelOp>()))
      if (failed(split(kernel)))
        return signalPassFailure();
  }

  LogicalResult split(KernelOp kernel) {
    if (failed(checkCounted(kernel)))
      return failure();
    if (kernel.isMatrix()) {
      countOnce(kernel);
      reduceRowsFirst(kernel);
    }
    reduceKeys(kernel);
    PhasePlan plan(kernel);
    if (!plan.areExternalsOrdered())
      return kernel.emitError("an external step receives without sending, or "
                              "sends what depends on what it receives");
    LDBG() << "'" << kernel.getSymName() << "' has "
           << plan.getReductions().size() << " reductions, made by "
           << plan.getEarly().size() << " phases before the last one";
    StepBuilder builder(kernel, plan);
    LogicalResult result = builder.build();
    if (failed(result)) {
      builder.getStep().erase();
      return failure();
    }
    kernel.erase();
    numPhases += plan.getEarly().size() + 1;
    numLaunches += fuseLaunches(builder.getStep());
    return success();
  }
};
} // namespace
