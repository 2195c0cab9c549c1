//===- TandemToCPU.cpp - Kernels as functions for CPUs --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of kernels to functions of the launch ABI
// for CPUs.
//
//===----------------------------------------------------------------------===//

#include "BlockSum.h"
#include "EvenOddLayout.h"
#include "Schedule.h"
#include "Tables.h"
#include "TileStages.h"
#include "TransposedStore.h"
#include "tandem/Conversion/LaunchBodyBuilder.h"
#include "tandem/Conversion/MemoryLimits.h"
#include "tandem/Conversion/PaddingLanes.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Conversion/Reductions.h"
#include "tandem/Conversion/TreeSum.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTTANDEMTOCPU
#include "tandem/Conversion/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// The distance by which prefetches run ahead and the size of a cache line, in
/// bytes.
static constexpr int64_t prefetchBytes = 1024, lineBytes = 64;

namespace {
/// A block in one stage of the tile that begins at `tile`.
struct StageBlock : BodyBlock {
  StageBlock(const Chunk &chunk, unsigned stage, Value tile, Value index,
             SmallVector<Value> pointers, IRMapping &mapping)
      : BodyBlock{chunk, index, mapping}, stage(stage), tile(tile),
        pointers(std::move(pointers)) {}

  unsigned stage;
  Value tile;
  /// The addresses of the block's entries, one per plane.
  SmallVector<Value> pointers;
};

/// Builds the loop over chunks and, inside, the loop over blocks of `width`
/// elements.
class CPUKernelBuilder : public LaunchBodyBuilder<StageBlock> {
public:
  CPUKernelBuilder(LaunchOp kernel, OpBuilder &builder)
      : LaunchBodyBuilder(kernel, builder), lanes(kernel), stages(kernel),
        order(schedule(kernel.getBodyBlock())) {}

private:
  void prepare(LLVM::LLVMFuncOp entry) override;
  scf::ForOp createLoop(LLVM::LLVMFuncOp entry) override {
    return launch.createRange(entry);
  }
  void buildChunk(LLVM::LLVMFuncOp entry, Chunk chunk,
                  Value chunkIndex) override;
  /// Builds the loop over a tile's rows.
  void buildTile(LLVM::LLVMFuncOp entry, const Chunk &tile) override;
  void buildTensor(const Chunk &tensor) override;
  Value buildLoad(StageBlock &block, LoadPlaneOp op) override;
  void buildStore(StageBlock &block, StorePlaneOp op) override;
  /// Adds a block of a row to the reductions of the rows above it.
  void addToColumns(StageBlock &block, PartialOp op) override;
  void addToReduction(StageBlock &block, Operation *op) override;
  void setFlag(StageBlock &block, SetFlagOp op) override { carry(block, op); }
  void buildReduce(StageBlock &block, ReduceOp op) override;
  void buildArithmetic(StageBlock &block, Operation *op) override;
  Value getEntry(StageBlock &block, unsigned plane) override {
    return block.pointers[plane];
  }
  SmallVector<int64_t> getLaneElements() override {
    return lanes.getElements(width);
  }
  Value extendLanes(SequenceBuilder &b, Value narrow) override {
    return lanes.extend(b, narrow);
  }

  void createScratch();
  void createKept();
  SmallVector<Value> getPointers(const Chunk &chunk, Value index);
  /// Finds the operations that load values shared by a row.
  void findRowLoads();
  void loadRow(const Chunk &row);
  /// Builds the loop over the elements of a chunk, or of a row of a tile.
  void buildElements(LLVM::LLVMFuncOp entry, const Chunk &chunk, Value slots);
  /// Builds a loop that carries the flags and the extremes so far.
  void buildLoop(Value begin, Value end, int64_t step,
                 function_ref<void(Value)> build);
  /// Runs each stage over all blocks of the tile before the next stage.
  void buildStages(const Chunk &chunk, Value tile);
  /// Prefetches what a later block will need. A block's arithmetic hides the
  /// loads of the next, and there are more streams than hardware prefetchers
  /// follow.
  void prefetch(ArrayRef<Value> pointers);
  /// Builds one stage of a block. `shared` maps the values that the elements of
  /// the tile share.
  void buildBlock(const Chunk &chunk, unsigned stage, Value tile, Value index,
                  const IRMapping &shared);
  /// Builds those operations of a block's stage that the elements of the tile
  /// share, or the others.
  void buildBody(StageBlock &block, bool isShared = false);
  /// Builds an operation after the values that it needs, and stores its results
  /// for later stages.
  void buildStaged(StageBlock &block, Operation *op);
  /// Sets the flag if its condition held for any element.
  void storeFlag(LLVM::LLVMFuncOp entry, SetFlagOp op, Value condition);
  /// Returns the initial value of a carried operation in a chunk.
  Value getIdentity(Operation *op);
  void carry(StageBlock &block, Operation *op);
  void storeCarried(LLVM::LLVMFuncOp entry, const Chunk &chunk, Value slots);
  /// Returns the address for the reduction of a chunk or of a row.
  Value getResult(const Chunk &chunk, Value slots, Operation *op);
  /// Maps a value that another stage or no stage has computed.
  void provide(StageBlock &block, Value value);
  Value getOffset(const StageBlock &block, int64_t group);
  /// Returns the address of a block's part of a kept value or of a reduction.
  Value getKeptSlot(const StageBlock &block, Value value);
  void createSums();
  void addToSum(StageBlock &block, Operation *op);
  /// Writes the sums of the chunk to its slots in the workspace.
  void storeSums(const Chunk &chunk, Value slots);
  void createColumns();
  TreeSum getColumnSum(PartialOp op, Value offset);
  /// Writes a tile's partial reductions of columns.
  void storeColumns(const Chunk &tile);
  void storeColumn(const Chunk &tile, PartialOp op, Value index);
  /// Writes the reductions of a tile's blocks, which need no other tile.
  void storeBlocks(const Chunk &tile, PartialOp op);
  /// Reduces the block that begins at the column `first`.
  Value reduceBlock(const Chunk &tile, PartialOp op, Value first);
  /// Copies the first `count` elements between planes and scratch memory.
  void copyTail(ArrayRef<Value> pointers, Value count, bool toScratch);
  /// Returns a mask of the lanes whose elements are in the chunk.
  Value laneExists(const StageBlock &block);

  EvenOddLayout lanes;
  /// Memory for one block of elements per plane, in which a chunk's partial
  /// block is computed.
  SmallVector<Value> scratch;
  /// The metrics and the partial sums of the body, except sums of columns.
  llvm::MapVector<Operation *, BlockSum> sums;
  /// For each reduction of columns, memory with an entry for each column of a
  /// tile; for a sum, one for each level of its tree.
  llvm::MapVector<Operation *, Value> columns;
  /// Memory for a block of column entries that is written in part.
  Value columnScratch;
  /// The body's flags, and its partial maxima and minima.
  SmallVector<Operation *> carriers;
  /// The lanes of each carrier: whether its condition has held, or the extreme
  /// so far.
  SmallVector<Value> carried;
  TileStages stages;
  /// The body's operations in the order in which they are computed.
  SmallVector<Operation *> order;
  /// The loads of values that a row's elements share, and these values in the
  /// current row. LLVM would not hoist the loads, because of stores in between.
  llvm::SetVector<Operation *> rowLoads;
  IRMapping ofRow;
  /// The memory of values that later stages of a tile read, and of reductions
  /// of its groups.
  llvm::DenseMap<Value, Value> kept;
};
} // namespace

void CPUKernelBuilder::createScratch() {
  if (width == 1)
    return;
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  for (const auto &plane : planes)
    scratch.push_back(
        plane.isStreamed() || plane.isTransposed
            ? LLVM::AllocaOp::create(builder, loc, pointer,
                                     VectorType::get({width}, plane.bits),
                                     launch.i64(1), /*alignment=*/64)
                  .getResult()
            : Value());
}

void CPUKernelBuilder::prepare(LLVM::LLVMFuncOp entry) {
  if (kernel.isPerTensor())
    return;
  createScratch();
  createKept();
  createSums();
  createColumns();
  findRowLoads();
}

void CPUKernelBuilder::buildTensor(const Chunk &tensor) {
  IRMapping mapping;
  StageBlock block(tensor, /*stage=*/0, Value(), Value(), tensor.planes,
                   mapping);
  buildBody(block);
}

void CPUKernelBuilder::buildLoop(Value begin, Value end, int64_t step,
                                 function_ref<void(Value)> build) {
  auto loop = scf::ForOp::create(
      builder, loc, begin, end, launch.i64(step), carried,
      [&](OpBuilder &, Location, Value index, ValueRange state) {
        carried.assign(state.begin(), state.end());
        build(index);
        scf::YieldOp::create(builder, loc, carried);
      });
  carried.assign(loop.getResults().begin(), loop.getResults().end());
}

void CPUKernelBuilder::buildChunk(LLVM::LLVMFuncOp entry, Chunk chunk,
                                  Value chunkIndex) {
  buildElements(
      entry, chunk,
      launch.getSlots(entry.getArgument(EntryArgument::workspace), chunkIndex));
}

void CPUKernelBuilder::buildTile(LLVM::LLVMFuncOp entry, const Chunk &tile) {
  auto rows = scf::ForOp::create(builder, loc, tile.firstRow, tile.endRow,
                                 launch.i64(1));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(rows.getBody()->getTerminator());
    Chunk row = launch.getRow(tile, rows.getInductionVar());
    loadRow(row);
    buildElements(entry, row, /*slots=*/Value());
  }
  storeColumns(tile);
}

void CPUKernelBuilder::findRowLoads() {
  if (!kernel.isAlongRows())
    return;
  for (Operation &op : kernel.getBodyBlock()) {
    auto total = dyn_cast<LoadReductionResultOp>(op);
    auto load = dyn_cast<LoadPlaneOp>(op);
    if ((total && total.getScope() == Granularity::row) ||
        (load && load.getElementsPerEntry() == Group::all &&
         !LaunchBuilder::isLoadedOnce(load)))
      rowLoads.insert(&op);
  }
}

void CPUKernelBuilder::loadRow(const Chunk &row) {
  if (rowLoads.empty())
    return;
  IRMapping mapping;
  StageBlock head(row, /*stage=*/0, row.begin, row.begin,
                  getPointers(row, row.begin), mapping);
  for (Operation *op : rowLoads)
    buildStaged(head, op);
  ofRow = mapping;
}

void CPUKernelBuilder::buildElements(LLVM::LLVMFuncOp entry, const Chunk &chunk,
                                     Value slots) {
  for (Operation *op : carriers)
    carried.push_back(getIdentity(op));
  buildLoop(chunk.begin, chunk.end, stages.getTile(),
            [&](Value tile) { buildStages(chunk, tile); });
  storeSums(chunk, slots);
  storeCarried(entry, chunk, slots);
}

Value CPUKernelBuilder::getResult(const Chunk &chunk, Value slots,
                                  Operation *op) {
  auto partial = dyn_cast<PartialOp>(op);
  if (partial && partial.getScope() == Granularity::row)
    return launch.getPart(chunk, partial, chunk.row);
  return launch.getSlot(slots, op);
}

//===----------------------------------------------------------------------===//
// Flags, maxima and minima
//===----------------------------------------------------------------------===//

Value CPUKernelBuilder::getIdentity(Operation *op) {
  SequenceBuilder b(builder, loc);
  Type type = op->getOperand(0).getType();
  auto partial = dyn_cast<PartialOp>(op);
  return partial ? buildIdentity(b, partial.getKind(), type) : b.zero(type);
}

/// Combines the lanes of this block with those of the blocks before it.
void CPUKernelBuilder::carry(StageBlock &block, Operation *op) {
  SequenceBuilder b(builder, loc);
  Value &before = carried[llvm::find(carriers, op) - carriers.begin()];
  Value value = block.mapping.lookup(op->getOperand(0));
  auto partial = dyn_cast<PartialOp>(op);
  if (width > 1 && (partial || mayHoldInPadding(cast<SetFlagOp>(op))))
    value =
        b.select(laneExists(block), lanes.inOrder(b, value), getIdentity(op));
  before = partial ? buildJoin(b, partial.getKind(), before, value)
                   : b.ori(before, value);
}

/// Reduces the lanes of a carried value.
static Value joinLanes(SequenceBuilder &b, Operation *op, Value lanes) {
  if (auto partial = dyn_cast<PartialOp>(op))
    return buildExtreme(b, partial.getKind(), lanes);
  return vector::ReductionOp::create(b.builder, b.loc,
                                     vector::CombiningKind::OR, lanes);
}

void CPUKernelBuilder::storeCarried(LLVM::LLVMFuncOp entry, const Chunk &chunk,
                                    Value slots) {
  SequenceBuilder b(builder, loc);
  for (auto [op, value] : llvm::zip(carriers, carried)) {
    if (isa<VectorType>(value.getType()))
      value = joinLanes(b, op, value);
    if (auto setFlag = dyn_cast<SetFlagOp>(op))
      storeFlag(entry, setFlag, value);
    else
      LLVM::StoreOp::create(builder, loc, value, getResult(chunk, slots, op));
  }
}

void CPUKernelBuilder::storeFlag(LLVM::LLVMFuncOp entry, SetFlagOp op,
                                 Value condition) {
  SequenceBuilder b(builder, loc);
  auto branch = scf::IfOp::create(builder, loc, condition);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Value flags = launch.load(entry.getArgument(EntryArgument::flags),
                            builder.getI32Type());
  LLVM::StoreOp::create(
      builder, loc, b.ori(flags, b.like(flags, uint64_t(1) << op.getFlag())),
      entry.getArgument(EntryArgument::flags));
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

void CPUKernelBuilder::createSums() {
  SequenceBuilder b(builder, loc);
  for (Operation &op : kernel.getBodyBlock()) {
    auto partial = dyn_cast<PartialOp>(op);
    if (partial && partial.isDownColumns())
      continue;
    if (isa<MetricOp>(op) || (partial && getReduction(partial).isSum())) {
      sums.insert({&op, BlockSum(launch, b, op.getOperand(0).getType())});
    } else if (partial || isa<SetFlagOp>(op)) {
      carriers.push_back(&op);
    }
  }
}

void CPUKernelBuilder::addToReduction(StageBlock &block, Operation *op) {
  if (sums.contains(op))
    addToSum(block, op);
  else
    carry(block, op);
}

void CPUKernelBuilder::addToSum(StageBlock &block, Operation *op) {
  SequenceBuilder b(builder, loc);
  Value value = lanes.inOrder(b, block.mapping.lookup(op->getOperand(0)));
  if (width > 1)
    value = b.select(laneExists(block), value, b.real(value.getType(), -0.0));
  Value offset = b.subi(block.index, block.chunk.begin);
  sums.find(op)->second.add(b, value, b.shr(offset, llvm::Log2_64(width)));
}

void CPUKernelBuilder::storeSums(const Chunk &chunk, Value slots) {
  if (sums.empty())
    return;
  SequenceBuilder b(builder, loc);
  Value size = b.subi(chunk.end, chunk.begin);
  Value blocks =
      b.shr(b.addi(size, launch.i64(width - 1)), llvm::Log2_64(width));
  for (auto &[op, sum] : sums) {
    Value total = sum.getTotal(b, blocks);
    LLVM::StoreOp::create(builder, loc, total, getResult(chunk, slots, op));
  }
}

//===----------------------------------------------------------------------===//
// Columns
//===----------------------------------------------------------------------===//

static constexpr int64_t entryBytes = 4;

void CPUKernelBuilder::createColumns() {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto allocate = [&](int64_t entries) -> Value {
    return LLVM::AllocaOp::create(builder, loc, pointer, builder.getI32Type(),
                                  launch.i64(entries), /*alignment=*/64);
  };
  for (auto op : kernel.getBodyBlock().getOps<PartialOp>()) {
    if (!op.isDownColumns())
      continue;
    bool isSum = op.getKind() == ReduceKind::sum;
    int64_t levels =
        isSum ? llvm::Log2_64(getMaxTileRows(kernel, maxTileRowsOfCPU)) + 1 : 1;
    columns[op] = allocate(levels * maxTileColumns);
  }
  if (!columns.empty())
    columnScratch = allocate(width);
}

TreeSum CPUKernelBuilder::getColumnSum(PartialOp op, Value offset) {
  return TreeSum(launch, launch.advance(columns[op], offset, entryBytes),
                 op.getValue().getType(), maxTileColumns * entryBytes);
}

void CPUKernelBuilder::addToColumns(StageBlock &block, PartialOp op) {
  SequenceBuilder b(builder, loc);
  const Chunk &row = block.chunk;
  Value value = lanes.inOrder(b, block.mapping.lookup(op.getValue()));
  Value offset = b.subi(block.index, row.begin);
  if (op.getKind() == ReduceKind::sum)
    return getColumnSum(op, offset)
        .addBlock(b, value, b.subi(row.row, row.firstRow));
  // Lanes past the last column belong to no block.
  if (op.getScope() == Granularity::block && width > 1)
    value = b.select(laneExists(block), value, getIdentity(op));
  Value place = launch.advance(columns[op], offset, entryBytes);
  Value isFirst = b.compare(arith::CmpIPredicate::eq, row.row, row.firstRow);
  Value before =
      b.select(isFirst, getIdentity(op),
               launch.load(place, value.getType(), /*offset=*/0, entryBytes));
  LLVM::StoreOp::create(builder, loc, buildJoin(b, op.getKind(), before, value),
                        place, entryBytes);
}

void CPUKernelBuilder::storeColumns(const Chunk &tile) {
  bool hasColumns = false;
  for (auto [op, place] : columns) {
    auto partial = cast<PartialOp>(op);
    if (partial.getScope() == Granularity::block)
      storeBlocks(tile, partial);
    hasColumns |= partial.getScope() == Granularity::column;
  }
  if (!hasColumns)
    return;
  auto loop =
      scf::ForOp::create(builder, loc, tile.begin, tile.end, launch.i64(width));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  for (auto [op, place] : columns)
    if (cast<PartialOp>(op).getScope() == Granularity::column)
      storeColumn(tile, cast<PartialOp>(op), loop.getInductionVar());
}

void CPUKernelBuilder::storeBlocks(const Chunk &tile, PartialOp op) {
  auto loop = scf::ForOp::create(builder, loc, tile.begin, tile.end,
                                 launch.i64(kernel.getBlockSize()));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  Value first = loop.getInductionVar();
  Value result = reduceBlock(tile, op, first);
  Value place = launch.getBlockNumber(tile, tile.firstRow, first);
  LLVM::StoreOp::create(builder, loc, result,
                        launch.getAxisTotal(tile, op.getIndex(), place));
}

Value CPUKernelBuilder::reduceBlock(const Chunk &tile, PartialOp op,
                                    Value first) {
  SequenceBuilder b(builder, loc);
  Value end = arith::MinSIOp::create(
      builder, loc, b.addi(first, launch.i64(kernel.getBlockSize())), tile.end);
  auto loop = scf::ForOp::create(
      builder, loc, first, end, launch.i64(width), getIdentity(op),
      [&](OpBuilder &, Location, Value index, ValueRange state) {
        Value place =
            launch.advance(columns[op], b.subi(index, tile.begin), entryBytes);
        Value next = launch.load(place, op.getValue().getType(), /*offset=*/0,
                                 entryBytes);
        scf::YieldOp::create(builder, loc,
                             buildJoin(b, op.getKind(), state[0], next));
      });
  if (width == 1)
    return loop.getResult(0);
  return buildExtreme(b, op.getKind(), loop.getResult(0));
}

/// Stores the entries of a block except those past the last column, which
/// belong to another tile.
void CPUKernelBuilder::storeColumn(const Chunk &tile, PartialOp op,
                                   Value index) {
  SequenceBuilder b(builder, loc);
  Value offset = b.subi(index, tile.begin);
  Value total =
      op.getKind() == ReduceKind::sum
          ? getColumnSum(op, offset)
                .getTotal(b, b.subi(tile.endRow, tile.firstRow))
          : launch.load(launch.advance(columns[op], offset, entryBytes),
                        op.getValue().getType(), /*offset=*/0, entryBytes);
  LLVM::StoreOp::create(builder, loc, total, columnScratch, entryBytes);
  Value left = b.subi(tile.end, index);
  Value count = arith::MinSIOp::create(builder, loc, left, launch.i64(width));
  Value bytes = b.muli(count, launch.i64(entryBytes));
  LLVM::MemcpyOp::create(builder, loc, launch.getPart(tile, op, index),
                         columnScratch, bytes, /*isVolatile=*/false);
}

/// Allocates memory for the values that one stage passes to later ones.
void CPUKernelBuilder::createKept() {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto allocate = [&](Value value, Type type, int64_t count) {
    kept[value] = LLVM::AllocaOp::create(builder, loc, pointer, type,
                                         launch.i64(count), /*alignment=*/64);
  };
  for (Value value : stages.getKept())
    allocate(value, value.getType(), stages.getTile() / width);
  for (auto reduce : kernel.getBodyBlock().getOps<ReduceOp>())
    if (stages.isBoundary(reduce))
      allocate(reduce, reduce.getType(),
               stages.getTile() / int64_t(reduce.getGroup()));
}

void CPUKernelBuilder::buildStages(const Chunk &chunk, Value tile) {
  IRMapping shared = ofRow;
  if (stages.getCount() == 1)
    return buildBlock(chunk, /*stage=*/0, tile, tile, shared);
  SequenceBuilder b(builder, loc);
  Value end = arith::MinSIOp::create(
      builder, loc, b.addi(tile, launch.i64(stages.getTile())), chunk.end);
  for (unsigned stage = 0; stage < stages.getCount(); ++stage) {
    StageBlock head(chunk, stage, tile, tile, getPointers(chunk, tile), shared);
    buildBody(head, /*isShared=*/true);
    buildLoop(tile, end, width, [&](Value index) {
      buildBlock(chunk, stage, tile, index, shared);
    });
  }
}

SmallVector<Value> CPUKernelBuilder::getPointers(const Chunk &chunk,
                                                 Value index) {
  return llvm::map_to_vector(
      llvm::seq<unsigned>(0, planes.size()), [&](unsigned plane) -> Value {
        return planes[plane].isUsed() ? launch.addressOf(chunk, plane, index)
                                      : Value();
      });
}

/// Builds a block. A full block accesses the planes, a partial block a copy of
/// its elements.
void CPUKernelBuilder::buildBlock(const Chunk &chunk, unsigned stage,
                                  Value tile, Value index,
                                  const IRMapping &shared) {
  IRMapping mapping = shared;
  StageBlock block(chunk, stage, tile, index, getPointers(chunk, index),
                   mapping);
  if (width == 1)
    return buildBody(block);
  if (stage == 0)
    prefetch(block.pointers);
  SequenceBuilder b(builder, loc);
  Value count = b.subi(chunk.end, index);
  Value isPartial =
      b.compare(arith::CmpIPredicate::slt, count, launch.i64(width));
  auto conditionally = [&](auto build) {
    auto branch = scf::IfOp::create(builder, loc, isPartial);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    build();
  };
  SmallVector<Value> whole = block.pointers;
  if (stage == 0)
    conditionally([&] { copyTail(whole, count, /*toScratch=*/true); });
  for (auto [pointer, copy, plane] : llvm::zip(block.pointers, scratch, planes))
    if (plane.isStreamed())
      pointer = LLVM::SelectOp::create(builder, loc, isPartial, copy, pointer);
  buildBody(block);
  if (stage + 1 == stages.getCount())
    conditionally([&] { copyTail(whole, count, /*toScratch=*/false); });
}

void CPUKernelBuilder::prefetch(ArrayRef<Value> pointers) {
  for (auto [pointer, plane] : llvm::zip(pointers, planes)) {
    if (!plane.isStreamed())
      continue;
    for (int64_t line = 0; line < width * plane.bytes; line += lineBytes) {
      LLVM::GEPArg offset(int32_t(prefetchBytes + line));
      Value address = LLVM::GEPOp::create(builder, loc, pointer.getType(),
                                          builder.getI8Type(), pointer,
                                          ArrayRef<LLVM::GEPArg>{offset});
      LLVM::Prefetch::create(builder, loc, address, /*rw=*/0, /*hint=*/3,
                             /*cache=*/1);
    }
  }
}

void CPUKernelBuilder::copyTail(ArrayRef<Value> pointers, Value count,
                                bool toScratch) {
  SequenceBuilder b(builder, loc);
  for (auto [pointer, block, plane] : llvm::zip(pointers, scratch, planes)) {
    if (!plane.isStreamed() || (toScratch ? !plane.isRead : !plane.isWritten))
      continue;
    if (toScratch) {
      // Lanes past the end compute with zeros, and their results are dropped.
      Value zeros = b.integer(VectorType::get({width}, plane.bits), 0);
      LLVM::StoreOp::create(builder, loc, zeros, block, /*alignment=*/64);
    }
    Value bytes = b.muli(count, launch.i64(plane.bytes));
    LLVM::MemcpyOp::create(builder, loc, toScratch ? block : pointer,
                           toScratch ? pointer : block, bytes,
                           /*isVolatile=*/false);
  }
}

Value CPUKernelBuilder::laneExists(const StageBlock &block) {
  SequenceBuilder b(builder, loc);
  Type i32 = builder.getI32Type();
  Value count = arith::MinSIOp::create(
      builder, loc, b.subi(block.chunk.end, block.index), launch.i64(width));
  auto type = VectorType::get({width}, i32);
  Value limit =
      vector::BroadcastOp::create(builder, loc, type, b.resize(count, i32));
  Value numbers = buildLaneNumbers(b, type);
  return b.compare(arith::CmpIPredicate::slt, numbers, limit);
}

void CPUKernelBuilder::buildBody(StageBlock &block, bool isShared) {
  launch.mapShared(block.chunk, block.mapping);
  for (Operation *op : order) {
    bool isHere = stages.getStage(op) == block.stage &&
                  stages.isShared(op) == isShared && !rowLoads.contains(op);
    bool isUniform = op->getNumResults() && stages.isUniform(op->getResult(0));
    if (isHere && !isUniform)
      buildStaged(block, op);
  }
}

void CPUKernelBuilder::buildStaged(StageBlock &block, Operation *op) {
  for (Value operand : op->getOperands())
    provide(block, operand);
  buildOperation(block, op);
  for (Value result : op->getResults())
    if (stages.isKept(result))
      LLVM::StoreOp::create(builder, loc, block.mapping.lookup(result),
                            getKeptSlot(block, result));
}

void CPUKernelBuilder::buildArithmetic(StageBlock &block, Operation *op) {
  SequenceBuilder b(builder, loc);
  auto &mapping = block.mapping;
  auto define = [&](Value value) { mapping.map(op->getResult(0), value); };
  if (auto lookup = dyn_cast<LookupOp>(op))
    define(buildLookup(
        b, lookup, llvm::map_to_vector(lookup.getIndices(), [&](Value index) {
          return mapping.lookup(index);
        })));
  else if (lanes.isExtension(op))
    define(lanes.extend(b, mapping.lookup(op->getOperand(0))));
  else if (lanes.isTruncation(op))
    define(lanes.truncate(b, mapping.lookup(op->getOperand(0))));
  else
    builder.clone(*op, mapping);
}

Value CPUKernelBuilder::buildLoad(StageBlock &block, LoadPlaneOp op) {
  unsigned plane = planeOf(op);
  return LLVM::LoadOp::create(builder, loc, op.getType(), block.pointers[plane],
                              planes[plane].bytes);
}

void CPUKernelBuilder::buildStore(StageBlock &block, StorePlaneOp op) {
  SequenceBuilder b(builder, loc);
  unsigned plane = planeOf(op);
  Value value = block.mapping.lookup(op.getValue());
  if (planes[plane].isTransposed && width > 1)
    storeTransposed(b, launch, block.chunk, plane, block.index, value,
                    scratch[plane]);
  else
    LLVM::StoreOp::create(builder, loc, value, block.pointers[plane],
                          planes[plane].bytes);
}

void CPUKernelBuilder::provide(StageBlock &block, Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || block.mapping.contains(value))
    return;
  if (stages.isKept(value) || stages.isBoundary(op)) {
    block.mapping.map(value, LLVM::LoadOp::create(builder, loc, value.getType(),
                                                  getKeptSlot(block, value))
                                 .getResult());
  } else {
    for (Value operand : op->getOperands())
      provide(block, operand);
    builder.clone(*op, block.mapping);
  }
}

/// Returns the index of the block's group in the tile.
Value CPUKernelBuilder::getOffset(const StageBlock &block, int64_t group) {
  SequenceBuilder b(builder, loc);
  return b.shr(b.subi(block.index, block.tile), llvm::Log2_64(group));
}

Value CPUKernelBuilder::getKeptSlot(const StageBlock &block, Value value) {
  auto reduce = value.getDefiningOp<ReduceOp>();
  Type type = value.getType();
  Value offset = getOffset(block, reduce ? int64_t(reduce.getGroup()) : width);
  return LLVM::GEPOp::create(builder, loc, kept[value].getType(), type,
                             kept[value], ValueRange{offset});
}

/// Reduces the elements of this block and of the earlier blocks of its group.
void CPUKernelBuilder::buildReduce(StageBlock &block, ReduceOp op) {
  SequenceBuilder b(builder, loc);
  ReduceKind kind = op.getKind();
  Value value = block.mapping.lookup(op.getValue());
  if (width > 1) {
    Value exists = laneExists(block);
    value = b.select(exists, value, buildIdentity(b, kind, value.getType()));
    value = buildExtreme(b, kind, value);
  }
  if (!stages.isBoundary(op)) {
    block.mapping.map(op.getResult(), value);
    return;
  }
  Value slot = getKeptSlot(block, op);
  Value inGroup =
      b.andi(b.subi(block.index, block.tile), launch.i64(op.getGroup() - 1));
  Value isFirst = b.compare(arith::CmpIPredicate::eq, inGroup, launch.i64(0));
  Value before = b.select(isFirst, buildIdentity(b, kind, value.getType()),
                          launch.load(slot, op.getType()));
  LLVM::StoreOp::create(builder, loc, buildJoin(b, kind, before, value), slot);
}

namespace {
struct ConvertTandemToCPUPass
    : public tandem::impl::ConvertTandemToCPUBase<ConvertTandemToCPUPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(verifyLowered(module)))
      return signalPassFailure();
    for (auto step : llvm::make_early_inc_range(module.getOps<StepOp>())) {
      for (LaunchOp launch : step.getLaunchOps()) {
        OpBuilder builder(step);
        CPUKernelBuilder(launch, builder).build();
      }
      numKernels += llvm::range_size(step.getLaunchOps());
      step.erase();
    }
    if (failed(verifyStack(module)))
      signalPassFailure();
  }
};
} // namespace
