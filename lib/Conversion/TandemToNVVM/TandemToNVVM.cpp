//===- TandemToNVVM.cpp - Kernels as NVVM functions -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of kernels to NVVM kernels of the launch
// ABI.
//
//===----------------------------------------------------------------------===//

#include "BlockReductions.h"
#include "ColumnReductions.h"
#include "Totals.h"
#include "WarpReduce.h"
#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Support/SequenceBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_CONVERTTANDEMTONVVM
#include "tandem/Conversion/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

/// Threads per block that the generated kernels are launched with.
static constexpr int32_t blockSize = 256;
/// Bytes of the widest memory access.
static constexpr int64_t accessBytes = 16;

namespace {
/// Builds a kernel whose blocks stride over chunks and whose threads take
/// `width` consecutive elements a step.
class NVVMKernelBuilder {
public:
  explicit NVVMKernelBuilder(KernelOp kernel)
      : kernel(kernel), builder(kernel), launch(kernel, builder),
        loc(kernel.getLoc()), width(kernel.getWidth()),
        planes(launch.getPlanes()) {}

  void build();

private:
  template <typename OpTy>
  Value sreg() {
    Value word = OpTy::create(builder, loc, builder.getI32Type());
    return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), word);
  }
  void markKernel(LLVM::LLVMFuncOp function, int32_t threads);
  /// The chunk's pointers in the global address space; whether all of them
  /// allow the widest access.
  Value prepareChunk(Chunk &chunk);
  void buildChunk(LLVM::LLVMFuncOp entry, Value chunkIndex);
  /// A chunk of a matrix, row by row: the block's threads span its columns.
  void buildTile(LLVM::LLVMFuncOp entry, Value chunkIndex);
  /// A row of a tile; its results are those of the loop over rows.
  SmallVector<Value> buildRow(const Chunk &tile, Value row, ValueRange state);
  void storeColumns(const Chunk &tile, ValueRange state);
  void storeColumn(const Chunk &tile, Value index, PartialOp op, Value totals);
  /// The threads of a block join what each has of it.
  void storeBlock(const Chunk &tile, Value index, PartialOp op, Value total);
  /// The first of this thread's columns.
  Value getColumn(const Chunk &tile);
  Value buildLoadTotal(const Chunk &chunk, Value index, LoadTotalOp op);
  /// Builds the loop over a chunk's steps. Its results: for each raise whether
  /// this thread's elements did; with reductions the number of steps, and this
  /// thread's maxima and minima.
  scf::ForOp buildSteps(const Chunk &chunk, Value isAligned);
  void buildStep(const Chunk &chunk, Value index, Value isAligned);
  /// What the loop carries from one step to the next.
  SmallVector<Value> advanceState(const Chunk &chunk, ValueRange state);
  void buildReductions(LLVM::LLVMFuncOp entry);
  /// Reduces this thread's lanes; those beyond the chunk's end take no part.
  Value reduceExisting(const Chunk &chunk, Value index, Value value,
                       ReduceKind kind);
  void prepareReduced(const Chunk &chunk, Value index, Operation &op);
  void storeReduced(LLVM::LLVMFuncOp entry, Value chunkIndex,
                    ValueRange results);
  /// A kernel that runs once for each tensor, a thread for each.
  void buildCommit(LLVM::LLVMFuncOp entry);
  /// ORs the flags that this thread raised into the launch's.
  void storeFlags(LLVM::LLVMFuncOp entry, ValueRange raised);
  Value toGlobal(Value pointer);
  SmallVector<Value> buildLoads(const Chunk &chunk, Value index, Value isWide);
  SmallVector<Value> loadWide(const Chunk &chunk, Value index);
  SmallVector<Value> loadLanes(const Chunk &chunk, Value index);
  void buildStores(const Chunk &chunk, Value index, Value isWide);
  /// The result of a group, in all of its threads.
  Value buildReduce(const Chunk &chunk, Value index, ReduceOp op);
  /// A thread's elements are in as many rows of a transposed plane.
  void buildTransposedStores(const Chunk &chunk, Value index);
  /// The entries that groups share are written by their first threads.
  void buildSharedStores(const Chunk &chunk, Value index);
  unsigned planeOf(Operation *access);
  int64_t getAlignment(unsigned plane) const;
  Value laneExists(const Chunk &chunk, Value index, int64_t lane);

  KernelOp kernel;
  OpBuilder builder;
  LaunchBuilder launch;
  Location loc;
  int64_t width;
  ArrayRef<LaunchBuilder::PlaneInfo> planes;
  SmallVector<LoadPlaneOp> loads;
  SmallVector<StorePlaneOp> stores;
  SmallVector<RaiseOp> raises;
  Value thread, threads;
  /// Whether the threads of a warp meet in each step.
  bool isCollective = false;
  /// The metrics and partials, if there are any.
  SmallVector<Operation *> reduced;
  std::optional<BlockReductions> reductions;
  /// The partials of columns.
  std::optional<ColumnReductions> columns;
  IRMapping mapping;
  /// What a step computes: the sums' values; for each raise whether any lane
  /// did; the largest or smallest of the lanes.
  SmallVector<Value> summands, raisedByStep, extremes, ofColumns;
};
} // namespace

void NVVMKernelBuilder::markKernel(LLVM::LLVMFuncOp function, int32_t threads) {
  function->setAttr("nvvm.kernel", builder.getUnitAttr());
  function->setAttr("nvvm.maxntid", builder.getDenseI32ArrayAttr({threads}));
}

void NVVMKernelBuilder::build() {
  kernel.getBodyBlock().walk([&](LoadPlaneOp op) {
    if (!LaunchBuilder::isLoadedOnce(op))
      loads.push_back(op);
  });
  kernel.getBodyBlock().walk([&](StorePlaneOp op) { stores.push_back(op); });
  kernel.getBodyBlock().walk([&](RaiseOp op) { raises.push_back(op); });
  // The parts of a kernel have the same prologue.
  if (kernel.getPart() == KernelPart::whole)
    markKernel(launch.createPrologue(), 1);
  createTotals(kernel, builder, blockSize);
  LLVM::LLVMFuncOp entry = launch.createEntry();
  markKernel(entry, blockSize);
  builder.setInsertionPointToStart(&entry.getBody().front());
  SequenceBuilder b(builder, loc);
  Value block = sreg<NVVM::BlockIdXOp>(), blocks = sreg<NVVM::GridDimXOp>();
  thread = sreg<NVVM::ThreadIdXOp>();
  threads = sreg<NVVM::BlockDimXOp>();
  if (kernel.isPerTensor())
    return buildCommit(entry);
  buildReductions(entry);
  isCollective =
      reductions || !kernel.getBodyBlock().getOps<ReduceOp>().empty();
  auto [begin, end] = launch.getRangeUnlessSkipped(entry);
  auto chunks =
      scf::ForOp::create(builder, loc, b.addi(begin, block), end, blocks);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPoint(chunks.getBody()->getTerminator());
  if (kernel.getMatrix() && kernel.getPer() == Granularity::element)
    buildTile(entry, chunks.getInductionVar());
  else
    buildChunk(entry, chunks.getInductionVar());
}

/// The values of the kernel's body that a block reduces.
void NVVMKernelBuilder::buildReductions(LLVM::LLVMFuncOp entry) {
  SmallVector<BlockReductions::Item> items;
  columns.emplace(kernel, launch);
  for (Operation &op : kernel.getBodyBlock()) {
    auto partial = dyn_cast<PartialOp>(op);
    bool isColumn = partial && partial.isDownColumns();
    if (isColumn || (!partial && !isa<MetricOp>(op)))
      continue;
    reduced.push_back(&op);
    items.push_back({partial ? partial.getKind() : ReduceKind::sum,
                     getElementTypeOrSelf(op.getOperand(0).getType())});
  }
  SequenceBuilder b(builder, loc);
  if (!reduced.empty())
    reductions.emplace(b, kernel, entry.getSymName().str() + "_parts", launch,
                       items, blockSize);
}

void NVVMKernelBuilder::buildCommit(LLVM::LLVMFuncOp entry) {
  SequenceBuilder b(builder, loc);
  Value block = sreg<NVVM::BlockIdXOp>(), blocks = sreg<NVVM::GridDimXOp>();
  Value first = b.addi(b.muli(block, threads), thread);
  auto [begin, end] = launch.getRangeUnlessSkipped(entry);
  auto tensors = scf::ForOp::create(builder, loc, b.addi(begin, first), end,
                                    b.muli(blocks, threads));
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPoint(tensors.getBody()->getTerminator());
  Chunk chunk = launch.readTensor(entry, tensors.getInductionVar());
  auto branch = scf::IfOp::create(
      builder, loc,
      b.compare(arith::CmpIPredicate::ne, chunk.size, launch.i64(0)));
  builder.setInsertionPointToStart(branch.thenBlock());
  launch.mapShared(chunk, mapping);
  for (Operation &op : kernel.getBodyBlock().without_terminator()) {
    auto accessed = [&] { return toGlobal(chunk.planes[planeOf(&op)]); };
    if (isa<TotalOp, SizeOp>(op))
      continue;
    if (auto load = dyn_cast<LoadPlaneOp>(op))
      mapping.map(load.getResult(),
                  LLVM::LoadOp::create(builder, loc, load.getType(), accessed())
                      .getResult());
    else if (auto store = dyn_cast<StorePlaneOp>(op))
      LLVM::StoreOp::create(builder, loc, mapping.lookup(store.getValue()),
                            accessed());
    else if (auto recall = dyn_cast<RecallOp>(op))
      mapping.map(recall.getResult(), launch.recall(recall, accessed()));
    else if (auto remember = dyn_cast<RememberOp>(op))
      launch.remember(remember, accessed(),
                      mapping.lookup(remember.getValue()));
    else
      builder.clone(op, mapping);
  }
}

void NVVMKernelBuilder::buildChunk(LLVM::LLVMFuncOp entry, Value chunkIndex) {
  Chunk chunk = launch.readChunk(entry, chunkIndex);
  Value isAligned = prepareChunk(chunk);
  scf::ForOp steps = buildSteps(chunk, isAligned);
  storeFlags(entry, steps.getResults().take_front(raises.size()));
  if (reductions)
    storeReduced(entry, chunkIndex, steps.getResults());
}

Value NVVMKernelBuilder::getColumn(const Chunk &tile) {
  SequenceBuilder b(builder, loc);
  return b.addi(tile.begin, b.muli(thread, launch.i64(width)));
}

void NVVMKernelBuilder::buildTile(LLVM::LLVMFuncOp entry, Value chunkIndex) {
  SequenceBuilder b(builder, loc);
  Chunk tile = launch.readTile(entry, chunkIndex);
  SmallVector<Value> initial(raises.size(),
                             b.integer(builder.getI1Type(), false));
  llvm::append_range(initial, columns->getInitial(b));
  auto rows = scf::ForOp::create(
      builder, loc, tile.firstRow, tile.endRow, launch.i64(1), initial,
      [&](OpBuilder &, Location, Value row, ValueRange state) {
        scf::YieldOp::create(builder, loc, buildRow(tile, row, state));
      });
  storeFlags(entry, rows.getResults().take_front(raises.size()));
  storeColumns(tile, rows.getResults().drop_front(raises.size()));
}

SmallVector<Value> NVVMKernelBuilder::buildRow(const Chunk &tile, Value row,
                                               ValueRange state) {
  SequenceBuilder b(builder, loc);
  Chunk chunk = launch.getRow(tile, row);
  Value isAligned = prepareChunk(chunk);
  buildStep(chunk, getColumn(tile), isAligned);
  if (reductions) {
    reductions->addStep(b, summands, launch.i64(0));
    reductions->finish(b, extremes, launch.i64(1), [&](ArrayRef<Value> values) {
      for (auto [op, value] : llvm::zip(reduced, values))
        LLVM::StoreOp::create(
            builder, loc, value,
            toGlobal(launch.getPart(chunk, cast<PartialOp>(op), row)));
    });
  }
  SmallVector<Value> next;
  for (auto [before, raised] : llvm::zip(state, raisedByStep))
    next.push_back(b.ori(before, raised));
  llvm::append_range(next, columns->add(b, state.drop_front(raises.size()),
                                        ofColumns, b.subi(row, tile.firstRow)));
  return next;
}

void NVVMKernelBuilder::storeColumns(const Chunk &tile, ValueRange state) {
  SequenceBuilder b(builder, loc);
  Value index = getColumn(tile);
  SmallVector<Value> totals =
      columns->getTotals(b, state, b.subi(tile.endRow, tile.firstRow));
  for (auto [partial, total] : llvm::zip(columns->getOps(), totals)) {
    PartialOp op = partial;
    if (op.getScope() == Scope::block)
      storeBlock(tile, index, op, total);
    else
      storeColumn(tile, index, op, total);
  }
}

void NVVMKernelBuilder::storeColumn(const Chunk &tile, Value index,
                                    PartialOp op, Value totals) {
  SequenceBuilder b(builder, loc);
  for (int64_t lane = 0; lane < width; ++lane) {
    auto exists =
        scf::IfOp::create(builder, loc, laneExists(tile, index, lane));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(exists.thenBlock());
    Value column = b.addi(index, launch.i64(lane));
    Value entry = vector::ExtractOp::create(builder, loc, totals, lane);
    LLVM::StoreOp::create(builder, loc, entry,
                          toGlobal(launch.getPart(tile, op, column)));
  }
}

void NVVMKernelBuilder::storeBlock(const Chunk &tile, Value index, PartialOp op,
                                   Value total) {
  SequenceBuilder b(builder, loc);
  BlockReductions::Item item{op.getKind(), total.getType()};
  total =
      reduceLanes(b, total, kernel.getBlock() / width, [&](Value x, Value y) {
        return BlockReductions::join(b, item, x, y);
      });
  Value inBlock = b.andi(index, launch.i64(kernel.getBlock() - 1));
  Value isFirst = b.compare(arith::CmpIPredicate::eq, inBlock, launch.i64(0));
  auto branch = scf::IfOp::create(builder, loc,
                                  b.andi(isFirst, laneExists(tile, index, 0)));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Value place = launch.getAxisTotal(
      tile, op.getIndex(), launch.getBlock(tile, tile.firstRow, index));
  LLVM::StoreOp::create(builder, loc, total, toGlobal(place));
}

/// A row has one entry, and a block one for all elements of a step, which else
/// have several. Threads behind the last element read the first ones.
Value NVVMKernelBuilder::buildLoadTotal(const Chunk &chunk, Value index,
                                        LoadTotalOp op) {
  SequenceBuilder b(builder, loc);
  Value position = chunk.row;
  if (op.differsInRow() || op.getScope() == Scope::block)
    position = b.select(laneExists(chunk, index, 0), index, chunk.begin);
  if (!op.differsInRow() && op.getScope() == Scope::block)
    position = launch.getBlock(chunk, chunk.row, position);
  Value place = launch.getAxisTotal(chunk, op.getIndex(), position);
  return launch.load(toGlobal(place), op.getType(), /*offset=*/0,
                     /*alignment=*/4);
}

void NVVMKernelBuilder::storeReduced(LLVM::LLVMFuncOp entry, Value chunkIndex,
                                     ValueRange results) {
  SequenceBuilder b(builder, loc);
  Value slots = launch.getSlots(toGlobal(entry.getArgument(3)), chunkIndex);
  Value steps = results[raises.size()];
  SmallVector<Value> mine(results.drop_front(raises.size() + 1));
  reductions->finish(b, mine, steps, [&](ArrayRef<Value> values) {
    for (auto [op, value] : llvm::zip(reduced, values))
      LLVM::StoreOp::create(builder, loc, value, launch.getSlot(slots, op));
  });
}

scf::ForOp NVVMKernelBuilder::buildSteps(const Chunk &chunk, Value isAligned) {
  SequenceBuilder b(builder, loc);
  Value lanes = launch.i64(width);
  Value offset = b.muli(thread, lanes);
  SmallVector<Value> initial(raises.size(),
                             b.integer(builder.getI1Type(), false));
  if (reductions) {
    initial.push_back(launch.i64(0));
    for (const auto &item : reductions->getItems())
      if (!item.isSum())
        initial.push_back(BlockReductions::getIdentity(b, item));
  }
  // Threads that meet in sums or shuffles take as many steps as the first one.
  return scf::ForOp::create(
      builder, loc, isCollective ? chunk.begin : b.addi(chunk.begin, offset),
      chunk.end, b.muli(threads, lanes), initial,
      [&](OpBuilder &, Location, Value position, ValueRange state) {
        Value index = isCollective ? b.addi(position, offset) : position;
        buildStep(chunk, index, isAligned);
        scf::YieldOp::create(builder, loc, advanceState(chunk, state));
      });
}

SmallVector<Value> NVVMKernelBuilder::advanceState(const Chunk &chunk,
                                                   ValueRange state) {
  SequenceBuilder b(builder, loc);
  SmallVector<Value> next;
  for (auto [before, raised] : llvm::zip(state, raisedByStep))
    next.push_back(b.ori(before, raised));
  if (!reductions)
    return next;
  Value step = state[next.size()];
  reductions->addStep(b, summands, step);
  next.push_back(b.addi(step, launch.i64(1)));
  auto *extreme = extremes.begin();
  for (const auto &item : reductions->getItems())
    if (!item.isSum())
      next.push_back(
          BlockReductions::join(b, item, state[next.size()], *extreme++));
  return next;
}

void NVVMKernelBuilder::storeFlags(LLVM::LLVMFuncOp entry, ValueRange raised) {
  for (auto [op, isRaised] : llvm::zip(raises, raised)) {
    auto branch = scf::IfOp::create(builder, loc, isRaised);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    SequenceBuilder b(builder, loc);
    LLVM::AtomicRMWOp::create(
        builder, loc, LLVM::AtomicBinOp::_or, toGlobal(entry.getArgument(4)),
        b.integer(builder.getI32Type(), uint64_t(1) << op.getFlag()),
        LLVM::AtomicOrdering::monotonic);
  }
}

Value NVVMKernelBuilder::toGlobal(Value pointer) {
  auto global = LLVM::LLVMPointerType::get(builder.getContext(), 1);
  return LLVM::AddrSpaceCastOp::create(builder, loc, global, pointer);
}

Value NVVMKernelBuilder::prepareChunk(Chunk &chunk) {
  SequenceBuilder b(builder, loc);
  Value combined;
  for (auto [pointer, plane] : llvm::zip(chunk.planes, planes)) {
    if (!plane.isUsed())
      continue;
    pointer = toGlobal(pointer);
    if (!plane.isStreamed())
      continue;
    Value address =
        LLVM::PtrToIntOp::create(builder, loc, builder.getI64Type(), pointer);
    combined = combined ? b.ori(combined, address) : address;
  }
  if (!combined)
    return b.integer(builder.getI1Type(), true);
  Value low = b.andi(combined, b.like(combined, accessBytes - 1));
  Value offset = b.andi(chunk.begin, b.like(chunk.begin, width - 1));
  Value misaligned = b.ori(low, offset);
  return b.compare(arith::CmpIPredicate::eq, misaligned, b.like(misaligned, 0));
}

/// Whether a condition holds in any lane.
static Value anyLane(SequenceBuilder &b, Value condition) {
  return vector::ReductionOp::create(b.builder, b.loc,
                                     vector::CombiningKind::OR, condition);
}

void NVVMKernelBuilder::buildStep(const Chunk &chunk, Value index,
                                  Value isAligned) {
  SequenceBuilder b(builder, loc);
  Value isWhole = b.compare(arith::CmpIPredicate::sge, b.subi(chunk.end, index),
                            launch.i64(width));
  Value isWide = b.andi(isWhole, isAligned);
  launch.mapShared(chunk, mapping);
  SmallVector<Value> loaded = buildLoads(chunk, index, isWide);
  for (auto [op, value] : llvm::zip(loads, loaded))
    mapping.map(op.getResult(), value);
  for (Operation &op : kernel.getBodyBlock().without_terminator()) {
    if (isa<LoadPlaneOp, StorePlaneOp, TotalOp, SizeOp>(op))
      continue;
    auto partial = dyn_cast<PartialOp>(op);
    if (auto total = dyn_cast<LoadTotalOp>(op)) {
      mapping.map(total.getResult(), buildLoadTotal(chunk, index, total));
    } else if (partial && partial.isDownColumns()) {
      Value value = mapping.lookup(partial.getValue());
      bool isBlock = partial.getScope() == Scope::block;
      ofColumns.push_back(
          isBlock ? reduceExisting(chunk, index, value, partial.getKind())
                  : value);
    } else if (isa<MetricOp, PartialOp>(op)) {
      prepareReduced(chunk, index, op);
    } else if (auto raise = dyn_cast<RaiseOp>(op)) {
      raisedByStep.push_back(anyLane(b, mapping.lookup(raise.getCondition())));
    } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
      mapping.map(op.getResult(0), buildReduce(chunk, index, reduce));
    } else if (auto draw = dyn_cast<RandomBitsOp>(op)) {
      RandomSource source = chunk.getRandomSource(b, draw, index, mapping);
      Value bits = buildRandomBits(b, source, width);
      mapping.map(draw.getResult(), b.resize(bits, builder.getI32Type()));
    } else {
      builder.clone(op, mapping);
    }
  }
  buildStores(chunk, index, isWide);
  buildTransposedStores(chunk, index);
  buildSharedStores(chunk, index);
}

unsigned NVVMKernelBuilder::planeOf(Operation *access) {
  return llvm::TypeSwitch<Operation *, unsigned>(access)
      .Case<LoadPlaneOp, StorePlaneOp, RecallOp, RememberOp>([&](auto op) {
        return launch.getPlaneIndex(op.getTensor(), op.getPlane());
      });
}

SmallVector<Value> NVVMKernelBuilder::buildLoads(const Chunk &chunk,
                                                 Value index, Value isWide) {
  if (loads.empty())
    return {};
  SmallVector<Type> types =
      llvm::map_to_vector(loads, [](LoadPlaneOp op) { return op.getType(); });
  auto branch = scf::IfOp::create(builder, loc, types, isWide,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, loc, loadWide(chunk, index));
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, loadLanes(chunk, index));
  return SmallVector<Value>(branch.getResults());
}

SmallVector<Value> NVVMKernelBuilder::loadWide(const Chunk &chunk,
                                               Value index) {
  return llvm::map_to_vector(loads, [&](LoadPlaneOp op) -> Value {
    unsigned plane = planeOf(op);
    return LLVM::LoadOp::create(builder, loc, op.getType(),
                                launch.addressOf(chunk, plane, index),
                                getAlignment(plane));
  });
}

Value NVVMKernelBuilder::laneExists(const Chunk &chunk, Value index,
                                    int64_t lane) {
  SequenceBuilder b(builder, loc);
  return b.compare(arith::CmpIPredicate::slt, b.addi(index, launch.i64(lane)),
                   chunk.end);
}

/// Element by element, each only if it exists.
SmallVector<Value> NVVMKernelBuilder::loadLanes(const Chunk &chunk,
                                                Value index) {
  SequenceBuilder b(builder, loc);
  SmallVector<Value> vectors;
  SmallVector<Type> types;
  for (LoadPlaneOp op : loads) {
    vectors.push_back(b.zero(op.getType()));
    types.push_back(op.getType());
  }
  for (int64_t lane = 0; lane < width; ++lane) {
    auto branch = scf::IfOp::create(builder, loc, types,
                                    laneExists(chunk, index, lane), true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, vectors);
    builder.setInsertionPointToStart(branch.thenBlock());
    Value position = b.addi(index, launch.i64(lane));
    for (auto [op, vector] : llvm::zip(loads, vectors)) {
      unsigned plane = planeOf(op);
      bool isShared = planes[plane].group > 1;
      if (isShared && lane > 0)
        continue;
      Value element = LLVM::LoadOp::create(
          builder, loc, getElementTypeOrSelf(op.getType()),
          launch.addressOf(chunk, plane, position), planes[plane].bytes);
      vector = isShared ? element
                        : vector::InsertOp::create(builder, loc, element,
                                                   vector, lane)
                              .getResult();
    }
    scf::YieldOp::create(builder, loc, vectors);
    vectors.assign(branch.getResults().begin(), branch.getResults().end());
  }
  return vectors;
}

void NVVMKernelBuilder::buildStores(const Chunk &chunk, Value index,
                                    Value isWide) {
  SequenceBuilder b(builder, loc);
  auto branch = scf::IfOp::create(builder, loc, isWide, true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  for (StorePlaneOp op : stores) {
    unsigned plane = planeOf(op);
    if (planes[plane].isStreamed())
      LLVM::StoreOp::create(builder, loc, mapping.lookup(op.getValue()),
                            launch.addressOf(chunk, plane, index),
                            getAlignment(plane));
  }
  builder.setInsertionPointToStart(branch.elseBlock());
  for (int64_t lane = 0; lane < width; ++lane) {
    auto exists =
        scf::IfOp::create(builder, loc, laneExists(chunk, index, lane));
    OpBuilder::InsertionGuard inner(builder);
    builder.setInsertionPointToStart(exists.thenBlock());
    Value position = b.addi(index, launch.i64(lane));
    for (StorePlaneOp op : stores) {
      unsigned plane = planeOf(op);
      if (!planes[plane].isStreamed())
        continue;
      Value element = vector::ExtractOp::create(
          builder, loc, mapping.lookup(op.getValue()), lane);
      LLVM::StoreOp::create(builder, loc, element,
                            launch.addressOf(chunk, plane, position),
                            planes[plane].bytes);
    }
  }
}

void NVVMKernelBuilder::buildTransposedStores(const Chunk &chunk, Value index) {
  SequenceBuilder b(builder, loc);
  for (StorePlaneOp op : stores) {
    unsigned plane = planeOf(op);
    if (!planes[plane].isTransposed)
      continue;
    Value values = mapping.lookup(op.getValue());
    for (int64_t lane = 0; lane < width; ++lane) {
      auto exists =
          scf::IfOp::create(builder, loc, laneExists(chunk, index, lane));
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(exists.thenBlock());
      Value element = vector::ExtractOp::create(builder, loc, values, lane);
      Value column = b.addi(index, launch.i64(lane));
      LLVM::StoreOp::create(builder, loc, element,
                            launch.addressOf(chunk, plane, column),
                            planes[plane].bytes);
    }
  }
}

int64_t NVVMKernelBuilder::getAlignment(unsigned plane) const {
  int64_t elements = planes[plane].group > 1 ? 1 : width;
  return std::min<int64_t>(accessBytes, elements * planes[plane].bytes);
}

void NVVMKernelBuilder::buildSharedStores(const Chunk &chunk, Value index) {
  SequenceBuilder b(builder, loc);
  for (StorePlaneOp op : stores) {
    unsigned plane = planeOf(op);
    if (planes[plane].group == 1)
      continue;
    Value inGroup = b.andi(index, launch.i64(planes[plane].group - 1));
    Value isFirst = b.compare(arith::CmpIPredicate::eq, inGroup, launch.i64(0));
    auto branch = scf::IfOp::create(
        builder, loc, b.andi(isFirst, laneExists(chunk, index, 0)));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    LLVM::StoreOp::create(builder, loc, mapping.lookup(op.getValue()),
                          launch.addressOf(chunk, plane, index),
                          getAlignment(plane));
  }
}

Value NVVMKernelBuilder::buildReduce(const Chunk &chunk, Value index,
                                     ReduceOp op) {
  SequenceBuilder b(builder, loc);
  BlockReductions::Item item{op.getKind(), op.getType()};
  Value value =
      reduceExisting(chunk, index, mapping.lookup(op.getValue()), op.getKind());
  return reduceLanes(
      b, value, int64_t(op.getGroup()) / width,
      [&](Value x, Value y) { return BlockReductions::join(b, item, x, y); });
}

Value NVVMKernelBuilder::reduceExisting(const Chunk &chunk, Value index,
                                        Value value, ReduceKind kind) {
  SequenceBuilder b(builder, loc);
  bool isMax = kind == ReduceKind::max;
  auto type = VectorType::get({width}, builder.getI64Type());
  SmallVector<int64_t> lanes = llvm::to_vector(llvm::seq<int64_t>(0, width));
  Value numbers = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, ArrayRef<int64_t>(lanes)));
  Value limit =
      vector::BroadcastOp::create(builder, loc, type, b.subi(chunk.end, index));
  Value exists = b.compare(arith::CmpIPredicate::slt, numbers, limit);
  value = b.select(exists, value, b.like(value, isMax ? 0 : ~uint64_t(0)));
  return vector::ReductionOp::create(builder, loc,
                                     isMax ? vector::CombiningKind::MAXUI
                                           : vector::CombiningKind::MINUI,
                                     value);
}

/// This thread's part of a metric or a partial.
void NVVMKernelBuilder::prepareReduced(const Chunk &chunk, Value index,
                                       Operation &op) {
  SequenceBuilder b(builder, loc);
  Value value = mapping.lookup(op.getOperand(0));
  auto partial = dyn_cast<PartialOp>(op);
  if (!partial || partial.getKind() == ReduceKind::sum)
    summands.push_back(sumLanes(b, value, b.subi(chunk.end, index)));
  else
    extremes.push_back(reduceExisting(chunk, index, value, partial.getKind()));
}

/// What meets in a group or across a block is in the hands of one warp.
static LogicalResult verifyWarps(KernelOp kernel) {
  for (Operation &op : kernel.getBodyBlock()) {
    int64_t size = 0;
    if (auto reduce = dyn_cast<ReduceOp>(op))
      size = reduce.getGroup();
    auto partial = dyn_cast<PartialOp>(op);
    if (partial && partial.getScope() == Scope::block)
      size = kernel.getBlock();
    if (size > warpSize * int64_t(kernel.getWidth()))
      return op.emitError("reduces ")
             << size << " neighbours, more than a warp's " << warpSize
             << " threads have with " << int64_t(kernel.getWidth())
             << " each; run -tandem-widen with at least width="
             << size / warpSize;
  }
  return success();
}

namespace {
struct ConvertTandemToNVVMPass
    : public tandem::impl::ConvertTandemToNVVMBase<ConvertTandemToNVVMPass> {
  void runOnOperation() override {
    for (auto kernel :
         llvm::make_early_inc_range(getOperation().getOps<KernelOp>())) {
      if (kernel.getWidth() < 2 && !kernel.isPerTensor()) {
        kernel.emitError("a GPU kernel takes at least 2 elements a thread; run "
                         "-tandem-widen first");
        return signalPassFailure();
      }
      auto lookups = kernel.getBodyBlock().getOps<LookupOp>();
      if (!lookups.empty()) {
        (*lookups.begin())
            .emitError("'tandem.lookup' is for CPUs, whose caches hold tables; "
                       "leave out -tandem-tabulate");
        return signalPassFailure();
      }
      if (failed(verifyLowered(kernel)) || failed(verifyWarps(kernel)))
        return signalPassFailure();
      NVVMKernelBuilder(kernel).build();
      kernel.erase();
      ++numKernels;
    }
  }
};
} // namespace
