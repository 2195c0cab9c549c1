//===- FloatCodesToNVVM.cpp - 8-bit floats on NVIDIA chips ----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of encode_float and decode_float to the
// instructions that NVIDIA chips have for 8-bit floats.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/FloatCodesToNVVM/FloatCodesToNVVM.h"
#include "mlir/IR/Matchers.h"
#include "tandem/Conversion/ExpandOperations.h"
#include "tandem/Conversion/FloatCodesToNVVM/Chip.h"
#include "tandem/Conversion/TandemToNVVM/Passes.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTFLOATCODESTONVVM
#include "tandem/Conversion/TandemToNVVM/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using scaled::DecodeFloatOp;
using scaled::EncodeFloatOp;

/// Returns whether the instructions support a format, and a type that is a
/// scalar or a vector with an even number of elements.
static bool isConvertible(Type format, Type value) {
  auto vector = dyn_cast<VectorType>(value);
  return isa<Float8E4M3FNType, Float8E5M2Type>(format) &&
         (!vector || (vector.getRank() == 1 && !vector.isScalable() &&
                      vector.getNumElements() % 2 == 0));
}

/// Returns `shape`, a scalar or a vector, with another element type.
static Type withElement(Type shape, Type element) {
  auto vector = dyn_cast<VectorType>(shape);
  return vector ? vector.clone(element) : element;
}

//===----------------------------------------------------------------------===//
// Encoding
//===----------------------------------------------------------------------===//

/// Returns the number half a unit beyond the largest one, which is a tie.
static double getOverflowTie(FloatFormat format) {
  uint64_t rebias = uint64_t(127 - format.bias) << 23;
  uint64_t largest = format.maxFinite() << (23 - format.mantissaBits);
  uint64_t halfUnit = uint64_t(1) << (22 - format.mantissaBits);
  return llvm::bit_cast<float>(uint32_t(largest + halfUnit + rebias));
}

/// Returns whether x rounds beyond the largest finite number. Ties go to the
/// even code: 448 in E4M3FN, infinity in E5M2.
static Value isBeyond(SequenceBuilder &b, Value x, FloatFormat format) {
  auto predicate = format.maxFinite() % 2 ? arith::CmpFPredicate::OGE
                                          : arith::CmpFPredicate::OGT;
  return b.compare(predicate, b.abs(x),
                   b.real(x.getType(), getOverflowTie(format)));
}

/// Returns the operand of the instruction for a format without infinities. It
/// is NaN where the result must be NaN.
static Value markNaN(SequenceBuilder &b, EncodeFloatOp op, FloatFormat format) {
  Value x = op.getX();
  Value nan = b.fromBits(x.getType(), 0x7FC00000);
  if (op.getFinite())
    return b.select(op.getFinite(), x, nan);
  return op.getExact() ? x : b.select(isBeyond(b, x, format), nan, x);
}

/// Returns the codes of the elements in order, in 32-bit words if they fill
/// these and else in 16-bit words. The code of a scalar is in the low byte.
static Value encodePairs(SequenceBuilder &b, Value x, Type format) {
  auto convert = [&](Value high, Value low) -> Value {
    return NVVM::ConvertF32x2ToF8x2Op::create(
        b.builder, b.loc, b.builder.getI16Type(), high, low,
        NVVM::FPRoundingMode::RN, NVVM::SaturationMode::SATFINITE,
        /*relu=*/false, format);
  };
  auto type = dyn_cast<VectorType>(x.getType());
  if (!type)
    return convert(b.zero(x.getType()), x);
  SmallVector<Value> words;
  for (int64_t i = 0; i < type.getNumElements(); i += 2) {
    Value lower = vector::ExtractOp::create(b.builder, b.loc, x, i);
    Value upper = vector::ExtractOp::create(b.builder, b.loc, x, i + 1);
    words.push_back(convert(upper, lower));
  }
  int64_t count = words.size();
  auto halves = VectorType::get({count}, b.builder.getI16Type());
  Value codes = vector::FromElementsOp::create(b.builder, b.loc, halves, words);
  if (count % 2)
    return codes;
  return vector::BitCastOp::create(
      b.builder, b.loc, VectorType::get({count / 2}, b.builder.getI32Type()),
      codes);
}

/// Makes the sign and the payload of the NaNs in words of codes canonical. PTX
/// does not specify which NaN a conversion returns.
static Value canonicalizeNaN(SequenceBuilder &b, Value words,
                             FloatFormat format) {
  uint64_t bytes = 0x01010101;
  uint64_t firstNaN =
      (format.hasInfinity() ? format.infinity() : format.maxFinite()) + 1;
  // The top bit of each byte tells whether its magnitude is that of a NaN.
  Value magnitude = b.andi(words, b.like(words, 0x7F * bytes));
  Value isNaN =
      b.andi(b.addi(magnitude, b.like(words, (0x80 - firstNaN) * bytes)),
             b.like(words, 0x80 * bytes));
  // A format without infinities has only one NaN, with all bits set except the
  // sign.
  if (format.hasInfinity())
    words = b.ori(words, b.subi(isNaN, b.shr(isNaN, 7)));
  return b.andi(words, b.xori(isNaN, b.like(words, ~uint64_t(0))));
}

/// Returns words of codes as codes of the given type.
static Value toCodes(SequenceBuilder &b, Value words, Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector::BitCastOp::create(b.builder, b.loc, vector, words);
  return b.resize(words, type);
}

/// Restores the infinities of E5M2, for which the instruction returns the
/// largest number.
static Value restoreInfinity(SequenceBuilder &b, EncodeFloatOp op, Value codes,
                             FloatFormat format) {
  Type byte = b.builder.getIntegerType(8);
  Value x = op.getX();
  if (!op.getFinite()) {
    Value isInfinite = isBeyond(b, x, format);
    // The code of infinity follows that of the largest number.
    return b.addi(codes,
                  b.resize(isInfinite, getElementTypeOrSelf(codes.getType())));
  }
  Value bits = b.bits(x);
  Value sign = b.andi(b.shr(bits, 24), b.like(bits, format.signMask()));
  Value isNaN = b.compare(arith::CmpFPredicate::UNO, x, x);
  Value special = b.select(isNaN, b.like(bits, format.canonicalNaN()),
                           b.ori(sign, b.like(bits, format.infinity())));
  return b.select(op.getFinite(), codes, b.resize(special, byte));
}

/// Returns whether the operation says of all its values that they are numbers.
static bool isAlwaysFinite(EncodeFloatOp op) {
  return op.getFinite() && matchPattern(op.getFinite(), m_One());
}

static Value convert(SequenceBuilder &b, EncodeFloatOp op) {
  FloatFormat format = FloatFormat::get(op.getFormat());
  Value x = format.hasInfinity() ? op.getX() : markNaN(b, op, format);
  Value words = encodePairs(b, x, op.getFormat());
  if (!isAlwaysFinite(op))
    words = canonicalizeNaN(b, words, format);
  Value codes = toCodes(b, words, op.getType());
  if (format.hasInfinity())
    codes = restoreInfinity(b, op, codes, format);
  return codes;
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

/// Decodes two codes through f16, which has every number of both formats.
static Value decodePair(SequenceBuilder &b, Value word, Type format) {
  auto bytes = VectorType::get({2}, b.builder.getIntegerType(8));
  auto halves = VectorType::get({2}, b.builder.getF16Type());
  Value codes = LLVM::BitcastOp::create(b.builder, b.loc, bytes, word);
  Value pair = NVVM::ConvertF8x2ToF16x2Op::create(
      b.builder, b.loc, halves, codes, /*relu=*/false, format);
  return b.convert(pair, b.builder.getF32Type());
}

static Value decode(SequenceBuilder &b, Value codes, Type format) {
  Type half = b.builder.getI16Type();
  auto type = dyn_cast<VectorType>(codes.getType());
  if (!type)
    return vector::ExtractOp::create(
        b.builder, b.loc, decodePair(b, b.resize(codes, half), format), 0);
  int64_t count = type.getNumElements();
  Value words = vector::BitCastOp::create(
      b.builder, b.loc, VectorType::get({count / 2}, half), codes);
  SmallVector<Value> numbers;
  for (int64_t i = 0; i < count / 2; ++i) {
    Value word = vector::ExtractOp::create(b.builder, b.loc, words, i);
    Value pair = decodePair(b, word, format);
    for (int64_t lane : {0, 1})
      numbers.push_back(
          vector::ExtractOp::create(b.builder, b.loc, pair, lane));
  }
  return vector::FromElementsOp::create(
      b.builder, b.loc, withElement(type, b.builder.getF32Type()), numbers);
}

static Value convert(SequenceBuilder &b, DecodeFloatOp op) {
  return decode(b, op.getCode(), op.getFormat());
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

template <typename OpTy>
static LogicalResult convertPairs(OpTy op, PatternRewriter &rewriter) {
  if (!isConvertible(op.getFormat(), op.getX().getType()))
    return rewriter.notifyMatchFailure(op, "there is no instruction for it");
  SequenceBuilder b(rewriter, op.getLoc());
  rewriter.replaceOp(op, convert(b, op));
  return success();
}

void tandem::populateFloatCodesToNVVMPatterns(RewritePatternSet &patterns) {
  patterns.add(convertPairs<EncodeFloatOp>);
  patterns.add(convertPairs<DecodeFloatOp>);
}

namespace {
struct ConvertFloatCodesToNVVMPass
    : public tandem::ExpandOperationsPass<
          tandem::impl::ConvertFloatCodesToNVVMBase<
              ConvertFloatCodesToNVVMPass>> {
  using ExpandOperationsPass::ExpandOperationsPass;

  LogicalResult populate(RewritePatternSet &set) override {
    std::optional<Chip> target = Chip::parse(chip);
    if (!target)
      return emitError(UnknownLoc::get(set.getContext()), "chip '")
             << chip << "' is not written like sm_90";
    if (target->hasFloat8Conversions())
      populateFloatCodesToNVVMPatterns(set);
    return success();
  }
};
} // namespace
