//===- FloatCodesToArith.cpp - Small float codes in integers --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of encode_float and decode_float to
// sequences of f32 and integer operations.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/FloatCodesToArith.h"
#include "tandem/Conversion/ExpandOperations.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Dialect/Scaled/IR/CodeSequences.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "llvm/ADT/StringSwitch.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTFLOATCODESTOARITH
#include "tandem/Conversion/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;
using scaled::DecodeFloatOp;
using scaled::EncodeFloatOp;

namespace {
/// A code and the f32 value that it represents. If the operation has `finite`,
/// the value is valid only where that holds.
struct EncodedFloat {
  Value code, value;
};
} // namespace

/// Returns whether the only use of a value leads to a select that drops the
/// value if the condition does not hold.
static bool isChosenBy(Value condition, Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (auto select = dyn_cast<arith::SelectOp>(user);
        select && select.getCondition() == condition)
      return select.getTrueValue() == value;
    if (!isPure(user) || !OpTrait::hasElementwiseMappableTraits(user))
      return false;
    value = user->getResult(0);
  }
  return false;
}

/// Returns the number where `finite` holds, elsewhere NaN or an infinity with
/// the sign of x.
static Value chooseNumber(SequenceBuilder &b, EncodeFloatOp op, Value number) {
  Value x = op.getX();
  Value special = b.fromBits(x.getType(), f32QuietNaN);
  if (FloatFormat::get(op.getFormat()).hasInfinity()) {
    Value infinity = math::CopySignOp::create(
        b.builder, b.loc, b.fromBits(x.getType(), f32Infinity), x);
    Value isNaN = b.compare(arith::CmpFPredicate::UNO, x, x);
    special = b.select(isNaN, special, infinity);
  }
  return b.select(op.getFinite(), number, special);
}

/// Encodes f16 with the target's conversion and makes its NaN canonical.
static EncodedFloat encodeHalf(SequenceBuilder &b, EncodeFloatOp op) {
  Value x = op.getX();
  if (op.getFinite()) {
    double largest =
        llvm::APFloat::getLargest(llvm::APFloat::IEEEhalf()).convertToDouble();
    Value magnitude = scaled::clampMagnitude(b, x, largest);
    Type f32 = b.builder.getF32Type();
    x = math::CopySignOp::create(b.builder, b.loc, b.bitcast(magnitude, f32),
                                 x);
    x = chooseNumber(b, op, x);
  }
  Value half = b.convert(x, b.builder.getF16Type());
  return {b.canonicalBits(half), b.convert(half, b.builder.getF32Type())};
}

static EncodedFloat encodeSaturating(SequenceBuilder &b, EncodeFloatOp op) {
  FloatFormat format = FloatFormat::get(op.getFormat());
  Value x = op.getX(), finite = op.getFinite();
  Value magnitude =
      scaled::clampMagnitude(b, x, format.decode(format.maxFinite()));
  RoundedMagnitude rounded = roundByAnchor(b, magnitude, format);
  Value word = scaled::encodeFloat(b, x, finite, rounded.code, format);
  Value number = math::CopySignOp::create(b.builder, b.loc, rounded.number, x);
  return {b.resize(word, b.builder.getIntegerType(format.width())), number};
}

static EncodedFloat encode(SequenceBuilder &b, EncodeFloatOp op,
                           bool halfConversions) {
  FloatFormat format = FloatFormat::get(op.getFormat());
  if (halfConversions && op.getFormat().isF16())
    return encodeHalf(b, op);
  if (op.getFinite())
    return encodeSaturating(b, op);
  Value value = op.getExact()
                    ? op.getX()
                    : roundLanes(b, op.getX(), format, /*cleanNaN=*/true);
  return {encodeLanes(b, value, format), value};
}

/// Decodes a code through f16, which has the exponents of f8E5M2 and, scaled by
/// 2^-8, the numbers of f8E4M3FN. The payload of an 8-bit NaN has zeros in the
/// bits that bf16 drops, so that integer rounding preserves the NaN.
static Value decodeByHalf(SequenceBuilder &b, Value code, Type format) {
  Type f16 = b.builder.getF16Type(), f32 = b.builder.getF32Type();
  Type i16 = b.builder.getI16Type();
  if (format.isF16())
    return b.convert(b.bitcast(code, f16), f32);
  if (isa<Float8E5M2Type>(format))
    return b.convert(b.bitcast(b.shl(b.resize(code, i16), 8), f16), f32);
  // The sign extension has also set bit 14 to the sign, which the mask clears.
  auto shaped = dyn_cast<VectorType>(code.getType());
  Type type = shaped ? Type(shaped.clone(i16)) : i16;
  Value word = arith::ExtSIOp::create(b.builder, b.loc, type, code);
  Value bits = b.shl(word, 7);
  bits = b.andi(bits, b.like(bits, 0xBFFF));
  Value magnitude = b.andi(bits, b.like(bits, 0x7FFF));
  Value isNaN = b.compare(arith::CmpIPredicate::eq, magnitude,
                          b.like(bits, uint64_t(0x7F) << 7));
  bits = b.select(isNaN, b.like(bits, 0x7E00), bits);
  Value number = b.convert(b.bitcast(bits, f16), f32);
  return b.mul(number, b.real(number.getType(), 0x1p8));
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {
/// Expands conversions of the listed formats; of all formats if none is listed.
template <typename OpTy>
struct FloatCodePattern : public OpRewritePattern<OpTy> {
  FloatCodePattern(MLIRContext *context, ArrayRef<Type> formats,
                   bool halfConversions)
      : OpRewritePattern<OpTy>(context), formats(formats),
        halfConversions(halfConversions) {}

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    if (!formats.empty() && !llvm::is_contained(formats, op.getFormat()))
      return rewriter.notifyMatchFailure(op, "the format is not listed");
    SequenceBuilder b(rewriter, op.getLoc());
    expand(op, b, rewriter);
    return success();
  }

  void expand(OpTy op, SequenceBuilder &b, PatternRewriter &rewriter) const;

private:
  SmallVector<Type> formats;
  bool halfConversions;
};
} // namespace

/// Replaces the code, and the decoded numbers of the same code by its value.
template <>
void FloatCodePattern<EncodeFloatOp>::expand(EncodeFloatOp op,
                                             SequenceBuilder &b,
                                             PatternRewriter &rewriter) const {
  EncodedFloat encoded = encode(b, op, halfConversions);
  for (Operation *user : op.getCode().getUsers()) {
    auto decode = dyn_cast<DecodeFloatOp>(user);
    if (!decode || decode.getFormat() != op.getFormat())
      continue;
    bool isWhole = !op.getFinite() || isChosenBy(op.getFinite(), decode.getX());
    // The walk visits the decode operation later and erases it.
    rewriter.replaceAllUsesWith(decode.getX(),
                                isWhole ? encoded.value
                                        : chooseNumber(b, op, encoded.value));
  }
  rewriter.replaceOp(op, encoded.code);
}

template <>
void FloatCodePattern<DecodeFloatOp>::expand(DecodeFloatOp op,
                                             SequenceBuilder &b,
                                             PatternRewriter &rewriter) const {
  if (op.getX().use_empty())
    return rewriter.eraseOp(op);
  rewriter.replaceOp(
      op, halfConversions
              ? decodeByHalf(b, op.getCode(), op.getFormat())
              : scaled::decodeFloat(b, op.getCode(),
                                    FloatFormat::get(op.getFormat())));
}

void tandem::populateFloatCodesToArithPatterns(RewritePatternSet &patterns,
                                               ArrayRef<Type> formats,
                                               bool halfConversions) {
  patterns
      .add<FloatCodePattern<EncodeFloatOp>, FloatCodePattern<DecodeFloatOp>>(
          patterns.getContext(), formats, halfConversions);
}

/// Returns the format of a name that the pass accepts, or null.
static Type getFormat(MLIRContext *context, StringRef name) {
  return llvm::StringSwitch<Type>(name)
      .Case("f8E4M3FN", Float8E4M3FNType::get(context))
      .Case("f8E5M2", Float8E5M2Type::get(context))
      .Case("f16", Float16Type::get(context))
      .Default(Type());
}

namespace {
struct ConvertFloatCodesToArithPass
    : public tandem::ExpandOperationsPass<
          tandem::impl::ConvertFloatCodesToArithBase<
              ConvertFloatCodesToArithPass>> {
  using ExpandOperationsPass::ExpandOperationsPass;

  LogicalResult populate(RewritePatternSet &set) override {
    SmallVector<Type> listed;
    for (const std::string &format : formats) {
      listed.push_back(getFormat(set.getContext(), format));
      if (!listed.back())
        return emitError(UnknownLoc::get(set.getContext()),
                         "no float code is '")
               << format << "'; expected f8E4M3FN, f8E5M2 or f16";
    }
    populateFloatCodesToArithPatterns(set, listed, halfConversions);
    return success();
  }
};
} // namespace
