//===- Tiles.cpp - Tiles and bands of matrices ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the loops of a block of threads over the rows of a tile,
// and over the tiles of a band.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "Totals.h"
#include "WarpReduce.h"

using namespace mlir;
using namespace tandem;

Value NVVMKernelBuilder::getColumn(const Chunk &tile) {
  SequenceBuilder b(builder, loc);
  return b.addi(tile.begin, b.muli(thread, launch.i64(width)));
}

void NVVMKernelBuilder::buildBand(LLVM::LLVMFuncOp entry, Value bandIndex,
                                  bool isLast) {
  begin(getEntryName(kernel.getFunctionName()) + "_band_parts");
  SequenceBuilder b(builder, loc);
  Chunk band = launch.readTile(entry, bandIndex);
  Value columns = b.muli(threads, launch.i64(width));
  Value step = launch.i64(1), first = launch.i64(0);
  auto tiles = scf::ForOp::create(builder, loc, first, band.partsOfRow, step);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(tiles.getBody()->getTerminator());
    Value number = tiles.getInductionVar();
    Chunk tile = band;
    tile.begin = b.muli(number, columns);
    tile.end = arith::MinSIOp::create(builder, loc, band.columns,
                                      b.addi(tile.begin, columns));
    tile.rowParts = b.muli(number, band.rows);
    buildTile(entry, tile);
  }
  if (joinRows(band) || !isLast)
    NVVM::Barrier0Op::create(builder, loc);
}

bool NVVMKernelBuilder::joinRows(const Chunk &band) {
  SmallVector<PartialOp> ofRows;
  for (auto op : kernel.getBodyBlock().getOps<PartialOp>())
    if (op.getScope() == Granularity::row)
      ofRows.push_back(op);
  if (ofRows.empty())
    return false;
  SequenceBuilder b(builder, loc);
  NVVM::Barrier0Op::create(builder, loc);
  auto rows = scf::ForOp::create(builder, loc, b.addi(band.firstRow, thread),
                                 band.endRow, threads);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(rows.getBody()->getTerminator());
  for (PartialOp op : ofRows)
    joinParts(launch, b, band, op, rows.getInductionVar());
  return true;
}

void NVVMKernelBuilder::buildTile(LLVM::LLVMFuncOp entry, const Chunk &tile) {
  SequenceBuilder b(builder, loc);
  SmallVector<Value> initial(flagSetters.size(),
                             b.integer(builder.getI1Type(), false));
  size_t numGathered = getTransposedStores().size();
  initial.append(numGathered,
                 b.zero(VectorType::get({width}, builder.getI64Type())));
  llvm::append_range(initial, columns->getInitial(b));
  Value isGathered = numGathered ? canGather(tile) : Value();
  auto rows = scf::ForOp::create(
      builder, loc, tile.firstRow, tile.endRow, launch.i64(1), initial,
      [&](OpBuilder &, Location, Value row, ValueRange state) {
        scf::YieldOp::create(builder, loc,
                             buildRow(tile, row, isGathered, state));
      });
  storeFlags(entry, rows.getResults().take_front(flagSetters.size()));
  storeColumns(tile,
               rows.getResults().drop_front(flagSetters.size() + numGathered));
}

SmallVector<Value> NVVMKernelBuilder::buildRow(const Chunk &tile, Value row,
                                               Value isGathered,
                                               ValueRange state) {
  SequenceBuilder b(builder, loc);
  Chunk chunk = launch.getRow(tile, row);
  Value isAligned = prepareChunk(chunk);
  buildStep(chunk, getColumn(tile), isAligned);
  if (reductions)
    reductions->reduceStep(b, summands, extremes, [&](ArrayRef<Value> values) {
      for (auto [op, value] : llvm::zip(reduced, values))
        LLVM::StoreOp::create(
            builder, loc, value,
            toGlobal(launch.getPart(chunk, cast<PartialOp>(op), row)));
    });
  SmallVector<Value> next;
  for (auto [before, now] : llvm::zip(state, flagsByStep))
    next.push_back(b.ori(before, now));
  llvm::append_range(next,
                     storeTransposed(chunk, getColumn(tile), isGathered,
                                     state.drop_front(flagSetters.size())));
  llvm::append_range(next, columns->add(b, state.drop_front(next.size()),
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
    if (op.getScope() == Granularity::block)
      storeBlock(tile, index, op, total);
    else
      storeColumn(tile, index, op, total);
  }
}

void NVVMKernelBuilder::storeColumn(const Chunk &tile, Value index,
                                    PartialOp op, Value totals) {
  forExistingLanes(tile, index, [&](Value column, int64_t lane) {
    Value entry = vector::ExtractOp::create(builder, loc, totals, lane);
    LLVM::StoreOp::create(builder, loc, entry,
                          toGlobal(launch.getPart(tile, op, column)));
  });
}

void NVVMKernelBuilder::storeBlock(const Chunk &tile, Value index, PartialOp op,
                                   Value total) {
  SequenceBuilder b(builder, loc);
  total = reduceLanes(
      b, total, kernel.getBlockSize() / width,
      [&](Value x, Value y) { return buildJoin(b, op.getKind(), x, y); });
  Value inBlock = b.andi(index, launch.i64(kernel.getBlockSize() - 1));
  Value isFirst = b.compare(arith::CmpIPredicate::eq, inBlock, launch.i64(0));
  auto branch = scf::IfOp::create(builder, loc,
                                  b.andi(isFirst, laneExists(tile, index, 0)));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  Value place = launch.getAxisTotal(
      tile, op.getIndex(), launch.getBlockNumber(tile, tile.firstRow, index));
  LLVM::StoreOp::create(builder, loc, total, toGlobal(place));
}
