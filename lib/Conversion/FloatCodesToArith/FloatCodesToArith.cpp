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

#include "tandem/Conversion/Passes.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "tandem/Support/FloatEmulation.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_CONVERTFLOATCODESTOARITH
#include "tandem/Conversion/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;
using scaled::DecodeFloatOp;
using scaled::EncodeFloatOp;

static constexpr uint64_t f32Magnitude = 0x7FFFFFFF;
static constexpr uint64_t f32Exponent = 0x7F800000;
static constexpr uint64_t f32QuietNaN = 0x7FC00000;

namespace {
/// A code, and the f32 that it stands for.
struct EncodedFloat {
  Value code, value;
};

/// A magnitude rounded to a format: its code, and its f32.
struct RoundedMagnitude {
  Value code, value;
};
} // namespace

static Value clampMagnitude(SequenceBuilder &b, Value bits, Type format) {
  llvm::APFloat largest =
      llvm::APFloat::getLargest(cast<FloatType>(format).getFloatSemantics());
  auto limit = llvm::bit_cast<uint32_t>(float(largest.convertToDouble()));
  return arith::MinUIOp::create(b.builder, b.loc,
                                b.andi(bits, b.like(bits, f32Magnitude)),
                                b.like(bits, limit));
}

/// Rounds |x| to nearest, ties to even; it saturates. An anchor 2^n above the
/// magnitude leaves the format's mantissa bits in its sum.
static RoundedMagnitude roundSaturating(SequenceBuilder &b, Value bits,
                                        Type type) {
  FloatFormat format = FloatFormat::get(type);
  Type f32 = b.builder.getF32Type();
  unsigned dropped = 23 - format.mantissaBits;
  Value magnitude = clampMagnitude(b, bits, type);
  Value exponent = b.andi(magnitude, b.like(magnitude, f32Exponent));
  Value least = b.like(exponent, uint64_t(format.minExponent() + 127) << 23);
  exponent = arith::MaxUIOp::create(b.builder, b.loc, exponent, least);
  Value anchor = b.bitcast(
      b.addi(exponent, b.like(exponent, uint64_t(dropped) << 23)), f32);
  Value sum = b.add(b.bitcast(magnitude, f32), anchor);
  // The sum's low bits count units in the last place; the exponent stands
  // above.
  Value units = b.subi(b.bits(sum), b.bits(anchor));
  Value code = b.addi(units, b.shr(b.subi(exponent, least), dropped));
  return {code, b.sub(sum, anchor)};
}

/// The number where `finite` holds; elsewhere NaN, or x, which is no number.
static Value chooseValue(SequenceBuilder &b, EncodeFloatOp op, Value number,
                         bool hasInfinity) {
  Value x = op.getX();
  Value special = b.fromBits(x.getType(), f32QuietNaN);
  if (hasInfinity) {
    Value infinity = math::CopySignOp::create(
        b.builder, b.loc, b.fromBits(x.getType(), f32Exponent), x);
    Value isNaN = b.compare(arith::CmpFPredicate::UNO, x, x);
    special = b.select(isNaN, special, infinity);
  }
  return b.select(op.getFinite(), number, special);
}

static EncodedFloat encodeSaturating(SequenceBuilder &b, EncodeFloatOp op) {
  FloatFormat format = FloatFormat::get(op.getFormat());
  Value x = op.getX(), bits = b.bits(x);
  RoundedMagnitude rounded = roundSaturating(b, bits, op.getFormat());
  Value sign =
      b.andi(b.shr(bits, 32 - format.width()), b.like(bits, format.signMask()));
  Value special = b.like(sign, format.canonicalNaN());
  if (format.hasInfinity) {
    Value isNaN = b.compare(arith::CmpFPredicate::UNO, x, x);
    special =
        b.select(isNaN, special, b.ori(sign, b.like(sign, format.infinity())));
  }
  Value code = b.select(op.getFinite(), b.ori(rounded.code, sign), special);
  Value number = math::CopySignOp::create(b.builder, b.loc, rounded.value, x);
  return {b.resize(code, b.builder.getIntegerType(format.width())),
          chooseValue(b, op, number, format.hasInfinity)};
}

static EncodedFloat encode(SequenceBuilder &b, EncodeFloatOp op) {
  FloatFormat format = FloatFormat::get(op.getFormat());
  if (op.getFinite())
    return encodeSaturating(b, op);
  Value value = op.getExact()
                    ? op.getX()
                    : roundLanes(b, op.getX(), format, /*cleanNaN=*/true);
  return {encodeLanes(b, value, format), value};
}

/// Replaces a code, and the number where it is read back.
static void expand(EncodeFloatOp op) {
  OpBuilder builder(op);
  SequenceBuilder b(builder, op.getLoc());
  EncodedFloat encoded = encode(b, op);
  for (Operation *user : llvm::make_early_inc_range(op.getCode().getUsers())) {
    auto decode = dyn_cast<DecodeFloatOp>(user);
    if (!decode || decode.getFormat() != op.getFormat())
      continue;
    decode.replaceAllUsesWith(encoded.value);
    decode.erase();
  }
  op.replaceAllUsesWith(encoded.code);
  op.erase();
}

static void expand(DecodeFloatOp op) {
  OpBuilder builder(op);
  SequenceBuilder b(builder, op.getLoc());
  op.replaceAllUsesWith(
      decodeLanes(b, op.getCode(), FloatFormat::get(op.getFormat())));
  op.erase();
}

namespace {
struct ConvertFloatCodesToArithPass
    : public tandem::impl::ConvertFloatCodesToArithBase<
          ConvertFloatCodesToArithPass> {
  using ConvertFloatCodesToArithBase::ConvertFloatCodesToArithBase;

  void runOnOperation() override {
    for (const std::string &format : formats)
      if (format != "f8E4M3FN" && format != "f8E5M2" && format != "f16") {
        getOperation().emitError("no float code is '")
            << format << "'; expected f8E4M3FN, f8E5M2 or f16";
        return signalPassFailure();
      }
    // Codes first: they replace the numbers that are read back from them.
    expandAll<EncodeFloatOp>();
    expandAll<DecodeFloatOp>();
  }

private:
  bool isListed(Type format) {
    std::string name;
    llvm::raw_string_ostream(name) << format;
    return formats.empty() || llvm::is_contained(formats, name);
  }

  template <typename OpTy>
  void expandAll() {
    SmallVector<OpTy> ops;
    getOperation().walk([&](OpTy op) {
      if (isListed(op.getFormat()))
        ops.push_back(op);
    });
    for (OpTy op : ops)
      expand(op);
    numExpanded += ops.size();
  }
};
} // namespace
