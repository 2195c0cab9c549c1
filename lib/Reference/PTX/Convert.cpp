//===- Convert.cpp - Conversions of PTX -----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements cvt between integers and floats, and the packed forms.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include <algorithm>

using namespace tandem::reference;
using namespace tandem::reference::ptx;
using Rounding = SoftFloat::Rounding;

namespace {

//===----------------------------------------------------------------------===//
// Handlers
//===----------------------------------------------------------------------===//

/// Writes a result. If it is narrower than its register, its sign is extended.
void writeInteger(Thread &t, const Instruction &i, uint64_t value) {
  value &= maskOfWidth(i.width);
  if (i.isSigned)
    value = signExtend(value, i.width) & maskOfWidth(i.registerWidth);
  t.slots[i.slot[0]] = value;
}

/// Reads the low bits of a source register, which may be wider than the source
/// type.
uint64_t readInteger(Thread &t, const Instruction &i) {
  uint64_t value = t.slots[i.slot[1]] & maskOfWidth(i.sourceWidth);
  return i.sourceIsSigned ? signExtend(value, i.sourceWidth) : value;
}

SoftFloat readFloat(Thread &t, const Instruction &i, unsigned slot = 1,
                    unsigned lane = 0) {
  return SoftFloat::fromBits(i.sourceFormat,
                             t.slots[i.slot[slot]] >> (lane * i.sourceWidth));
}

void runIntegerToInteger(Thread &t, const Instruction &i) {
  writeInteger(t, i, readInteger(t, i));
}

void runSaturateInteger(Thread &t, const Instruction &i) {
  __int128 value = readInteger(t, i);
  if (i.sourceIsSigned)
    value = static_cast<int64_t>(readInteger(t, i));
  __int128 one = 1;
  __int128 low = i.isSigned ? -(one << (i.width - 1)) : 0;
  __int128 high = (one << (i.isSigned ? i.width - 1 : i.width)) - 1;
  writeInteger(t, i, static_cast<uint64_t>(std::clamp(value, low, high)));
}

void runIntegerToFloat(Thread &t, const Instruction &i) {
  uint64_t value = readInteger(t, i);
  SoftFloat result = i.sourceIsSigned
                         ? SoftFloat::fromInteger(i.format, value, i.rounding)
                         : SoftFloat::fromUnsigned(i.format, value, i.rounding);
  t.slots[i.slot[0]] = result.toBits();
}

/// Converts NaN to zero or, if 64 bits are involved, to a number with only the
/// top bit set.
void runFloatToInteger(Thread &t, const Instruction &i) {
  bool is64Bit = i.width == 64 || i.sourceWidth == 64;
  uint64_t ofNaN = is64Bit ? uint64_t(1) << (i.width - 1) : 0;
  writeInteger(t, i,
               readFloat(t, i)
                   .toInteger(i.width, i.isSigned, i.rounding)
                   .value_or(ofNaN));
}

/// Clamps to [+0, 1] and converts NaN to zero, as .sat does.
SoftFloat clampToUnit(const SoftFloat &value) {
  SoftFloat zero(value.getFormat());
  SoftFloat one = SoftFloat::fromInteger(value.getFormat(), 1);
  return value.maxNum(zero).minNum(one);
}

void writeFloat(Thread &t, const Instruction &i, const SoftFloat &value) {
  t.slots[i.slot[0]] =
      (i.saturate ? clampToUnit(value) : value).toCanonicalBits();
}

void runFloatToFloat(Thread &t, const Instruction &i) {
  writeFloat(t, i, readFloat(t, i).convert(i.format, i.rounding));
}

void runRoundToIntegral(Thread &t, const Instruction &i) {
  writeFloat(t, i, readFloat(t, i).roundToIntegral(i.rounding));
}

/// Returns an 8-bit NaN. PTX leaves open which one a NaN becomes, so that this
/// is one that kernels never store.
uint64_t getOpenNaN(Format format) {
  return format == Format::F8E5M2 ? 0xFD : 0xFF;
}

uint64_t convertLane(const Instruction &i, const SoftFloat &value) {
  if (value.isNaN() && i.width == 8)
    return getOpenNaN(i.format);
  return value.convert(i.format, i.rounding, i.overflow).toCanonicalBits();
}

/// Packs two sources. The first goes to the upper half.
void runPack(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] = convertLane(i, readFloat(t, i, 1)) << i.width |
                       convertLane(i, readFloat(t, i, 2));
}

void runConvertPair(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] = convertLane(i, readFloat(t, i, 1, 1)) << i.width |
                       convertLane(i, readFloat(t, i, 1, 0));
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

/// The modifiers between `cvt` and the types.
struct Modifiers {
  bool hasRounding = false, toIntegral = false, satfinite = false, sat = false;
};

Modifiers takeModifiers(Decoder &d) {
  static constexpr std::pair<llvm::StringLiteral, Rounding> kModes[] = {
      {"rn", Rounding::NearestTiesToEven},
      {"rz", Rounding::TowardZero},
      {"rm", Rounding::TowardNegative},
      {"rp", Rounding::TowardPositive}};
  Modifiers modifiers;
  for (const auto &[name, mode] : kModes) {
    if (d.take(name)) {
      modifiers.hasRounding = true;
      d.result.rounding = mode;
    } else if (d.take((name + "i").str())) {
      modifiers.hasRounding = modifiers.toIntegral = true;
      d.result.rounding = mode;
    }
  }
  modifiers.satfinite = d.take("satfinite");
  modifiers.sat = d.result.saturate = d.take("sat");
  if (modifiers.satfinite)
    d.result.overflow = Overflow::SaturateAll;
  return modifiers;
}

bool unknown(Decoder &d) {
  return d.fail("unknown conversion '" + d.statement.opcode + "'");
}

/// Returns whether `to` has every integer of `from`. PTX has no .sat for such a
/// conversion.
bool holdsAll(const PTXType &to, const PTXType &from) {
  if (to.isSigned() == from.isSigned())
    return to.width >= from.width;
  return to.isSigned() && to.width > from.width;
}

/// Returns the handler of a conversion between scalars, or null if there is
/// none.
Handler selectScalar(const Modifiers &modifiers, const PTXType &to,
                     const PTXType &from) {
  if (modifiers.satfinite)
    return nullptr;
  if (!to.isFloat() && !from.isFloat()) {
    if (modifiers.hasRounding || (modifiers.sat && holdsAll(to, from)))
      return nullptr;
    return modifiers.sat ? runSaturateInteger : runIntegerToInteger;
  }
  if (!to.isFloat()) // Always clamps, with or without .sat.
    return modifiers.toIntegral ? runFloatToInteger : nullptr;
  if (!from.isFloat())
    return modifiers.hasRounding && !modifiers.toIntegral && !modifiers.sat
               ? runIntegerToFloat
               : nullptr;
  if (to.format == from.format)
    return modifiers.hasRounding && !modifiers.toIntegral ? nullptr
           : modifiers.toIntegral                         ? runRoundToIntegral
                                                          : runFloatToFloat;
  bool narrows = getPrecision(to.format) < getPrecision(from.format) ||
                 to.width < from.width ||
                 (to.width == from.width && to.width == 16);
  return narrows == modifiers.hasRounding && !modifiers.toIntegral
             ? runFloatToFloat
             : nullptr;
}

bool decodeScalar(Decoder &d, const Modifiers &modifiers, const PTXType &to,
                  const PTXType &from) {
  d.result.handler = selectScalar(modifiers, to, from);
  if (!d.result.handler)
    return unknown(d);
  return d.expectOperands(2) &&
         d.destination(d.operand(0), to.width, 0, !to.isFloat()) &&
         d.source(d.operand(1), from, 1, !from.isFloat());
}

/// Decodes cvt.rn.{bf16x2,f16x2}.f32 and cvt.rn.satfinite.{e4m3x2,e5m2x2}.f32.
bool decodePack(Decoder &d, const Modifiers &modifiers, const PTXType &to,
                const PTXType &from) {
  bool isFP8 = to.width == 8;
  if (from.format != Format::F32 || from.lanes != 1 || to.width > 16 ||
      modifiers.satfinite != isFP8 ||
      (isFP8 && d.result.rounding != Rounding::NearestTiesToEven))
    return unknown(d);
  d.result.handler = runPack;
  return d.expectOperands(3) && d.destination(0, to.totalWidth()) &&
         d.source(1, from, 1) && d.source(2, from, 2);
}

/// Decodes conversions between f16x2 and pairs of 8-bit floats.
bool decodePair(Decoder &d, const Modifiers &modifiers, const PTXType &to,
                const PTXType &from) {
  bool toFP8 = to.width == 8 && from.format == Format::F16;
  bool fromFP8 = from.width == 8 && to.format == Format::F16;
  if ((!toFP8 && !fromFP8) || modifiers.satfinite != toFP8 ||
      d.result.rounding != Rounding::NearestTiesToEven)
    return unknown(d);
  d.result.handler = runConvertPair;
  return d.expectOperands(2) && d.destination(0, to.totalWidth()) &&
         d.source(1, from, 1);
}

bool isConvertible(const PTXType &type) {
  return type.isFloat() ||
         ((type.kind == PTXType::Unsigned || type.kind == PTXType::Signed) &&
          type.lanes == 1);
}

bool decodeConvert(Decoder &d) {
  Modifiers modifiers = takeModifiers(d);
  PTXType to, from;
  if (!d.takeType(to) || !d.takeType(from))
    return false;
  if (!isConvertible(to) || !isConvertible(from))
    return unknown(d);
  d.result.width = to.width;
  d.result.sourceWidth = from.width;
  d.result.isSigned = to.isSigned();
  d.result.sourceIsSigned = from.isSigned();
  d.result.format = to.format;
  d.result.sourceFormat = from.format;
  if (to.lanes == 1 && from.lanes == 1)
    return decodeScalar(d, modifiers, to, from);
  if (!modifiers.hasRounding || modifiers.toIntegral || modifiers.sat ||
      !to.isFloat() || !from.isFloat())
    return unknown(d);
  return from.lanes == 1 ? decodePack(d, modifiers, to, from)
                         : decodePair(d, modifiers, to, from);
}

const Opcode kOpcodes[] = {{"cvt", OpcodeClass::Any, decodeConvert}};

} // namespace

llvm::ArrayRef<Opcode> ptx::getConvertOpcodes() { return kOpcodes; }
