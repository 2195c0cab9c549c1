//===- Steps.cpp - What a thread does with its elements -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a step of a kernel: a thread loads, computes and stores
// some consecutive elements.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "PackedWords.h"
#include "WarpReduce.h"
#include "tandem/Conversion/PackedCodes.h"
#include "tandem/Conversion/PaddingLanes.h"

using namespace mlir;
using namespace tandem;

/// The bytes of the widest memory access.
static constexpr int64_t accessBytes = 16;

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

/// Returns the same comparison in 32 bits. LLVM merges several comparisons into
/// one of an extreme of their operands, and ptxas miscompiles extremes of
/// 16-bit integers (lib/Target/PTX/ForbiddenIdioms.cpp).
static Value compareIn32Bits(SequenceBuilder &b, Value condition) {
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  if (!compare)
    return condition;
  auto narrow = cast<VectorType>(compare.getLhs().getType());
  if (narrow.getElementTypeBitWidth() > 16)
    return condition;
  bool isSigned = compare.getPredicate() >= arith::CmpIPredicate::slt &&
                  compare.getPredicate() <= arith::CmpIPredicate::sge;
  Type type = narrow.clone(b.builder.getI32Type());
  auto extend = [&](Value value) -> Value {
    if (isSigned)
      return arith::ExtSIOp::create(b.builder, b.loc, type, value);
    return arith::ExtUIOp::create(b.builder, b.loc, type, value);
  };
  Value right = extend(compare.getRhs());
  return b.compare(compare.getPredicate(), extend(compare.getLhs()), right);
}

Value NVVMKernelBuilder::anyExisting(const Chunk &chunk, Value index,
                                     SetFlagOp setFlag) {
  SequenceBuilder b(builder, loc);
  Value condition = compareIn32Bits(b, mapping.lookup(setFlag.getCondition()));
  if (mayHoldInPadding(setFlag))
    condition = b.andi(condition, lanesExist(chunk, index));
  return vector::ReductionOp::create(builder, loc, vector::CombiningKind::OR,
                                     condition);
}

void NVVMKernelBuilder::buildStep(const Chunk &chunk, Value index,
                                  Value isAligned) {
  SequenceBuilder b(builder, loc);
  Value left = countLeft(chunk, index);
  Value isWhole =
      b.compare(arith::CmpIPredicate::sge, left, b.like(left, width));
  Value isWide = b.andi(isWhole, isAligned);
  launch.mapShared(chunk, mapping);
  addresses.assign(planes.size(), Value());
  for (auto [plane, info] : llvm::enumerate(planes))
    if (info.isUsed())
      addresses[plane] = addressOf(chunk, plane, index);
  SmallVector<Value> loaded = buildLoads(chunk, index, isWide);
  for (auto [op, value] : llvm::zip(loads, loaded))
    mapping.map(op.getResult(), value);
  BodyBlock block{chunk, index, mapping};
  for (Operation &op : kernel.getBodyBlock().without_terminator())
    if (!isa<LoadPlaneOp, StorePlaneOp, ReductionResultOp, SizeOp>(op))
      buildOperation(block, &op);
  buildStores(chunk, index, isWide);
  buildSharedStores(chunk, index);
}

void NVVMKernelBuilder::addToColumns(BodyBlock &block, PartialOp op) {
  Value value = mapping.lookup(op.getValue());
  bool isOfBlock = op.getScope() == Granularity::block;
  ofColumns.push_back(
      isOfBlock ? reduceExisting(block.chunk, block.index, value, op.getKind())
                : value);
}

/// Computes this thread's part of a metric or a partial.
void NVVMKernelBuilder::addToReduction(BodyBlock &block, Operation *op) {
  SequenceBuilder b(builder, loc);
  Value value = mapping.lookup(op->getOperand(0));
  Reduction reduction = getReduction(op);
  if (reduction.isSum())
    summands.push_back(
        sumLanes(b, value, countLanes(block.chunk, block.index)));
  else
    extremes.push_back(
        reduceExisting(block.chunk, block.index, value, reduction.kind));
}

void NVVMKernelBuilder::setFlag(BodyBlock &block, SetFlagOp op) {
  flagsByStep.push_back(anyExisting(block.chunk, block.index, op));
}

Value NVVMKernelBuilder::getReadIndex(BodyBlock &block) {
  SequenceBuilder b(builder, loc);
  return b.select(laneExists(block.chunk, block.index, 0), block.index,
                  block.chunk.begin);
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
  scf::YieldOp::create(builder, loc, loadWide());
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, loadLanes(chunk, index));
  builder.setInsertionPointAfter(branch);
  SmallVector<Value> loaded(branch.getResults());
  extractRowCodes(chunk, loaded);
  return loaded;
}

/// The elements of a row share a code of a tensor with one per row.
void NVVMKernelBuilder::extractRowCodes(const Chunk &chunk,
                                        MutableArrayRef<Value> loaded) {
  SequenceBuilder b(builder, loc);
  for (auto [op, value] : llvm::zip(loads, loaded)) {
    int64_t packed = planes[planeOf(op)].packed;
    if (packed > 1 && !isa<VectorType>(value.getType()))
      value = extractPacked(b, value, chunk.row, packed);
  }
}

SmallVector<Value> NVVMKernelBuilder::loadWide() {
  return llvm::map_to_vector(loads, [&](LoadPlaneOp op) -> Value {
    unsigned plane = planeOf(op);
    if (planes[plane].packed > 1 && isa<VectorType>(op.getType()))
      return loadPacked(plane);
    return LLVM::LoadOp::create(builder, loc, op.getType(), addresses[plane],
                                getAlignment(plane));
  });
}

/// Returns the difference of two indices as an i32.
static Value countFrom(SequenceBuilder &b, Value first, Value index) {
  Type i32 = b.builder.getI32Type();
  Value subtrahend = b.resize(first, i32);
  return b.subi(b.resize(index, i32), subtrahend);
}

/// The difference fits into 32 bits, since the index is at most one step past
/// the end of its chunk.
Value NVVMKernelBuilder::countLeft(const Chunk &chunk, Value index) {
  SequenceBuilder b(builder, loc);
  return countFrom(b, index, chunk.end);
}

Value NVVMKernelBuilder::countLanes(const Chunk &chunk, Value index) {
  SequenceBuilder b(builder, loc);
  Value left = countLeft(chunk, index);
  return arith::MinSIOp::create(builder, loc, left, b.like(left, width));
}

/// Adds an offset of 32 bits to an address that is the same in all steps, which
/// takes one instruction.
Value NVVMKernelBuilder::addressOf(const Chunk &chunk, unsigned plane,
                                   Value index) {
  // A plane with one entry for a row or a tensor has no group within a chunk.
  bool isOneEntry = planes[plane].group > TDM_LAUNCH_CHUNK_ELEMENTS;
  if (planes[plane].isTransposed || isOneEntry)
    return launch.addressOf(chunk, plane, index);
  int64_t group = planes[plane].group * planes[plane].packed;
  SequenceBuilder b(builder, loc);
  Value first = group > 1 ? b.andi(chunk.begin, b.like(chunk.begin, -group))
                          : chunk.begin;
  Value offset = countFrom(b, first, index);
  if (group > 1)
    offset = b.shr(offset, llvm::Log2_64(group));
  offset = b.resize(offset, builder.getI64Type());
  return launch.advance(launch.addressOf(chunk, plane, chunk.begin), offset,
                        planes[plane].bytes);
}

Value NVVMKernelBuilder::laneExists(const Chunk &chunk, Value index,
                                    int64_t lane) {
  SequenceBuilder b(builder, loc);
  Value count = countLanes(chunk, index);
  return b.compare(arith::CmpIPredicate::sgt, count, b.like(count, lane));
}

void NVVMKernelBuilder::forExistingLanes(
    const Chunk &chunk, Value index, function_ref<void(Value, int64_t)> build) {
  SequenceBuilder b(builder, loc);
  for (int64_t lane = 0; lane < width; ++lane) {
    auto exists =
        scf::IfOp::create(builder, loc, laneExists(chunk, index, lane));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(exists.thenBlock());
    build(b.addi(index, launch.i64(lane)), lane);
  }
}

/// Loads elements one by one, each only if it exists.
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
          addressOf(chunk, plane, position), planes[plane].bytes);
      if (planes[plane].packed > 1 && !isShared)
        element =
            extractPacked(b, element, launch.i64(lane), planes[plane].packed);
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
    if (!planes[plane].isStreamed())
      continue;
    Value value = mapping.lookup(op.getValue());
    if (planes[plane].packed > 1)
      value = packCodes(b, value);
    LLVM::StoreOp::create(builder, loc, value, addresses[plane],
                          getAlignment(plane));
  }
  builder.setInsertionPointToStart(branch.elseBlock());
  storeExisting(chunk, index);
}

/// Stores elements one by one, each only if it exists.
void NVVMKernelBuilder::storeExisting(const Chunk &chunk, Value index) {
  SmallVector<Value> entries =
      llvm::map_to_vector(stores, [&](StorePlaneOp op) {
        Value values = mapping.lookup(op.getValue());
        return planes[planeOf(op)].packed > 1
                   ? packExisting(chunk, index, values)
                   : values;
      });
  forExistingLanes(chunk, index, [&](Value position, int64_t lane) {
    for (auto [op, values] : llvm::zip(stores, entries)) {
      StorePlaneOp store = op;
      unsigned plane = planeOf(store);
      int64_t packed = planes[plane].packed;
      if (!planes[plane].isStreamed() || lane % packed != 0)
        continue;
      Value element =
          vector::ExtractOp::create(builder, loc, values, lane / packed);
      LLVM::StoreOp::create(builder, loc, element,
                            addressOf(chunk, plane, position),
                            planes[plane].bytes);
    }
  });
}

int64_t NVVMKernelBuilder::getAlignment(unsigned plane) const {
  int64_t entries = planes[plane].group > 1 ? 1 : width / planes[plane].packed;
  return std::min<int64_t>(accessBytes, entries * planes[plane].bytes);
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
                          addresses[plane], getAlignment(plane));
  }
}

void NVVMKernelBuilder::buildReduce(BodyBlock &block, ReduceOp op) {
  SequenceBuilder b(builder, loc);
  Value value = mapping.lookup(op.getValue());
  if (op.getKind() == ReduceKind::max && isZeroInPadding(op, op.getValue()))
    value = buildExtreme(b, op.getKind(), value);
  else
    value = reduceExisting(block.chunk, block.index, value, op.getKind());
  value = reduceLanes(
      b, value, int64_t(op.getGroup()) / width,
      [&](Value x, Value y) { return buildJoin(b, op.getKind(), x, y); });
  mapping.map(op.getResult(), value);
}

Value NVVMKernelBuilder::lanesExist(const Chunk &chunk, Value index) {
  SequenceBuilder b(builder, loc);
  Value lanes =
      buildLaneNumbers(b, VectorType::get({width}, builder.getI32Type()));
  return buildLaneMask(b, lanes, countLanes(chunk, index));
}

Value NVVMKernelBuilder::reduceExisting(const Chunk &chunk, Value index,
                                        Value value, ReduceKind kind) {
  SequenceBuilder b(builder, loc);
  value = b.select(lanesExist(chunk, index), value,
                   buildIdentity(b, kind, value.getType()));
  return buildExtreme(b, kind, value);
}
