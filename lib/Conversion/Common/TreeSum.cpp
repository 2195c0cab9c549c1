//===- TreeSum.cpp - Sums as balanced trees -------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the generation of tree sums.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/TreeSum.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "tandem/Conversion/Reductions.h"

using namespace mlir;
using namespace tandem;
using arith::CmpIPredicate;

Value TreeSum::getLevel(Value level) {
  return launch.advance(stack, level, levelBytes);
}

unsigned TreeSum::getAlignment() const {
  return getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8;
}

Value TreeSum::loadLevel(Value level) {
  return launch.load(getLevel(level), type, /*offset=*/0, getAlignment());
}

static int64_t getNumLanes(Value vector) {
  return cast<VectorType>(vector.getType()).getNumElements();
}

/// Adds neighbours in the first `width` lanes of the concatenation of `first`
/// and `second`.
static Value addPairs(SequenceBuilder &b, Value first, Value second,
                      int64_t width) {
  SmallVector<int64_t> even, odd;
  for (int64_t lane = 0; lane < width; lane += 2) {
    even.push_back(lane);
    odd.push_back(lane + 1);
  }
  Value right = vector::ShuffleOp::create(b.builder, b.loc, first, second, odd);
  Value left = vector::ShuffleOp::create(b.builder, b.loc, first, second, even);
  return b.add(left, right);
}

Value tandem::addNeighbours(SequenceBuilder &b, Value vector) {
  return addPairs(b, vector, vector, getNumLanes(vector));
}

/// Returns one vector of sums, each over as many neighbours as there are
/// vectors.
static Value foldVectors(SequenceBuilder &b, ArrayRef<Value> vectors) {
  if (vectors.size() == 1)
    return vectors.front();
  size_t half = vectors.size() / 2;
  Value first = foldVectors(b, vectors.take_front(half));
  Value second = foldVectors(b, vectors.drop_front(half));
  return addPairs(b, first, second, 2 * getNumLanes(first));
}

Value tandem::sumLanes(SequenceBuilder &b, ArrayRef<Value> vectors) {
  Value value = foldVectors(b, vectors);
  while (getNumLanes(value) > 1)
    value = addNeighbours(b, value);
  return vector::ExtractOp::create(b.builder, b.loc, value, int64_t(0));
}

Value tandem::sumLanes(SequenceBuilder &b, Value value, Value count) {
  auto type = dyn_cast<VectorType>(value.getType());
  if (!type)
    return value;
  Value lanes = buildLaneNumbers(b, type.clone(count.getType()));
  Value exists = buildLaneMask(b, lanes, count);
  return sumLanes(b, b.select(exists, value, b.real(type, -0.0)));
}

void TreeSum::addBlock(SequenceBuilder &b, Value sum, Value block) {
  Value zero = launch.i64(0), one = launch.i64(1);
  // While the lowest bit of the block's number is set, the level is full.
  auto carry = scf::WhileOp::create(
      b.builder, b.loc,
      TypeRange{block.getType(), zero.getType(), sum.getType()},
      ValueRange{block, zero, sum},
      [&](OpBuilder &builder, Location loc, ValueRange state) {
        Value isFull =
            b.compare(CmpIPredicate::ne, b.andi(state[0], one), zero);
        scf::ConditionOp::create(builder, loc, isFull, state);
      },
      [&](OpBuilder &builder, Location loc, ValueRange state) {
        Value earlier = loadLevel(state[1]);
        scf::YieldOp::create(builder, loc,
                             ValueRange{b.shr(state[0], 1),
                                        b.addi(state[1], one),
                                        b.add(earlier, state[2])});
      });
  LLVM::StoreOp::create(b.builder, b.loc, carry.getResult(2),
                        getLevel(carry.getResult(1)), getAlignment());
}

Value TreeSum::getTotal(SequenceBuilder &b, Value blocks) {
  Value zero = launch.i64(0), one = launch.i64(1);
  Value start = b.real(type, -0.0);
  auto loop = scf::WhileOp::create(
      b.builder, b.loc,
      TypeRange{blocks.getType(), zero.getType(), start.getType()},
      ValueRange{blocks, zero, start},
      [&](OpBuilder &builder, Location loc, ValueRange state) {
        Value isLeft = b.compare(CmpIPredicate::ne, state[0], zero);
        scf::ConditionOp::create(builder, loc, isLeft, state);
      },
      [&](OpBuilder &builder, Location loc, ValueRange state) {
        Value isSet = b.compare(CmpIPredicate::ne, b.andi(state[0], one), zero);
        // The slot of an unset level may hold anything, but it is not selected.
        Value partial = loadLevel(state[1]);
        Value sum = b.select(isSet, b.add(partial, state[2]), state[2]);
        scf::YieldOp::create(
            builder, loc,
            ValueRange{b.shr(state[0], 1), b.addi(state[1], one), sum});
      });
  return loop.getResult(2);
}
