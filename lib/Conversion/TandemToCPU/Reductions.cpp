//===- Reductions.cpp - Results of many elements on CPUs ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements what a kernel's function for CPUs computes from all
// elements of a chunk, a row or a column: flags, extremes and sums.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/Reductions.h"
#include "KernelBuilder.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "tandem/Conversion/PaddingLanes.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

using namespace mlir;
using namespace tandem;

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
  if (width > 1 && (partial || mayHoldInPadding(cast<SetFlagOp>(op)))) {
    Value identity = getIdentity(op);
    value = lanes.inOrder(b, value);
    value = b.select(laneExists(block), value, identity);
  }
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
