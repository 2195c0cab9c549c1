//===- Blocks.cpp - Blocks of elements on CPUs ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements what a kernel's function for CPUs does with a block of
// elements.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "Tables.h"
#include "TransposedStore.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "tandem/Conversion/PackedCodes.h"
#include "tandem/Conversion/PaddingLanes.h"
#include "tandem/Conversion/Reductions.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

using namespace mlir;
using namespace tandem;

/// The distance by which prefetches run ahead and the size of a cache line, in
/// bytes.
static constexpr int64_t prefetchBytes = 1024, lineBytes = 64;

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
    buildBody(&head, /*isShared=*/true);
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
    return buildBody(&block);
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
  buildBody(&block);
  if (stage + 1 == stages.getCount())
    conditionally([&] { copyTail(whole, count, /*toScratch=*/false); });
}

bool CPUKernelBuilder::computesPairs() {
  return inPairs && width > 1 && stages.getCount() == 1 &&
         !kernel.getBodyBlock().getOps<ReduceOp>().empty();
}

void CPUKernelBuilder::buildPair(const Chunk &chunk, Value index) {
  SequenceBuilder b(builder, loc);
  Value next = b.addi(index, launch.i64(width));
  IRMapping firstMapping = ofRow, secondMapping = ofRow;
  StageBlock first(chunk, /*stage=*/0, index, index, getPointers(chunk, index),
                   firstMapping);
  StageBlock second(chunk, /*stage=*/0, next, next, getPointers(chunk, next),
                    secondMapping);
  for (StageBlock *block : {&first, &second}) {
    block->isFull = true;
    prefetch(block->pointers);
  }
  buildBody({&first, &second});
}

void CPUKernelBuilder::prefetch(ArrayRef<Value> pointers) {
  for (auto [pointer, plane] : llvm::zip(pointers, planes)) {
    if (!plane.isStreamed())
      continue;
    int64_t bytes = width * plane.bytes / plane.packed;
    for (int64_t line = 0; line < bytes; line += lineBytes) {
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
    Value bytes = plane.packed > 1 ? countPackedBytes(b, count, plane.packed)
                                   : b.muli(count, launch.i64(plane.bytes));
    if (plane.packed > 1 && !toScratch)
      clearPadding(block, count, plane.packed);
    LLVM::MemcpyOp::create(builder, loc, toScratch ? block : pointer,
                           toScratch ? pointer : block, bytes,
                           /*isVolatile=*/false);
  }
}

Value CPUKernelBuilder::laneExists(const StageBlock &block) {
  SequenceBuilder b(builder, loc);
  Type i32 = builder.getI32Type();
  if (block.isFull)
    return b.integer(VectorType::get({width}, builder.getI1Type()), 1);
  Value count = arith::MinSIOp::create(
      builder, loc, b.subi(block.chunk.end, block.index), launch.i64(width));
  auto type = VectorType::get({width}, i32);
  Value limit =
      vector::BroadcastOp::create(builder, loc, type, b.resize(count, i32));
  Value numbers = buildLaneNumbers(b, type);
  return b.compare(arith::CmpIPredicate::slt, numbers, limit);
}

void CPUKernelBuilder::buildBody(ArrayRef<StageBlock *> blocks, bool isShared) {
  for (StageBlock *block : blocks)
    launch.mapShared(block->chunk, block->mapping);
  for (Operation *op : order) {
    bool isHere = stages.getStage(op) == blocks.front()->stage &&
                  stages.isShared(op) == isShared && !rowLoads.contains(op);
    bool isUniform = op->getNumResults() && stages.isUniform(op->getResult(0));
    if (!isHere || isUniform)
      continue;
    for (StageBlock *block : blocks)
      buildStaged(*block, op);
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
  if (planes[plane].packed > 1)
    return loadPacked(block, op);
  return LLVM::LoadOp::create(builder, loc, op.getType(), block.pointers[plane],
                              planes[plane].bytes);
}

void CPUKernelBuilder::buildStore(StageBlock &block, StorePlaneOp op) {
  SequenceBuilder b(builder, loc);
  unsigned plane = planeOf(op);
  Value value = block.mapping.lookup(op.getValue());
  if (planes[plane].packed > 1)
    storePacked(block, plane, value);
  else if (planes[plane].isTransposed && width > 1)
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
