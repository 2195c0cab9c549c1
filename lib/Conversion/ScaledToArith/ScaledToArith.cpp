//===- ScaledToArith.cpp - Scaled numbers as arithmetic -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of the scaled dialect's operations to the
// sequences of f32 and integer operations that define them.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/ScaledToArith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "tandem/Conversion/ExpandOperations.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Scaled/IR/Powers.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include <cmath>

namespace tandem {
#define GEN_PASS_DEF_CONVERTSCALEDTOARITH
#include "tandem/Conversion/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem::scaled;
using tandem::f32Infinity;
using tandem::f32Magnitude;
using tandem::SequenceBuilder;

static constexpr uint64_t f32MantissaMask = 0x007FFFFF;

static uint64_t bitsOf(double value) {
  return llvm::bit_cast<uint32_t>(static_cast<float>(value));
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// Returns the integer that a value was bitcast from, or a new bitcast. (No
/// lowering supports E8M0.)
static Value takeBits(SequenceBuilder &b, Value value) {
  auto cast = value.getDefiningOp<arith::BitcastOp>();
  if (cast && isa<IntegerType>(getElementTypeOrSelf(cast.getIn().getType())))
    return cast.getIn();
  return isa<IntegerType>(getElementTypeOrSelf(value.getType()))
             ? value
             : b.bits(value);
}

/// Converts a scale to f32 exactly. In E8M0, code 255 is NaN and 0 is 2^-127.
static Value widenScale(SequenceBuilder &b, Value scale) {
  if (!isa<Float8E8M0FNUType>(scale.getType()))
    return b.convert(scale, b.builder.getF32Type());
  Value exponent = b.resize(takeBits(b, scale), b.builder.getI32Type());
  Value bits = b.shl(exponent, 23);
  Value isLeast =
      b.compare(arith::CmpIPredicate::eq, exponent, b.like(exponent, 0));
  Value isNaN =
      b.compare(arith::CmpIPredicate::eq, exponent, b.like(exponent, 255));
  bits = b.select(isLeast, b.like(bits, 0x00400000), bits);
  bits = b.select(isNaN, b.like(bits, tandem::f32QuietNaN), bits);
  return b.bitcast(bits, b.builder.getF32Type());
}

/// Rounds a positive finite f32, which is in the type's range, up to the type.
static Value roundUp(SequenceBuilder &b, Value value, Type type) {
  if (type.isF32())
    return value;
  if (type.isBF16()) {
    // Adds one to the upper half of the bits unless the lower half is 0.
    Value bits = b.bits(value);
    Value up = b.shr(b.addi(bits, b.like(bits, 0xFFFF)), 16);
    return b.bitcast(b.resize(up, b.builder.getIntegerType(16)), type);
  }
  Value nearest = b.convert(value, type);
  Value back = b.convert(nearest, b.builder.getF32Type());
  Value isBelow = b.compare(arith::CmpFPredicate::OLT, back, value);
  // A select would become a branch that is hard to predict.
  Value bits = b.bits(nearest);
  return b.bitcast(b.addi(bits, b.resize(isBelow, bits.getType())), type);
}

/// Converts a scale of the recipe `current`. It is rounded up if the code
/// rounds with random bits, which is unbiased only if nothing saturates, or has
/// no NaN, since such a code does not clamp.
static Value narrowScale(SequenceBuilder &b, Value value, ScaleOp op) {
  if (tandem::drawsBits(op.getCode().getRounding()) || !op.getCode().hasNaN())
    return roundUp(b, value, op.getType());
  return b.convert(value, op.getType());
}

/// Converts the f32 bits of a power of two to the scale's type.
static Value narrowPowerOfTwo(SequenceBuilder &b, Value bits, Type type) {
  if (!isa<Float8E8M0FNUType>(type))
    return b.convert(b.bitcast(bits, b.builder.getF32Type()), type);
  Value exponent = b.resize(b.shr(bits, 23), b.builder.getIntegerType(8));
  return b.bitcast(exponent, type);
}

static Value clampBits(SequenceBuilder &b, Value bits, ScaleRange range) {
  Value most = b.like(bits, bitsOf(range.largest));
  Value least = b.like(bits, bitsOf(range.smallest));
  bits = arith::MinUIOp::create(b.builder, b.loc, bits, most);
  return arith::MaxUIOp::create(b.builder, b.loc, bits, least);
}

/// Returns the exponent field of amax, which is below 1 for subnormal numbers.
static Value getExponentField(SequenceBuilder &b, Value amax) {
  Value field = b.shr(amax, 23);
  Value number = b.bitcast(amax, b.builder.getF32Type());
  Value lifted =
      b.shr(b.bits(b.mul(number, b.real(number.getType(), 0x1p24))), 23);
  Value isSubnormal =
      b.compare(arith::CmpIPredicate::eq, field, b.like(field, 0));
  return b.select(isSubnormal, b.subi(lifted, b.like(lifted, 24)), field);
}

/// Returns the bits of 2^(floor(log2 amax) - floor(log2 L)), clamped to the
/// range, whose bounds are powers of two.
static Value floorPowerOfTwo(SequenceBuilder &b, ScaleOp op, ScaleRange range) {
  int64_t below =
      std::ilogb(op.getCode().getLargest()) - int64_t(op.getMargin());
  Value amax = op.getAmax();
  // If `below` is -1 or greater, subnormal numbers are below the range anyway.
  Value field = below < -1 ? getExponentField(b, amax) : b.shr(amax, 23);
  field = b.subi(field, b.like(field, below));
  field = arith::MaxSIOp::create(b.builder, b.loc, field,
                                 b.like(field, bitsOf(range.smallest) >> 23));
  field = arith::MinSIOp::create(b.builder, b.loc, field,
                                 b.like(field, bitsOf(range.largest) >> 23));
  return b.shl(field, 23);
}

/// Divides by a constant. If f32 has the constant's inverse, emits the product,
/// which is the same number.
static Value divide(SequenceBuilder &b, Value value, double divisor) {
  llvm::APFloat exact(static_cast<float>(divisor)), inverse(1.0f);
  if (divisor == 1.0)
    return value;
  if (!exact.getExactInverse(&inverse))
    return b.div(value, b.real(value.getType(), divisor));
  return b.mul(value, b.real(value.getType(), inverse.convertToFloat()));
}

/// Returns the scale for a group's largest magnitude before it is clamped.
static Value normalize(SequenceBuilder &b, Value largest, ScaleOp op) {
  if (std::optional<float> factor = op.getCode().getScaleFactor())
    return b.mul(largest, b.real(largest.getType(), *factor));
  return divide(b, largest, op.getCode().getLargest());
}

/// Returns value * 2^margin. Emits an addition for a factor of 2, as LLVM
/// would.
static Value enlarge(SequenceBuilder &b, Value value, int64_t margin) {
  if (margin == 0)
    return value;
  if (margin == 1)
    return b.add(value, value);
  return b.mul(value, b.real(value.getType(), std::ldexp(1.0, int(margin))));
}

/// Returns whether a magnitude is finite.
static Value isFiniteMagnitude(SequenceBuilder &b, Value magnitude) {
  return b.compare(arith::CmpIPredicate::ult, magnitude,
                   b.like(magnitude, f32Infinity));
}

/// Returns the bits of the NaN of a scale's type.
static Value getNaN(SequenceBuilder &b, Type type, Value scale) {
  if (isa<Float8E8M0FNUType>(type))
    return b.like(scale, 0xFF);
  return b.like(scale, tandem::FloatFormat::get(type).canonicalNaN());
}

/// Rounds a number to a scale by the recipe `current` or `pow2`. The number is
/// given by its bits and is in the scale's range; the result is the scale's
/// bits.
static Value roundScale(SequenceBuilder &b, Value bits, ScaleOp op) {
  if (op.getRecipe() == Recipe::current)
    return takeBits(
        b, narrowScale(b, b.bitcast(bits, b.builder.getF32Type()), op));
  Value up = b.addi(bits, b.like(bits, f32MantissaMask));
  up = b.andi(up, b.like(up, f32Infinity));
  return takeBits(b, narrowPowerOfTwo(b, up, op.getType()));
}

/// Returns the bits of a group's scale if the code has NaN.
static Value makeScale(SequenceBuilder &b, ScaleOp op, ScaleRange range) {
  if (op.getRecipe() == Recipe::mx_floor)
    return takeBits(
        b, narrowPowerOfTwo(b, floorPowerOfTwo(b, op, range), op.getType()));
  Value largest = b.bitcast(op.getAmax(), b.builder.getF32Type());
  Value quotient = enlarge(b, normalize(b, largest, op), op.getMargin());
  return roundScale(b, clampBits(b, b.bits(quotient), range), op);
}

/// Returns the bits of a group's scale if the code has no NaN. The scale is NaN
/// if the largest magnitude is not finite or beyond the range. The bits of
/// values that are not finite, or negative, compare greater than those of all
/// numbers.
static Value makeScaleOrNaN(SequenceBuilder &b, ScaleOp op, ScaleRange range) {
  Value largest = b.bitcast(op.getAmax(), b.builder.getF32Type());
  Value bits = b.bits(normalize(b, largest, op));
  Value isInRange = b.compare(arith::CmpIPredicate::ule, bits,
                              b.like(bits, bitsOf(range.largest)));
  Value raised = arith::MaxUIOp::create(b.builder, b.loc, bits,
                                        b.like(bits, bitsOf(range.smallest)));
  Value scale = roundScale(b, raised, op);
  return b.select(isInRange, scale, getNaN(b, op.getType(), scale));
}

static SmallVector<Value> buildScale(SequenceBuilder &b, ScaleOp op) {
  ScaleRange range = getScaleRange(op.getType(), op.getCode());
  if (op.getRecipe() != Recipe::current)
    range.largest = std::ldexp(1.0, std::ilogb(range.largest));
  Value scale = op.getCode().hasNaN() ? makeScale(b, op, range)
                                      : makeScaleOrNaN(b, op, range);
  if (!op.getCode().hasZero())
    return {b.bitcast(scale, op.getType())};
  Value amax = op.getAmax();
  Value isZero = b.compare(arith::CmpIPredicate::eq, amax, b.like(amax, 0));
  Value one = narrowPowerOfTwo(b, b.like(amax, bitsOf(1.0)), op.getType());
  return {b.bitcast(b.select(isZero, takeBits(b, one), scale), op.getType())};
}

static SmallVector<Value> buildGivenScale(SequenceBuilder &b, GivenScaleOp op) {
  ScaleRange range = getScaleRange(op.getType(), op.getCode());
  Value bits = b.bits(widenScale(b, op.getGiven()));
  // The bits of negative numbers and NaNs compare greater than those of all
  // positive numbers.
  Value isEnough = b.compare(arith::CmpIPredicate::uge, bits,
                             b.like(bits, bitsOf(range.smallest)));
  Value isAtMost = b.compare(arith::CmpIPredicate::ule, bits,
                             b.like(bits, bitsOf(range.largest)));
  Value one = narrowPowerOfTwo(b, b.like(bits, bitsOf(1.0)), op.getType());
  Value otherwise = takeBits(b, one);
  Value given = takeBits(b, op.getGiven());
  Value chosen = b.select(b.andi(isEnough, isAtMost), given, otherwise);
  return {b.bitcast(chosen, op.getType())};
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static SmallVector<Value> buildMagnitude(SequenceBuilder &b, MagnitudeOp op) {
  Value magnitude = op.getCode().measure(b, op.getX());
  if (!op.getCode().hasNaN())
    return {magnitude};
  return {b.select(isFiniteMagnitude(b, magnitude), magnitude,
                   b.like(magnitude, 0))};
}

/// Extends an exponent to i32. Returns null for null.
static Value widenExponent(SequenceBuilder &b, Value exponent) {
  return exponent ? b.resize(exponent, b.builder.getI32Type()) : Value();
}

static SmallVector<Value> buildLeast(SequenceBuilder &b, LeastOp op) {
  Value bits = b.bits(op.getX());
  Value magnitude = b.andi(bits, b.like(bits, f32Magnitude));
  // Subtracting 1 from the bits of zero wraps around.
  Value counts = b.compare(arith::CmpIPredicate::ult,
                           b.subi(magnitude, b.like(magnitude, 1)),
                           b.like(magnitude, f32Infinity - 1));
  return {b.select(counts, magnitude, b.like(magnitude, ~uint64_t(0)))};
}

static SmallVector<Value> buildExponent(SequenceBuilder &b, ExponentOp op) {
  Type f32 = b.builder.getF32Type();
  Value least = b.bitcast(op.getLeast(), f32);
  Value ratio = b.div(widenScale(b, op.getScale()), least);
  // Multiplication by 8 is exact.
  Value range = b.real(f32, 8.0 * foldLog2(*op.getCode().getRange()));
  Value eighths = b.div(range, buildLog2(b, ratio));
  Value bits = b.bits(eighths);
  bits = arith::MinUIOp::create(b.builder, b.loc, bits,
                                b.like(bits, bitsOf(128.0)));
  bits =
      arith::MaxUIOp::create(b.builder, b.loc, bits, b.like(bits, bitsOf(8.0)));
  Value whole = arith::FPToUIOp::create(
      b.builder, b.loc, b.builder.getI32Type(), b.bitcast(bits, f32));
  Value isEmpty = b.compare(arith::CmpIPredicate::eq, op.getLeast(),
                            b.like(op.getLeast(), ~uint64_t(0)));
  return {b.resize(b.select(isEmpty, b.like(whole, 8), whole),
                   b.builder.getIntegerType(8))};
}

/// Returns whether f32 bits are always those of a power of two or, if
/// `mayBeNaN`, a NaN, which a group whose codes have no NaN can have as its
/// scale.
static bool isPowerOfTwo(Value bits, bool mayBeNaN) {
  llvm::APInt constant;
  if (matchPattern(bits, m_ConstantInt(&constant)))
    return !(constant.getZExtValue() & f32MantissaMask) ||
           (mayBeNaN && constant.ugt(f32Infinity));
  if (auto select = bits.getDefiningOp<arith::SelectOp>())
    return isPowerOfTwo(select.getTrueValue(), mayBeNaN) &&
           isPowerOfTwo(select.getFalseValue(), mayBeNaN);
  auto mask = bits.getDefiningOp<arith::AndIOp>();
  return mask && matchPattern(mask.getRhs(), m_ConstantInt(&constant)) &&
         constant == f32Infinity;
}

/// Returns 1 / scale. The inverse of a power of two has the negated exponent,
/// unless the inverse is 2^-127: scales of codes whose largest number is less
/// than 2 reach 2^127.
static Value invert(SequenceBuilder &b, Value scale, CodeAttrInterface code) {
  Value bits = takeBits(b, scale);
  if (code.getLargest() < 2.0 || !isPowerOfTwo(bits, !code.hasNaN()))
    return b.div(b.real(scale.getType(), 1.0), scale);
  Value inverse = b.subi(b.like(bits, 2 * bitsOf(1.0)), bits);
  return b.bitcast(inverse, scale.getType());
}

static SmallVector<Value> buildQuantize(SequenceBuilder &b, QuantizeOp op) {
  Value scale = widenScale(b, op.getScale());
  Value inverse = invert(b, scale, op.getCode());
  Value value = op.getCode().prepare(b, op.getX());
  CodeInputs inputs{
      isFiniteMagnitude(b, op.getCode().hasNaN() ? takeMagnitude(b, value)
                                                 : takeMagnitude(b, scale)),
      widenExponent(b, op.getExponent()), op.getRandom(), Value()};
  if (op.getFloor())
    inputs.isPositive = b.compare(arith::CmpFPredicate::OGT, op.getX(),
                                  b.zero(op.getX().getType()));
  return op.getCode().quantize(b, value, inverse, inputs);
}

static SmallVector<Value> buildDequantize(SequenceBuilder &b, DequantizeOp op) {
  SmallVector<Value> bits = llvm::map_to_vector(
      op.getCodes(), [&](Value code) { return takeBits(b, code); });
  Value scale = widenScale(b, op.getScale());
  Value value = op.getCode().dequantize(
      b, bits, widenExponent(b, op.getExponent()), scale);
  return {op.getCode().finish(b, value)};
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// Replaces a value by one of its type or by its bits. Uses of the bits get the
/// integer itself, so that no small float remains between the two.
static void replace(PatternRewriter &rewriter, SequenceBuilder &b, Value before,
                    Value after) {
  for (Operation *user : llvm::make_early_inc_range(before.getUsers()))
    if (auto cast = dyn_cast<arith::BitcastOp>(user))
      if (isa<IntegerType>(getElementTypeOrSelf(cast.getType())))
        rewriter.replaceAllUsesWith(cast.getOut(), takeBits(b, after));
  rewriter.replaceAllUsesWith(
      before, b.bitcast(after, getElementTypeOrSelf(before.getType())));
}

/// Replaces an operation by the values that `build` returns for it.
template <typename OpTy, auto build>
static LogicalResult expand(OpTy op, PatternRewriter &rewriter) {
  SequenceBuilder b(rewriter, op.getLoc());
  SmallVector<Value> results = build(b, op);
  for (auto [before, after] : llvm::zip(op->getResults(), results))
    replace(rewriter, b, before, after);
  rewriter.eraseOp(op);
  return success();
}

void tandem::populateScaledToArithPatterns(RewritePatternSet &patterns) {
  patterns.add(expand<MagnitudeOp, buildMagnitude>);
  patterns.add(expand<LeastOp, buildLeast>);
  patterns.add(expand<ScaleOp, buildScale>);
  patterns.add(expand<GivenScaleOp, buildGivenScale>);
  patterns.add(expand<ExponentOp, buildExponent>);
  patterns.add(expand<QuantizeOp, buildQuantize>);
  patterns.add(expand<DequantizeOp, buildDequantize>);
}

namespace {
struct ConvertScaledToArithPass
    : public tandem::ExpandOperationsPass<
          tandem::impl::ConvertScaledToArithBase<ConvertScaledToArithPass>> {
  LogicalResult populate(RewritePatternSet &set) override {
    tandem::populateScaledToArithPatterns(set);
    return success();
  }
};
} // namespace
