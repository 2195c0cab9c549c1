//===- FloatEmulation.cpp - Small floats in f32 lanes ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the sequences that compute small float formats in f32.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Arith/Utils/FloatEmulation.h"
#include "mlir/IR/TypeUtilities.h"
#include <cmath>

using namespace mlir;
using namespace tandem;
using arith::CmpFPredicate;
using arith::CmpIPredicate;

/// Returns the number of bits that f32's mantissa has beyond the format's.
static unsigned droppedBits(FloatFormat format) {
  return 23 - format.mantissaBits;
}

/// Returns the f32 bits of 2^exponent.
static uint64_t powerOfTwo(int exponent) {
  return uint64_t(exponent + 127) << 23;
}

/// Rounds the mantissa to nearest even by dropping low bits. Carries run into
/// the exponent as they should.
static Value roundMantissa(SequenceBuilder &b, Value bits, unsigned dropped) {
  uint64_t half = (uint64_t(1) << (dropped - 1)) - 1;
  Value odd = b.andi(b.shr(bits, dropped), b.like(bits, 1));
  Value sum = b.addi(b.addi(bits, b.like(bits, half)), odd);
  return b.andi(sum, b.like(bits, ~((uint64_t(1) << dropped) - 1)));
}

/// Rounds to bf16. It has f32's exponents, so that one integer rounding serves
/// normal and subnormal numbers.
static Value roundBF16(SequenceBuilder &b, Value lanes, bool cleanNaN) {
  Value bits = b.bits(lanes);
  Value rounded = roundMantissa(b, bits, 16);
  if (!cleanNaN) {
    Value magnitude = b.andi(bits, b.like(bits, f32Magnitude));
    Value isNaN =
        b.compare(CmpIPredicate::ugt, magnitude, b.like(bits, f32Infinity));
    rounded = b.select(isNaN, b.like(bits, f32QuietNaN), rounded);
  }
  return b.bitcast(rounded, b.builder.getF32Type());
}

/// Rounds |x|, which is below the format's smallest normal number, to the
/// subnormal quantum q by adding and subtracting 2^23 q.
static Value roundSubnormal(SequenceBuilder &b, Value magnitude,
                            FloatFormat format) {
  Type f32 = b.builder.getF32Type();
  int quantum = format.minExponent() - int(format.mantissaBits);
  Value value = b.bitcast(magnitude, f32);
  Value anchor = b.fromBits(value.getType(), powerOfTwo(quantum + 23));
  return b.bits(b.sub(b.add(value, anchor), anchor));
}

/// Returns the largest finite number of the format, as f32 bits.
static uint64_t maxFiniteAsF32(FloatFormat format) {
  uint64_t code = format.maxFinite();
  uint64_t rebias = uint64_t(127 - format.bias) << 23;
  return (code << droppedBits(format)) + rebias;
}

Value tandem::roundLanes(SequenceBuilder &b, Value lanes, FloatFormat format,
                         bool cleanNaN) {
  if (format.exponentBits == 8)
    return roundBF16(b, lanes, cleanNaN);
  Value bits = b.bits(lanes);
  Value magnitude = b.andi(bits, b.like(bits, f32Magnitude));
  Value sign = b.xori(bits, magnitude);
  Value isSubnormal = b.compare(CmpIPredicate::ult, magnitude,
                                b.like(bits, powerOfTwo(format.minExponent())));
  Value normal = roundMantissa(b, magnitude, droppedBits(format));
  Value subnormal = roundSubnormal(b, magnitude, format);
  Value rounded = b.select(isSubnormal, subnormal, normal);
  Value overflows = b.compare(CmpIPredicate::ugt, rounded,
                              b.like(bits, maxFiniteAsF32(format)));
  rounded = b.select(
      overflows, b.like(bits, format.hasInfinity() ? f32Infinity : f32QuietNaN),
      rounded);
  Value isNaN =
      b.compare(CmpIPredicate::ugt, magnitude, b.like(bits, f32Infinity));
  rounded = b.select(isNaN, b.like(bits, f32QuietNaN), rounded);
  return b.bitcast(b.ori(rounded, sign), b.builder.getF32Type());
}

RoundedMagnitude tandem::roundByAnchor(SequenceBuilder &b, Value magnitude,
                                       FloatFormat format) {
  Type f32 = b.builder.getF32Type();
  unsigned dropped = droppedBits(format);
  Value exponent = b.andi(magnitude, b.like(magnitude, f32Infinity));
  Value least = b.like(exponent, powerOfTwo(format.minExponent()));
  exponent = arith::MaxUIOp::create(b.builder, b.loc, exponent, least);
  // The sum's low bits count units in the last place, and the exponent is added
  // above them. The anchor already has the least exponent's code subtracted,
  // which is an even number of units, modulo the number of codes.
  uint64_t codes = uint64_t(1) << format.width();
  uint64_t offset =
      -uint64_t((format.minExponent() + 127) << format.mantissaBits) % codes;
  Value anchor = b.bitcast(
      b.addi(exponent, b.like(exponent, (uint64_t(dropped) << 23) + offset)),
      f32);
  Value sum = b.add(b.bitcast(magnitude, f32), anchor);
  Value field = b.shr(exponent, dropped);
  Value code = b.addi(b.bits(sum), field);
  return {b.sub(sum, anchor), code};
}

/// Returns whether the anchor of every magnitude is finite.
static bool hasAnchors(FloatFormat format) {
  double largest = format.decode(format.maxFinite());
  return format.mantissaBits > 0 &&
         std::ilogb(largest) + int(droppedBits(format)) <= 127;
}

namespace {
/// A magnitude in units of the format's last place: `significand` times
/// 2^-(dropped + below), with codes that begin at `base`. `below` is at most
/// 31.
struct AlignedMagnitude {
  Value significand, below, base;
};
} // namespace

/// Limits a shift of an i32 to 31, which leaves nothing of 31 bits.
static Value limitShift(SequenceBuilder &b, Value amount) {
  return arith::MinUIOp::create(b.builder, b.loc, amount, b.like(amount, 31));
}

static AlignedMagnitude alignMagnitude(SequenceBuilder &b, Value magnitude,
                                       FloatFormat format) {
  Value field = b.shr(magnitude, 23), hidden = b.like(field, 0x800000);
  Value least = b.like(field, format.minExponent() + 127);
  // Subnormal f32 numbers, with the exponent of the smallest normal one, count
  // if not all their bits are shifted out.
  if (format.minExponent() < -64) {
    Value one = b.like(field, 1);
    Value isSubnormal = b.compare(CmpIPredicate::ult, field, one);
    hidden = b.select(isSubnormal, b.like(field, 0), hidden);
    field = arith::MaxUIOp::create(b.builder, b.loc, field, one);
  }
  Value significand =
      b.ori(b.andi(magnitude, b.like(magnitude, 0x7FFFFF)), hidden);
  Value clamped = arith::MaxUIOp::create(b.builder, b.loc, field, least);
  return {significand, limitShift(b, b.subi(clamped, field)),
          b.shl(b.subi(clamped, least), format.mantissaBits)};
}

static Value shiftDown(SequenceBuilder &b, Value value, Value amount) {
  return arith::ShRUIOp::create(b.builder, b.loc, value, amount);
}

/// Rounds to nearest.
static Value roundAligned(SequenceBuilder &b, AlignedMagnitude x,
                          FloatFormat format) {
  Value shift =
      limitShift(b, b.addi(x.below, b.like(x.below, droppedBits(format))));
  Value one = b.like(shift, 1);
  Value code = b.addi(shiftDown(b, x.significand, shift), x.base);
  Value unit = arith::ShLIOp::create(b.builder, b.loc, one, shift);
  Value half = b.subi(b.shr(unit, 1), one);
  Value isOdd = b.andi(code, one);
  Value sum = b.addi(b.addi(x.significand, half), isOdd);
  return b.addi(shiftDown(b, sum, shift), x.base);
}

/// Counts the units of zero and of normal numbers: the bits of an f32 after
/// zero's code, which would be the bits of half the smallest normal number.
static Value countNormalUnits(SequenceBuilder &b, Value magnitude,
                              FloatFormat format, unsigned guard) {
  Value zero = b.like(magnitude, powerOfTwo(format.minExponent() - 1));
  Value count =
      b.subi(arith::MaxUIOp::create(b.builder, b.loc, magnitude, zero), zero);
  return guard ? b.shl(count, guard) : count;
}

/// Returns a code with its fraction: a magnitude whose upper bits are the
/// format's code and whose lower `dropped + guard` bits follow the unit.
static Value countUnits(SequenceBuilder &b, Value magnitude, FloatFormat format,
                        unsigned guard, bool hasSubnormals) {
  int least = format.minExponent();
  if (!hasSubnormals && least > -126)
    return countNormalUnits(b, magnitude, format, guard);
  if (least < -64) {
    AlignedMagnitude x = alignMagnitude(b, magnitude, format);
    Value bits = shiftDown(b, b.shl(x.significand, guard), x.below);
    return b.addi(bits, b.shl(x.base, droppedBits(format) + guard));
  }
  // From the smallest normal number on, the bits of an f32 count units. Below
  // it the number times a power of two does, which is an exact product.
  Value limit = b.like(magnitude, powerOfTwo(least));
  Value below = arith::MinUIOp::create(b.builder, b.loc, magnitude, limit);
  Value number = b.bitcast(below, b.builder.getF32Type());
  Value power = b.real(number.getType(), std::ldexp(1.0, 23 + guard - least));
  Value count = arith::FPToSIOp::create(b.builder, b.loc, magnitude.getType(),
                                        b.mul(number, power));
  Value beyond = b.subi(magnitude, below);
  return b.addi(count, guard ? b.shl(beyond, guard) : beyond);
}

/// Drops the lowest `count` bits, after adding random bits that make the rest
/// round up: fewer than 16 are compared with as many of the upper random bits.
/// Dither rounds the fraction to 16 bits, so that a value a rounding error
/// below a number becomes that number.
static Value shiftByBits(SequenceBuilder &b, Value bits, unsigned count,
                         RoundingMode rounding, Value random) {
  if (count < 16)
    return b.shr(b.addi(bits, b.shr(random, 16 - count)), count);
  Value added = b.shl(random, count - 16);
  if (rounding == RoundingMode::dither && count > 16)
    added = b.addi(added, b.like(added, uint64_t(1) << (count - 17)));
  return b.shr(b.addi(bits, added), count);
}

/// Rounds to a format with f32's exponents, whose codes are the upper bits of
/// an f32.
static Value roundUpperBits(SequenceBuilder &b, Value magnitude,
                            FloatFormat format, RoundingMode rounding,
                            Value random) {
  unsigned dropped = droppedBits(format);
  if (dropped == 0)
    return magnitude;
  if (drawsBits(rounding))
    return shiftByBits(b, magnitude, dropped, rounding, random);
  if (rounding == RoundingMode::nearest)
    magnitude = roundMantissa(b, magnitude, dropped);
  return b.shr(magnitude, dropped);
}

Value tandem::roundMagnitude(SequenceBuilder &b, Value magnitude,
                             FloatFormat format, RoundingMode rounding,
                             Value random, bool hasSubnormals) {
  if (format.bias > 127) {
    Value number = b.bitcast(magnitude, b.builder.getF32Type());
    Value power = b.real(number.getType(), std::ldexp(1.0, format.bias - 127));
    magnitude = b.bits(b.mul(number, power));
    format.bias = 127;
  }
  if (format.bias == 127)
    return roundUpperBits(b, magnitude, format, rounding, random);
  if (rounding == RoundingMode::nearest && hasAnchors(format))
    return roundByAnchor(b, magnitude, format).code;
  if (rounding == RoundingMode::nearest)
    return roundAligned(b, alignMagnitude(b, magnitude, format), format);
  unsigned dropped = droppedBits(format);
  if (rounding == RoundingMode::toward_zero)
    return b.shr(countUnits(b, magnitude, format, /*guard=*/0, hasSubnormals),
                 dropped);
  // At least sixteen bits follow the unit, and one to round them by.
  unsigned wanted = rounding == RoundingMode::dither ? 17 : 16;
  unsigned guard = dropped < wanted ? wanted - dropped : 0;
  return shiftByBits(b, countUnits(b, magnitude, format, guard, hasSubnormals),
                     dropped + guard, rounding, random);
}

Value tandem::unpackMagnitude(SequenceBuilder &b, Value code,
                              FloatFormat format) {
  if (format.bias >= 127) {
    // The f32 has the same fields, up to a power of two.
    Value bits = b.shl(code, droppedBits(format));
    Value number = b.bitcast(bits, b.builder.getF32Type());
    if (format.bias == 127)
      return number;
    return b.mul(number,
                 b.real(number.getType(), std::ldexp(1.0, 127 - format.bias)));
  }
  Value isSubnormal =
      b.compare(CmpIPredicate::ult, code,
                b.like(code, uint64_t(1) << format.mantissaBits));
  Value bits = b.addi(b.shl(code, droppedBits(format)),
                      b.like(code, uint64_t(127 - format.bias) << 23));
  // Decode as if normal, then subtract the bit that a subnormal number lacks.
  bits = b.select(isSubnormal, b.addi(bits, b.like(bits, 0x800000)), bits);
  Value value = b.bitcast(bits, b.builder.getF32Type());
  Value hidden = b.fromBits(value.getType(), powerOfTwo(format.minExponent()));
  return b.select(isSubnormal, b.sub(value, hidden), value);
}

/// Returns the code (i32) of an f32's magnitude bits that the format holds
/// exactly.
static Value packMagnitude(SequenceBuilder &b, Value magnitude,
                           FloatFormat format) {
  int quantum = format.minExponent() - int(format.mantissaBits);
  Value value = b.bitcast(magnitude, b.builder.getF32Type());
  Value anchor = b.fromBits(value.getType(), powerOfTwo(quantum + 23));
  Value zero = b.bits(anchor);
  Value subnormal = b.subi(b.bits(b.add(value, anchor)), zero);
  Value normal = b.shr(
      b.subi(magnitude, b.like(magnitude, uint64_t(127 - format.bias) << 23)),
      droppedBits(format));
  Value isSubnormal =
      b.compare(CmpIPredicate::ult, magnitude,
                b.like(magnitude, powerOfTwo(format.minExponent())));
  return b.select(isSubnormal, subnormal, normal);
}

Value tandem::decodeLanes(SequenceBuilder &b, Value code, FloatFormat format) {
  Type f32 = b.builder.getF32Type();
  Value bits = b.resize(code, b.builder.getI32Type());
  if (format.exponentBits == 8)
    return b.bitcast(b.shl(bits, 16), f32);
  Value magnitude = b.andi(bits, b.like(bits, format.magnitudeMask()));
  Value sign =
      b.shl(b.andi(bits, b.like(bits, format.signMask())), 32 - format.width());
  Value finite = b.bits(unpackMagnitude(b, magnitude, format));
  // A NaN loses its payload: lanes hold none in the bits that bf16 drops.
  Value special = b.like(bits, f32QuietNaN);
  if (format.hasInfinity())
    special = b.select(b.compare(CmpIPredicate::eq, magnitude,
                                 b.like(bits, format.infinity())),
                       b.like(bits, f32Infinity), special);
  Value isSpecial = b.compare(CmpIPredicate::ugt, magnitude,
                              b.like(bits, format.maxFinite()));
  Value result = b.select(isSpecial, special, finite);
  return b.bitcast(b.ori(result, sign), f32);
}

Value tandem::encodeLanes(SequenceBuilder &b, Value lanes, FloatFormat format) {
  Value bits = b.bits(lanes);
  Type integer = b.builder.getIntegerType(format.width());
  if (format.exponentBits == 8)
    return b.resize(b.shr(bits, 16), integer);
  Value magnitude = b.andi(bits, b.like(bits, f32Magnitude));
  Value sign = b.shr(b.xori(bits, magnitude), 32 - format.width());
  Value finite = packMagnitude(b, magnitude, format);
  Value isNaN =
      b.compare(CmpIPredicate::ugt, magnitude, b.like(bits, f32Infinity));
  Value code = finite;
  if (format.hasInfinity())
    code = b.select(
        b.compare(CmpIPredicate::eq, magnitude, b.like(bits, f32Infinity)),
        b.like(bits, format.infinity()), code);
  code =
      b.select(isNaN, b.like(bits, format.canonicalNaN()), b.ori(code, sign));
  return b.resize(code, integer);
}

/// Returns the value or, if `inexact`, the neighbour with an odd last bit on
/// the side of the exact value. `grow` says whether that has the larger
/// magnitude.
static Value makeOdd(SequenceBuilder &b, Value value, Value inexact,
                     Value grow) {
  Value bits = b.bits(value);
  Value isOdd = b.compare(CmpIPredicate::ne, b.andi(bits, b.like(bits, 1)),
                          b.like(bits, 0));
  Value smaller = b.subi(bits, b.like(bits, 1));
  Value larger = b.addi(bits, b.like(bits, 1));
  Value neighbour = b.select(grow, larger, smaller);
  Value adjusted = b.select(isOdd, bits, neighbour);
  return b.bitcast(b.select(inexact, adjusted, bits),
                   getElementTypeOrSelf(value.getType()));
}

Value tandem::roundToOddF32(SequenceBuilder &b, Value wide) {
  Value narrow = b.convert(wide, b.builder.getF32Type());
  Value back = b.convert(narrow, b.builder.getF64Type());
  // The comparison is ordered, so that a NaN is exact.
  Value inexact = b.compare(CmpFPredicate::ONE, back, wide);
  Value magnitude = b.abs(wide);
  Value grow = b.compare(CmpFPredicate::OLT, b.abs(back), magnitude);
  return makeOdd(b, narrow, inexact, grow);
}

Value tandem::fmaToOddF32(SequenceBuilder &b, Value x, Value y, Value z) {
  Type f64 = b.builder.getF64Type();
  Value factor = b.convert(y, f64);
  Value product = b.mul(b.convert(x, f64), factor);
  Value addend = b.convert(z, f64);
  Value sum = b.add(product, addend);
  Value second = b.sub(sum, product);
  Value first = b.sub(sum, second);
  Value errorOfSecond = b.sub(addend, second);
  Value error = b.add(b.sub(product, first), errorOfSecond);
  Value zero = b.real(sum.getType(), 0.0);
  Value inexact = b.compare(CmpFPredicate::ONE, error, zero);
  Value errorSign = b.compare(CmpFPredicate::OGT, error, zero);
  Value sumSign = b.compare(CmpFPredicate::OGT, sum, zero);
  Value grow = b.compare(CmpIPredicate::eq, errorSign, sumSign);
  return roundToOddF32(b, makeOdd(b, sum, inexact, grow));
}
