//===- RandomBits.cpp - Counter-based random bits -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements Philox4x32-10 and dithered bits in integer arithmetic.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/RandomBits.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tandem;

static constexpr uint64_t lowWord = 0xFFFFFFFF;
/// The number of half-words per counter.
static constexpr int64_t groupSize = 8;

namespace {
/// Computes Philox for one counter in 32-bit words, or for consecutive counters
/// in vectors of 64-bit lanes whose low halves are the words. In such lanes a
/// product is one instruction, and the high halves are ignored.
class Philox {
public:
  Philox(SequenceBuilder &b, const RandomSource &source, int64_t counters)
      : b(b), source(source), counters(counters),
        wordType(counters == 1
                     ? Type(b.builder.getI32Type())
                     : VectorType::get({counters}, b.builder.getI64Type())) {}

  /// Returns the four words of the counters from `group`, an i64, on.
  SmallVector<Value> getWords(Value group);
  /// Returns the four of eight words that start after `halves` (less than 8)
  /// half-words.
  SmallVector<Value> shift(SmallVector<Value> words, Value halves);
  /// Returns the half-words of all counters in order, eight for each.
  Value spread(ArrayRef<Value> words);

private:
  Value splat(Value scalar);
  Value groups(Value first);
  std::pair<Value, Value> multiply(Value word, uint64_t constant);

  SequenceBuilder &b;
  const RandomSource &source;
  int64_t counters;
  Type wordType;
};
} // namespace

/// Converts a 32- or 64-bit number to a word, broadcast to all counters.
Value Philox::splat(Value scalar) {
  Value word = b.resize(scalar, getElementTypeOrSelf(wordType));
  if (counters == 1)
    return word;
  return vector::BroadcastOp::create(b.builder, b.loc, wordType, word);
}

Value Philox::groups(Value first) {
  if (counters == 1)
    return first;
  SmallVector<int64_t> lanes = llvm::to_vector(llvm::seq<int64_t>(counters));
  Value iota = arith::ConstantOp::create(
      b.builder, b.loc,
      DenseElementsAttr::get(cast<ShapedType>(wordType),
                             ArrayRef<int64_t>(lanes)));
  return b.addi(splat(first), iota);
}

/// Returns the low and the high word of a product.
std::pair<Value, Value> Philox::multiply(Value word, uint64_t constant) {
  if (counters == 1) {
    auto op = arith::MulUIExtendedOp::create(b.builder, b.loc, word,
                                             b.like(word, constant));
    return {op.getLow(), op.getHigh()};
  }
  Value product =
      b.muli(b.andi(word, b.like(word, lowWord)), b.like(word, constant));
  return {product, b.shr(product, 32)};
}

SmallVector<Value> Philox::getWords(Value group) {
  Value counter = groups(group);
  Type element = getElementTypeOrSelf(wordType);
  SmallVector<Value> c = {b.resize(counter, element),
                          b.resize(b.shr(counter, 32), element),
                          splat(source.tensorKey), splat(source.step)};
  Value key0 = source.seedLow, key1 = source.seedHigh;
  for (unsigned round = 0; round < 10; ++round) {
    auto [low0, high0] = multiply(c[0], 0xD2511F53);
    auto [low1, high1] = multiply(c[2], 0xCD9E8D57);
    Value keys0 = splat(key0);
    Value first = b.xori(b.xori(high1, c[1]), keys0);
    Value keys1 = splat(key1);
    Value third = b.xori(b.xori(high0, c[3]), keys1);
    c = {first, low1, third, low0};
    key0 = b.addi(key0, b.like(key0, 0x9E3779B9));
    key1 = b.addi(key1, b.like(key1, 0xBB67AE85));
  }
  return c;
}

SmallVector<Value> Philox::shift(SmallVector<Value> words, Value halves) {
  for (unsigned amount : {4, 2, 1}) {
    Value bit = b.andi(halves, b.like(halves, amount));
    Value isSet = b.compare(arith::CmpIPredicate::ne, bit, b.like(bit, 0));
    unsigned step = amount == 4 ? 2 : 1;
    SmallVector<Value> shifted;
    for (unsigned i = 0; i + step < words.size(); ++i) {
      Value later = words[i + step];
      if (amount == 1) {
        Value low = b.andi(words[i], b.like(words[i], lowWord));
        later = b.shl(later, 16);
        later = b.ori(b.shr(low, 16), later);
      }
      shifted.push_back(b.select(isSet, later, words[i]));
    }
    words = std::move(shifted);
  }
  words.truncate(4);
  return words;
}

Value Philox::spread(ArrayRef<Value> words) {
  Type i16 = b.builder.getIntegerType(16);
  auto type = VectorType::get({counters * groupSize}, i16);
  if (counters == 1) {
    auto four = VectorType::get({4}, wordType);
    Value all = vector::FromElementsOp::create(b.builder, b.loc, four, words);
    return vector::BitCastOp::create(b.builder, b.loc, type, all);
  }
  auto join = [&](Value low, Value high) {
    Value upper = b.shl(high, 32);
    return b.ori(b.andi(low, b.like(low, lowWord)), upper);
  };
  Value first = join(words[0], words[1]);
  Value second = join(words[2], words[3]);
  Value all = vector::InterleaveOp::create(b.builder, b.loc, first, second);
  return vector::BitCastOp::create(b.builder, b.loc, type, all);
}

Value tandem::buildRandomBits(SequenceBuilder &b, const RandomSource &source,
                              int64_t width) {
  int64_t counters = std::max<int64_t>(1, width / groupSize);
  Philox philox(b, source, counters);
  Value group = b.shr(source.start, 3);
  Value position = b.andi(source.start, b.like(source.start, groupSize - 1));
  Value isSplit =
      b.compare(arith::CmpIPredicate::ne, position, b.like(position, 0));
  SmallVector<Value> words = philox.getWords(group);
  SmallVector<Type> types(words.size(), words[0].getType());
  auto branch = scf::IfOp::create(b.builder, b.loc, types, isSplit,
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(b.builder);
    b.builder.setInsertionPointToStart(branch.thenBlock());
    SmallVector<Value> both = words;
    both.append(philox.getWords(b.addi(group, b.like(group, 1))));
    scf::YieldOp::create(b.builder, b.loc, philox.shift(both, position));
    b.builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b.builder, b.loc, words);
  }
  Value halves = philox.spread(SmallVector<Value>(branch.getResults()));
  if (width == 1)
    return vector::ExtractOp::create(b.builder, b.loc, halves, int64_t(0));
  if (width < groupSize)
    return vector::ExtractStridedSliceOp::create(
        b.builder, b.loc, halves, ArrayRef<int64_t>{0},
        ArrayRef<int64_t>{width}, ArrayRef<int64_t>{1});
  return halves;
}

//===----------------------------------------------------------------------===//
// Dithered bits
//===----------------------------------------------------------------------===//

/// The factor of an element's index in the dither. Among 60,000 random odd
/// numbers, it best separates neighbours in a column for common row lengths.
static constexpr uint64_t elementFactor = 0x6107DA4D;
/// 2^32 divided by the golden ratio.
static constexpr uint64_t goldenStep = 0x9E3779B9;
/// The multipliers 19, 23, 27 and 39 of a window's lattice, one per byte.
static constexpr uint64_t multipliers = 0x271B1713;
/// The second words of the counter. Stochastic rounding has the upper half of
/// an element's index there, which is smaller.
static constexpr uint64_t windowTag = 0x64697468, baseTag = 0x64697469;
/// The log2 of the number of steps in a window.
static constexpr unsigned windowBits = 6;

/// Returns the first word of Philox for a tensor's number and key, a tag and a
/// window.
static Value drawWord(SequenceBuilder &b, RandomSource source, unsigned number,
                      uint64_t tag, Value window) {
  source.step = window;
  Value counter = b.integer(b.builder.getI64Type(), tag << 32 | number);
  return Philox(b, source, /*counters=*/1).getWords(counter)[0];
}

/// Builds the word that a step adds to every element of a tensor.
static Value buildDitherWord(SequenceBuilder &b, const RandomSource &source,
                             unsigned number) {
  Value step = source.step;
  auto constant = [&](uint64_t value) { return b.like(step, value); };
  uint64_t places = (1 << windowBits) - 1;
  Value window = b.shr(step, windowBits);
  Value place = b.andi(step, constant(places));
  Value drawn = drawWord(b, source, number, windowTag, window);
  Value base = drawWord(b, source, number, baseTag, constant(0));
  Value byte = b.shl(b.andi(b.shr(drawn, windowBits), constant(3)), 3);
  Value multiplier =
      arith::ShRUIOp::create(b.builder, b.loc, constant(multipliers), byte);
  multiplier = b.andi(multiplier, constant(0xFF));
  Value stratum = b.addi(b.muli(multiplier, place), drawn);
  Value refined = b.addi(base, b.muli(window, constant(goldenStep)));
  // The shift drops the bits above those modulo 64.
  Value lower = b.shr(refined, windowBits);
  return b.ori(b.shl(stratum, 32 - windowBits), lower);
}

Value tandem::buildDitherBits(SequenceBuilder &b, const RandomSource &source,
                              unsigned number, ArrayRef<int64_t> offsets) {
  Value word = buildDitherWord(b, source, number);
  Value element = b.resize(source.start, word.getType());
  word = b.addi(b.muli(element, b.like(element, elementFactor)), word);
  if (offsets.size() == 1)
    return b.shr(word, 16);
  auto type = VectorType::get({int64_t(offsets.size())}, word.getType());
  SmallVector<int32_t> products = llvm::map_to_vector(
      offsets, [](int64_t offset) { return int32_t(offset * elementFactor); });
  Value steps = arith::ConstantOp::create(
      b.builder, b.loc,
      DenseElementsAttr::get(type, ArrayRef<int32_t>(products)));
  Value first = vector::BroadcastOp::create(b.builder, b.loc, type, word);
  return b.shr(b.addi(first, steps), 16);
}
