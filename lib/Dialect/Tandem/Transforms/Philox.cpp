//===- Philox.cpp - Counter-based random bits -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements Philox4x32-10 in integer arithmetic.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/Philox.h"

using namespace mlir;
using namespace mlir::tandem;

namespace {
struct Counter {
  Value words[4];
};
} // namespace

/// One round: two 32x32 -> 64 bit products, exclusive-or with the key.
static Counter philoxRound(SequenceBuilder &b, const Counter &c, Value key0,
                           Value key1) {
  auto multiply = [&](Value x, uint64_t constant) {
    auto op = arith::MulUIExtendedOp::create(b.builder, b.loc, x,
                                             b.like(x, constant));
    return std::make_pair(op.getLow(), op.getHigh());
  };
  auto [low0, high0] = multiply(c.words[0], 0xD2511F53);
  auto [low1, high1] = multiply(c.words[2], 0xCD9E8D57);
  return {{b.xori(b.xori(high1, c.words[1]), key0), low1,
           b.xori(b.xori(high0, c.words[3]), key1), low0}};
}

Value mlir::tandem::buildRandomBits(SequenceBuilder &b, RandomBitsOp op) {
  Type i32 = b.builder.getI32Type(), i64 = b.builder.getI64Type();
  Value element = ElementIndexOp::create(b.builder, b.loc, i64);
  Value group = b.shr(element, 3);
  Counter counter{{b.resize(group, i32), b.resize(b.shr(group, 32), i32),
                   TensorKeyOp::create(b.builder, b.loc, i32), op.getStep()}};
  Value key0 = op.getSeedLow(), key1 = op.getSeedHigh();
  for (unsigned round = 0; round < 10; ++round) {
    counter = philoxRound(b, counter, key0, key1);
    key0 = b.addi(key0, b.like(key0, 0x9E3779B9));
    key1 = b.addi(key1, b.like(key1, 0xBB67AE85));
  }
  // Which of the four words, and which half of it.
  Value lane = b.resize(element, i32);
  auto isSet = [&](unsigned bit) {
    Value masked = b.andi(lane, b.like(lane, bit));
    return b.compare(arith::CmpIPredicate::ne, masked, b.like(lane, 0));
  };
  Value second = isSet(2), third = isSet(4);
  Value low = b.select(second, counter.words[1], counter.words[0]);
  Value high = b.select(second, counter.words[3], counter.words[2]);
  Value word = b.select(third, high, low);
  return b.select(isSet(1), b.shr(word, 16),
                  b.andi(word, b.like(word, 0xFFFF)));
}
