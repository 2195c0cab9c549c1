//===- KernelBuilder.cpp - Kernels as functions for CPUs ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the loops of a kernel's function for CPUs over chunks,
// tiles and blocks.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

using namespace mlir;
using namespace tandem;

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
  buildBody(&block);
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
  SequenceBuilder b(builder, loc);
  for (Operation *op : carriers)
    carried.push_back(getIdentity(op));
  Value rest = chunk.begin;
  if (computesPairs()) {
    Value inPairs =
        b.andi(b.subi(chunk.end, chunk.begin), launch.i64(-2 * width));
    rest = b.addi(chunk.begin, inPairs);
    buildLoop(chunk.begin, rest, 2 * width,
              [&](Value index) { buildPair(chunk, index); });
  }
  buildLoop(rest, chunk.end, stages.getTile(),
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
