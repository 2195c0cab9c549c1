//===- BytesToNVVM.cpp - Byte permutations on NVIDIA chips ----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of integer operations on vectors to byte
// permutations, which take an NVIDIA chip fewer instructions. Neither LLVM nor
// ptxas finds these.
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

/// The constant that all elements of a value are.
static std::optional<uint64_t> getConstant(Value value) {
  llvm::APInt constant;
  if (!matchPattern(value, m_ConstantInt(&constant)))
    return std::nullopt;
  return constant.getZExtValue();
}

/// The value that is shifted by exactly `amount`, or null.
template <typename ShiftOp>
static Value matchShift(Value value, uint64_t amount) {
  auto shift = value.getDefiningOp<ShiftOp>();
  return shift && getConstant(shift.getRhs()) == amount ? shift.getLhs()
                                                        : Value();
}

/// The number of words if a value is a vector of whole words, else 0.
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
/// Builds permutations of the bytes of words. Byte 0 to 3 are those of the
/// first word, from the lowest, 4 to 7 those of the second; the selector's
/// hexadecimal digits say which one each byte of the result is.
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
  /// The words as a vector of `type`.
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
    packed.push_back(permutation.build(permutation.extract(words, i),
                                       permutation.extract(words, i + 1),
                                       selector));
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
      pairs.push_back(permutation.build(permutation.extract(words, pair),
                                        permutation.extract(words, pair + 1),
                                        selector));
    packed.push_back(permutation.build(pairs[0], pairs[1], 0x5410));
  }
  return permutation.join(packed, type);
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// Returns the amount of a shift to the right whose result is truncated to
/// parts of words, which both kinds of shift leave the same; 0 for other
/// values.
static uint64_t getShift(Value value) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_present<arith::ShRUIOp, arith::ShRSIOp>(op))
    return 0;
  return getConstant(op->getOperand(1)).value_or(0);
}

namespace {
/// Parts of words, from a byte on.
struct Parts {
  Value words;
  uint64_t byte;
};
} // namespace

/// Returns the words that a value is shifted from by whole parts, or the value.
/// A constant that is chosen instead of some is chosen before the shift.
static Parts matchParts(PatternRewriter &rewriter, Value value, unsigned bits) {
  uint64_t shift = getShift(value);
  if (shift && shift % bits == 0)
    return {value.getDefiningOp()->getOperand(0), shift / 8};
  auto select = value.getDefiningOp<arith::SelectOp>();
  if (!select)
    return {value, 0};
  std::optional<uint64_t> constant = getConstant(select.getTrueValue());
  shift = getShift(select.getFalseValue());
  if (!constant || !shift || shift % bits != 0)
    return {value, 0};
  SequenceBuilder b(rewriter, select.getLoc());
  Value words = select.getFalseValue().getDefiningOp()->getOperand(0);
  return {
      b.select(select.getCondition(), b.like(words, *constant << shift), words),
      shift / 8};
}

/// Truncated words are one permutation for each two of them.
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

/// Whether a value has none of the bits: a constant, one of two, or one of
/// these for all elements.
static bool isClear(Value value, uint64_t bits) {
  if (std::optional<uint64_t> constant = getConstant(value))
    return !(*constant & bits);
  if (auto broadcast = value.getDefiningOp<vector::BroadcastOp>())
    return isClear(broadcast.getSource(), bits);
  auto select = value.getDefiningOp<arith::SelectOp>();
  return select && isClear(select.getTrueValue(), bits) &&
         isClear(select.getFalseValue(), bits);
}

/// A word's upper half, moved by a byte, between bytes of another.
static LogicalResult insertHalf(arith::OrIOp op, PatternRewriter &rewriter) {
  Value moved = matchShift<arith::ShLIOp>(op.getLhs(), 8);
  Value words = moved ? matchShift<arith::ShRUIOp>(moved, 16) : Value();
  int64_t count = countWords(op.getType());
  if (!words || !count || !isClear(op.getRhs(), 0x00FFFF00))
    return rewriter.notifyMatchFailure(op, "no half moves between bytes");
  Permutation permutation{rewriter, op.getLoc()};
  SmallVector<Value> results;
  for (int64_t lane = 0; lane < count; ++lane)
    results.push_back(permutation.build(permutation.extract(words, lane),
                                        permutation.extract(op.getRhs(), lane),
                                        0x7324));
  rewriter.replaceOp(op, permutation.join(results, op.getType()));
  return success();
}

/// A word's upper half below a constant, which LLVM would take for a sum and
/// part again, is one permutation of the word and the constant.
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

/// Numbers are rounded in pairs, also where each is widened again.
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
    Value pair = NVVM::ConvertF32x2ToBF16x2Op::create(
        rewriter, op.getLoc(), pairType, permutation.extract(op.getIn(), i + 1),
        permutation.extract(op.getIn(), i), Value(), NVVM::FPRoundingMode::RN);
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
    : public tandem::impl::ConvertBytesToNVVMBase<ConvertBytesToNVVMPass> {
  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    populateBytesToNVVMPatterns(set);
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    numConverted += expandOperations(getOperation(), patterns);
  }

  FrozenRewritePatternSet patterns;
};
} // namespace
