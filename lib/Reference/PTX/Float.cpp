//===- Float.cpp - Floating-point arithmetic of PTX -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the correctly rounded arithmetic and the comparisons of
// PTX. It refuses approximate, flushing and fusible forms.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

using namespace tandem::reference;
using namespace tandem::reference::ptx;

namespace {

//===----------------------------------------------------------------------===//
// Handlers
//===----------------------------------------------------------------------===//

using Rounding = SoftFloat::Rounding;

/// Reads lane `shift / width` of a source.
SoftFloat read(Thread &t, const Instruction &i, unsigned slot, unsigned shift) {
  return SoftFloat::fromBits(i.format, t.slots[i.slot[slot]] >> shift);
}

/// Computes the result of every lane of an instruction with `function`.
template <typename Function>
void forEachLane(Thread &t, const Instruction &i, Function function) {
  uint64_t result = 0;
  for (unsigned shift = 0; shift < i.lanes * i.width; shift += i.width)
    result |= function(shift).toCanonicalBits() << shift;
  t.slots[i.slot[0]] = result;
}

using UnaryMember = SoftFloat (SoftFloat::*)() const;
using RoundedUnaryMember = SoftFloat (SoftFloat::*)(Rounding) const;
using BinaryMember = SoftFloat (SoftFloat::*)(const SoftFloat &) const;
using RoundedBinaryMember = SoftFloat (SoftFloat::*)(const SoftFloat &,
                                                     Rounding) const;

template <UnaryMember member>
void runUnary(Thread &t, const Instruction &i) {
  forEachLane(t, i,
              [&](unsigned shift) { return (read(t, i, 1, shift).*member)(); });
}

template <RoundedUnaryMember member>
void runRoundedUnary(Thread &t, const Instruction &i) {
  forEachLane(t, i, [&](unsigned shift) {
    return (read(t, i, 1, shift).*member)(i.rounding);
  });
}

template <BinaryMember member>
void runBinary(Thread &t, const Instruction &i) {
  forEachLane(t, i, [&](unsigned shift) {
    return (read(t, i, 1, shift).*member)(read(t, i, 2, shift));
  });
}

template <RoundedBinaryMember member>
void runRoundedBinary(Thread &t, const Instruction &i) {
  forEachLane(t, i, [&](unsigned shift) {
    return (read(t, i, 1, shift).*member)(read(t, i, 2, shift), i.rounding);
  });
}

/// Runs the sm_100 form with three sources.
template <BinaryMember member>
void runTernary(Thread &t, const Instruction &i) {
  forEachLane(t, i, [&](unsigned shift) {
    SoftFloat partial = (read(t, i, 1, shift).*member)(read(t, i, 2, shift));
    return (partial.*member)(read(t, i, 3, shift));
  });
}

void runFma(Thread &t, const Instruction &i) {
  forEachLane(t, i, [&](unsigned shift) {
    return read(t, i, 1, shift)
        .fma(read(t, i, 2, shift), read(t, i, 3, shift), i.rounding);
  });
}

void runReciprocal(Thread &t, const Instruction &i) {
  forEachLane(t, i, [&](unsigned shift) {
    return SoftFloat::fromInteger(i.format, 1)
        .div(read(t, i, 1, shift), i.rounding);
  });
}

/// Combines the sign of the first source with the magnitude of the second, bit
/// by bit.
void runCopySign(Thread &t, const Instruction &i) {
  uint64_t sign = uint64_t(1) << (i.width - 1);
  t.slots[i.slot[0]] =
      (t.slots[i.slot[1]] & sign) | (t.slots[i.slot[2]] & ~sign);
}

/// Compares floats. A scalar comparison writes its negation to q, a packed one
/// the result of its upper lane.
void runCompare(Thread &t, const Instruction &i) {
  auto holds = [&](unsigned shift) -> bool {
    Ordering ordering = read(t, i, 2, shift).compare(read(t, i, 3, shift));
    return i.condition & maskOf(ordering);
  };
  bool low = holds(0);
  bool second = i.lanes == 2 ? holds(i.width) : !low;
  t.slots[i.slot[1]] = second;
  t.slots[i.slot[0]] = low;
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

bool takeFloatType(Decoder &d, PTXType &type) {
  if (!d.takeType(type))
    return false;
  if (!type.isFloat() || type.width == 8)
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  d.result.width = type.width;
  d.result.lanes = type.lanes;
  d.result.format = type.format;
  return true;
}

/// Consumes .rn, without which the assembler may approximate, or fuse a product
/// and a sum.
bool takeRounding(Decoder &d) {
  return d.take("rn") ||
         d.fail("'" + d.statement.opcode +
                "': only the .rn form is known; without it the result may be "
                "fused, approximate or rounded otherwise");
}

bool operands(Decoder &d, const PTXType &type, unsigned numSources) {
  if (!d.expectOperands(numSources + 1) || !d.destination(0, type.totalWidth()))
    return false;
  for (unsigned index = 1; index <= numSources; ++index)
    if (!d.source(index, type, index))
      return false;
  return true;
}

/// Reads the source of a mixed form, in which all sources except the last are
/// narrower.
template <unsigned numSources>
SoftFloat readMixed(Thread &t, const Instruction &i, unsigned slot) {
  bool isNarrow = slot < numSources;
  SoftFloat value = SoftFloat::fromBits(isNarrow ? i.sourceFormat : i.format,
                                        t.slots[i.slot[slot]]);
  return isNarrow ? value.convert(i.format, Rounding::NearestTiesToEven)
                  : value;
}

template <RoundedBinaryMember member>
void runMixedBinary(Thread &t, const Instruction &i) {
  forEachLane(t, i, [&](unsigned) {
    return (readMixed<2>(t, i, 1).*member)(readMixed<2>(t, i, 2), i.rounding);
  });
}

void runMixedFma(Thread &t, const Instruction &i) {
  forEachLane(t, i, [&](unsigned) {
    return readMixed<3>(t, i, 1).fma(readMixed<3>(t, i, 2),
                                     readMixed<3>(t, i, 3), i.rounding);
  });
}

/// Decodes the sm_100 form that reads 16-bit floats and computes in f32.
template <unsigned numSources>
bool decodeMixed(Decoder &d, Handler handler, const PTXType &type) {
  PTXType narrow;
  d.result.handler = handler;
  if (!handler || !d.takeType(narrow) || !narrow.isFloat() ||
      narrow.totalWidth() != 16 || type.format != Format::F32 ||
      type.lanes != 1)
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  d.result.sourceFormat = narrow.format;
  if (!d.expectOperands(numSources + 1) || !d.destination(0, 32))
    return false;
  for (unsigned index = 1; index <= numSources; ++index)
    if (!d.source(index, index < numSources ? narrow : type, index))
      return false;
  return true;
}

template <Handler handler, unsigned numSources, Handler mixed = nullptr>
bool decodeRounded(Decoder &d) {
  PTXType type;
  d.result.handler = handler;
  if (!takeRounding(d) || !takeFloatType(d, type))
    return false;
  if (!d.peek().empty())
    return decodeMixed<numSources>(d, mixed, type);
  return operands(d, type, numSources);
}

/// Decodes div, rcp and sqrt, which exist only for f32 and f64.
template <Handler handler, unsigned numSources>
bool decodeScalarRounded(Decoder &d) {
  PTXType type;
  d.result.handler = handler;
  if (!takeRounding(d) || !takeFloatType(d, type))
    return false;
  if (type.width < 32 || type.lanes != 1)
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  return operands(d, type, numSources);
}

template <Handler handler, unsigned numSources>
bool decodeExact(Decoder &d) {
  PTXType type;
  d.result.handler = handler;
  return takeFloatType(d, type) && operands(d, type, numSources);
}

template <BinaryMember number, BinaryMember propagating>
bool decodeMinMax(Decoder &d) {
  bool propagates = d.take("NaN");
  bool isTernary = d.getNumOperands() == 4;
  PTXType type;
  if (!takeFloatType(d, type))
    return false;
  if ((type.format == Format::F64 && propagates) ||
      (type.format == Format::F32 && type.lanes == 2) ||
      (type.format != Format::F32 && isTernary))
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  if (isTernary)
    d.result.handler =
        propagates ? runTernary<propagating> : runTernary<number>;
  else
    d.result.handler = propagates ? runBinary<propagating> : runBinary<number>;
  return operands(d, type, isTernary ? 3 : 2);
}

bool decodeCopySign(Decoder &d) {
  PTXType type;
  d.result.handler = runCopySign;
  if (!takeFloatType(d, type))
    return false;
  if (type.width < 32 || type.lanes != 1)
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  return operands(d, type, 2);
}

bool decodeSetp(Decoder &d) {
  PTXType type;
  return decodeComparison(d, d.result.condition) && takeFloatType(d, type) &&
         decodePredicates(d, runCompare, type);
}

const Opcode kOpcodes[] = {
    {"add", OpcodeClass::Float,
     decodeRounded<runRoundedBinary<&SoftFloat::add>, 2,
                   runMixedBinary<&SoftFloat::add>>},
    {"sub", OpcodeClass::Float,
     decodeRounded<runRoundedBinary<&SoftFloat::sub>, 2,
                   runMixedBinary<&SoftFloat::sub>>},
    {"mul", OpcodeClass::Float,
     decodeRounded<runRoundedBinary<&SoftFloat::mul>, 2>},
    {"fma", OpcodeClass::Float, decodeRounded<runFma, 3, runMixedFma>},
    {"div", OpcodeClass::Float,
     decodeScalarRounded<runRoundedBinary<&SoftFloat::div>, 2>},
    {"rcp", OpcodeClass::Float, decodeScalarRounded<runReciprocal, 1>},
    {"sqrt", OpcodeClass::Float,
     decodeScalarRounded<runRoundedUnary<&SoftFloat::sqrt>, 1>},
    {"neg", OpcodeClass::Float, decodeExact<runUnary<&SoftFloat::neg>, 1>},
    {"abs", OpcodeClass::Float, decodeExact<runUnary<&SoftFloat::abs>, 1>},
    {"copysign", OpcodeClass::Float, decodeCopySign},
    {"min", OpcodeClass::Float,
     decodeMinMax<&SoftFloat::minNum, &SoftFloat::minimum>},
    {"max", OpcodeClass::Float,
     decodeMinMax<&SoftFloat::maxNum, &SoftFloat::maximum>},
    {"setp", OpcodeClass::Float, decodeSetp},
};

} // namespace

llvm::ArrayRef<Opcode> ptx::getFloatOpcodes() { return kOpcodes; }
