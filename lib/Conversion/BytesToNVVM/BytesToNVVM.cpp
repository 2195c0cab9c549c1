//===- BytesToNVVM.cpp - Byte permutations on NVIDIA chips ----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of operations on vectors to operations
// that take fewer instructions on an NVIDIA chip: byte permutations, and
// conversions of two elements. Neither LLVM nor ptxas finds these.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/BytesToNVVM.h"
#include "mlir/IR/Matchers.h"
#include "tandem/Conversion/ExpandOperations.h"
#include "tandem/Conversion/TandemToNVVM/Passes.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTBYTESTONVVM
#include "tandem/Conversion/TandemToNVVM/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Matching
//===----------------------------------------------------------------------===//

/// Returns the constant that all elements of a value have, or no value.
static std::optional<uint64_t> getConstant(Value value) {
  llvm::APInt constant;
  if (!matchPattern(value, m_ConstantInt(&constant)))
    return std::nullopt;
  return constant.getZExtValue();
}

/// Returns the value that is shifted by exactly `amount`, or null.
template <typename ShiftOp>
static Value matchShift(Value value, uint64_t amount) {
  auto shift = value.getDefiningOp<ShiftOp>();
  return shift && getConstant(shift.getRhs()) == amount ? shift.getLhs()
                                                        : Value();
}

/// Returns the number of 32-bit words of a vector of i32, or 0 for other types.
static int64_t countWords(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector || vector.getRank() != 1 || vector.isScalable() ||
      !vector.getElementType().isInteger(32))
    return 0;
  return vector.getNumElements();
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

namespace {
/// Builds permutations of the bytes of two words. Bytes 0 to 3 are those of the
/// first word, from the lowest, and 4 to 7 those of the second. Each
/// hexadecimal digit of the selector chooses one byte of the result.
struct Permutation {
  OpBuilder &builder;
  Location loc;

  Value build(Value low, Value high, uint32_t selector) {
    Type i32 = builder.getI32Type();
    auto digits = arith::ConstantIntOp::create(builder, loc, i32, selector);
    return NVVM::PermuteOp::create(builder, loc, i32, low, high, digits,
                                   NVVM::PermuteMode::DEFAULT);
  }
  Value extract(Value vector, int64_t lane) {
    return vector::ExtractOp::create(builder, loc, vector, lane);
  }
  /// Permutes the words of two adjacent lanes.
  Value buildPair(Value words, int64_t lane, uint32_t selector) {
    Value high = extract(words, lane + 1);
    return build(extract(words, lane), high, selector);
  }
  /// Returns the words as a vector of `type`.
  Value join(ArrayRef<Value> words, Type type) {
    auto wordType =
        VectorType::get({int64_t(words.size())}, builder.getI32Type());
    Value all = vector::FromElementsOp::create(builder, loc, wordType, words);
    return vector::BitCastOp::create(builder, loc, type, all);
  }
};
} // namespace

/// Packs a half of each word: the upper one if `byte` is 2, else the lower.
static Value packHalves(Permutation permutation, Value words, Type type,
                        uint64_t byte) {
  uint32_t selector = 0x5410 + 0x2222 * (byte / 2);
  SmallVector<Value> packed;
  for (int64_t i = 0, e = countWords(words.getType()); i < e; i += 2)
    packed.push_back(permutation.buildPair(words, i, selector));
  return permutation.join(packed, type);
}

/// Packs a byte of each word, counted from the lowest.
static Value packBytes(Permutation permutation, Value words, Type type,
                       uint64_t byte) {
  uint32_t selector = 0x0040 + 0x0011 * byte;
  SmallVector<Value> packed;
  for (int64_t i = 0, e = countWords(words.getType()); i < e; i += 4) {
    SmallVector<Value> pairs;
    for (int64_t pair = i; pair < i + 4; pair += 2)
      pairs.push_back(permutation.buildPair(words, pair, selector));
    packed.push_back(permutation.build(pairs[0], pairs[1], 0x5410));
  }
  return permutation.join(packed, type);
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// Returns the amount of a shift to the right, or 0 for other values. Both
/// kinds of shift leave the same lower parts.
static uint64_t getShift(Value value) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_present<arith::ShRUIOp, arith::ShRSIOp>(op))
    return 0;
  return getConstant(op->getOperand(1)).value_or(0);
}

namespace {
/// The parts of words that begin at a byte.
struct Parts {
  Value words;
  uint64_t byte;
};
} // namespace

/// Returns the words whose parts are the value's lowest `bits` bits. If the
/// value selects a constant for some elements, the result selects that constant
/// before the shift.
static Parts matchParts(PatternRewriter &rewriter, Value value, unsigned bits) {
  auto select = value.getDefiningOp<arith::SelectOp>();
  bool isConstantFirst = select && getConstant(select.getTrueValue());
  Value shifted = !select           ? value
                  : isConstantFirst ? select.getFalseValue()
                                    : select.getTrueValue();
  uint64_t shift = getShift(shifted);
  if (!shift || shift % bits != 0)
    return {value, 0};
  Value words = shifted.getDefiningOp()->getOperand(0);
  if (!select)
    return {words, shift / 8};
  std::optional<uint64_t> constant = getConstant(
      isConstantFirst ? select.getTrueValue() : select.getFalseValue());
  if (!constant)
    return {value, 0};
  SequenceBuilder b(rewriter, select.getLoc());
  Value moved = b.like(words, *constant << shift);
  return {b.select(select.getCondition(), isConstantFirst ? moved : words,
                   isConstantFirst ? words : moved),
          shift / 8};
}

/// Packs truncated words, with one permutation for each two.
static LogicalResult packParts(arith::TruncIOp op, PatternRewriter &rewriter) {
  int64_t count = countWords(op.getIn().getType());
  unsigned bits = getElementTypeOrSelf(op.getType()).getIntOrFloatBitWidth();
  bool isPackable =
      (bits == 8 && count % 4 == 0) || (bits == 16 && count % 2 == 0);
  if (!count || !isPackable)
    return rewriter.notifyMatchFailure(op, "the parts do not fill words");
  Parts parts = matchParts(rewriter, op.getIn(), bits);
  Permutation permutation{rewriter, op.getLoc()};
  auto *pack = bits == 8 ? packBytes : packHalves;
  rewriter.replaceOp(op,
                     pack(permutation, parts.words, op.getType(), parts.byte));
  return success();
}

/// Returns whether none of the bits is set in a value that is a constant, a
/// selection of constants, or a broadcast of one of these.
static bool isClear(Value value, uint64_t bits) {
  if (std::optional<uint64_t> constant = getConstant(value))
    return !(*constant & bits);
  if (auto broadcast = value.getDefiningOp<vector::BroadcastOp>())
    return isClear(broadcast.getSource(), bits);
  auto select = value.getDefiningOp<arith::SelectOp>();
  return select && isClear(select.getTrueValue(), bits) &&
         isClear(select.getFalseValue(), bits);
}

/// Inserts the upper half of a word, shifted by a byte, between the outer bytes
/// of another word with one permutation.
static LogicalResult insertHalf(arith::OrIOp op, PatternRewriter &rewriter) {
  Value moved = matchShift<arith::ShLIOp>(op.getLhs(), 8);
  Value words = moved ? matchShift<arith::ShRUIOp>(moved, 16) : Value();
  int64_t count = countWords(op.getType());
  if (!words || !count || !isClear(op.getRhs(), 0x00FFFF00))
    return rewriter.notifyMatchFailure(op, "no half moves between bytes");
  Permutation permutation{rewriter, op.getLoc()};
  SmallVector<Value> results;
  for (int64_t lane = 0; lane < count; ++lane) {
    Value upper = permutation.extract(op.getRhs(), lane);
    Value lower = permutation.extract(words, lane);
    results.push_back(permutation.build(lower, upper, 0x7324));
  }
  rewriter.replaceOp(op, permutation.join(results, op.getType()));
  return success();
}

/// Joins the upper half of a word and a constant above it. Without this, LLVM
/// reassociates the sum that the or stands for, which takes an instruction
/// more.
static LogicalResult joinHalves(arith::OrIOp op, PatternRewriter &rewriter) {
  Value words = matchShift<arith::ShRUIOp>(op.getLhs(), 16);
  std::optional<uint64_t> constant = getConstant(op.getRhs());
  int64_t count = countWords(op.getType());
  if (!words || !count || !constant || *constant & 0xFFFF)
    return rewriter.notifyMatchFailure(op, "no half lies below a constant");
  Permutation permutation{rewriter, op.getLoc()};
  Value upper =
      arith::ConstantIntOp::create(rewriter, op.getLoc(), rewriter.getI32Type(),
                                   int64_t(int32_t(*constant)));
  SmallVector<Value> results;
  for (int64_t lane = 0; lane < count; ++lane)
    results.push_back(
        permutation.build(permutation.extract(words, lane), upper, 0x7632));
  rewriter.replaceOp(op, permutation.join(results, op.getType()));
  return success();
}

/// Rounds numbers in pairs. LLVM does so only if no bf16 is widened again.
static LogicalResult roundPairs(arith::TruncFOp op, PatternRewriter &rewriter) {
  auto type = dyn_cast<VectorType>(op.getType());
  if (!type || type.getRank() != 1 || type.getNumElements() % 2 != 0 ||
      !type.getElementType().isBF16() ||
      !getElementTypeOrSelf(op.getIn().getType()).isF32())
    return rewriter.notifyMatchFailure(op, "these are no pairs of bf16");
  Permutation permutation{rewriter, op.getLoc()};
  auto wordType = VectorType::get({1}, rewriter.getI32Type());
  auto pairType = VectorType::get({2}, type.getElementType());
  SmallVector<Value> words;
  for (int64_t i = 0, e = type.getNumElements(); i < e; i += 2) {
    Value lower = permutation.extract(op.getIn(), i);
    Value upper = permutation.extract(op.getIn(), i + 1);
    Value pair = NVVM::ConvertF32x2ToBF16x2Op::create(
        rewriter, op.getLoc(), pairType, upper, lower, Value(),
        NVVM::FPRoundingMode::RN);
    Value word =
        vector::BitCastOp::create(rewriter, op.getLoc(), wordType, pair);
    words.push_back(permutation.extract(word, 0));
  }
  rewriter.replaceOp(op, permutation.join(words, type));
  return success();
}

void tandem::populateBytesToNVVMPatterns(RewritePatternSet &patterns) {
  patterns.add(packParts);
  patterns.add(insertHalf);
  patterns.add(joinHalves);
  patterns.add(roundPairs);
}

namespace {
struct ConvertBytesToNVVMPass
    : public tandem::ExpandOperationsPass<
          tandem::impl::ConvertBytesToNVVMBase<ConvertBytesToNVVMPass>> {
  LogicalResult populate(RewritePatternSet &set) override {
    tandem::populateBytesToNVVMPatterns(set);
    return success();
  }
};
} // namespace
