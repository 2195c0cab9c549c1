//===- BlockSum.cpp - Sums over the blocks of a chunk ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the sum over a chunk's blocks of elements.
//
//===----------------------------------------------------------------------===//

#include "BlockSum.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tandem;
using arith::CmpIPredicate;

/// The maximum number of sums of a block, and the alignment of their vectors.
static constexpr int64_t maxLanes = 16;
static constexpr unsigned alignment = 64;

static Value allocate(LaunchBuilder &launch, SequenceBuilder &b, Type type,
                      int64_t count) {
  return LLVM::AllocaOp::create(
      b.builder, b.loc, LLVM::LLVMPointerType::get(b.builder.getContext()),
      type, launch.i64(count), alignment);
}

static Type limitLanes(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector || vector.getNumElements() <= maxLanes)
    return type;
  return VectorType::get({maxLanes}, vector.getElementType());
}

static int64_t getNumLanes(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

BlockSum::BlockSum(LaunchBuilder &launch, SequenceBuilder &b, Type block)
    : launch(launch), type(limitLanes(block)), lanes(getNumLanes(type)),
      tree(launch,
           allocate(launch, b, b.builder.getI64Type(), TreeSum::maxLevels),
           getElementTypeOrSelf(type)) {
  if (lanes > 1)
    batch = allocate(launch, b, type, lanes);
}

Value BlockSum::getSlot(SequenceBuilder &b, Value place) {
  return LLVM::GEPOp::create(b.builder, b.loc, batch.getType(), type, batch,
                             ValueRange{place});
}

/// Returns the position of a block in its batch.
Value BlockSum::getLowBits(SequenceBuilder &b, Value number) {
  return b.andi(number, launch.i64(lanes - 1));
}

void BlockSum::add(SequenceBuilder &b, Value block, Value number) {
  if (lanes == 1)
    return tree.addBlock(b, block, number);
  while (block.getType() != type)
    block = addNeighbours(b, block);
  Value place = getLowBits(b, number);
  LLVM::StoreOp::create(b.builder, b.loc, block, getSlot(b, place), alignment);
  auto branch = scf::IfOp::create(
      b.builder, b.loc,
      b.compare(CmpIPredicate::eq, place, launch.i64(lanes - 1)));
  OpBuilder::InsertionGuard guard(b.builder);
  b.builder.setInsertionPointToStart(branch.thenBlock());
  addBatch(b, b.shr(number, llvm::Log2_64(lanes)));
}

void BlockSum::addBatch(SequenceBuilder &b, Value number) {
  SmallVector<Value> vectors;
  for (int64_t place = 0; place < lanes; ++place)
    vectors.push_back(launch.load(getSlot(b, launch.i64(place)), type,
                                  /*offset=*/0, alignment));
  tree.addBlock(b, sumLanes(b, vectors), number);
}

/// Fills the blocks that the last batch lacks with -0.0.
void BlockSum::fillBatch(SequenceBuilder &b, Value begin) {
  Value step = launch.i64(1), end = launch.i64(lanes);
  auto loop = scf::ForOp::create(b.builder, b.loc, begin, end, step);
  OpBuilder::InsertionGuard guard(b.builder);
  b.builder.setInsertionPoint(loop.getBody()->getTerminator());
  LLVM::StoreOp::create(b.builder, b.loc, b.real(type, -0.0),
                        getSlot(b, loop.getInductionVar()), alignment);
}

Value BlockSum::getTotal(SequenceBuilder &b, Value blocks) {
  if (lanes == 1)
    return tree.getTotal(b, blocks);
  unsigned shift = llvm::Log2_64(lanes);
  Value left = getLowBits(b, blocks);
  auto branch = scf::IfOp::create(
      b.builder, b.loc, b.compare(CmpIPredicate::ne, left, launch.i64(0)));
  {
    OpBuilder::InsertionGuard guard(b.builder);
    b.builder.setInsertionPointToStart(branch.thenBlock());
    fillBatch(b, left);
    addBatch(b, b.shr(blocks, shift));
  }
  return tree.getTotal(b, b.shr(b.addi(blocks, launch.i64(lanes - 1)), shift));
}
