//===- Bits.cpp - Bit operations of PTX -----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements logic, shifts, bit fields, permutations and counts.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace tandem::reference;
using namespace tandem::reference::ptx;

namespace {

//===----------------------------------------------------------------------===//
// Logic and shifts
//===----------------------------------------------------------------------===//

enum class Logic { And, Or, Xor };

template <Logic logic>
void runLogic(Thread &t, const Instruction &i) {
  uint64_t a = t.slots[i.slot[1]], b = t.slots[i.slot[2]];
  t.slots[i.slot[0]] = logic == Logic::And  ? a & b
                       : logic == Logic::Or ? a | b
                                            : a ^ b;
}

void runNot(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] = ~t.slots[i.slot[1]] & maskOfWidth(i.width);
}

/// Shifts left. Amounts of at least the width shift everything out.
void runShiftLeft(Thread &t, const Instruction &i) {
  uint64_t amount = t.slots[i.slot[2]];
  t.slots[i.slot[0]] =
      amount >= i.width ? 0
                        : (t.slots[i.slot[1]] << amount) & maskOfWidth(i.width);
}

void runShiftRight(Thread &t, const Instruction &i) {
  uint64_t amount = t.slots[i.slot[2]];
  t.slots[i.slot[0]] = amount >= i.width ? 0 : t.slots[i.slot[1]] >> amount;
}

void runShiftRightSigned(Thread &t, const Instruction &i) {
  uint64_t amount = std::min<uint64_t>(t.slots[i.slot[2]], i.width - 1);
  t.slots[i.slot[0]] = (signExtend(t.slots[i.slot[1]], i.width) >> amount) &
                       maskOfWidth(i.width);
}

/// Returns the 32-bit amount of a funnel shift, clamped if i.saturate is set
/// and else wrapped.
unsigned funnelAmount(Thread &t, const Instruction &i) {
  uint64_t amount = t.slots[i.slot[3]];
  return i.saturate ? std::min<uint64_t>(amount, 32) : amount & 31;
}

uint64_t funnelSource(Thread &t, const Instruction &i) {
  return (t.slots[i.slot[2]] << 32) | t.slots[i.slot[1]];
}

void runFunnelLeft(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] = (funnelSource(t, i) << funnelAmount(t, i)) >> 32;
}

void runFunnelRight(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] =
      (funnelSource(t, i) >> funnelAmount(t, i)) & maskOfWidth(32);
}

bool takeBitsType(Decoder &d, PTXType &type, bool allowPredicate) {
  if (!d.takeType(type))
    return false;
  bool known = type.kind == PTXType::Bits
                   ? type.width >= 16
                   : type.kind == PTXType::Predicate && allowPredicate;
  if (!known)
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  d.result.width = type.width;
  return true;
}

template <Logic logic>
bool decodeLogic(Decoder &d) {
  PTXType type;
  d.result.handler = runLogic<logic>;
  return takeBitsType(d, type, /*allowPredicate=*/true) &&
         d.expectOperands(3) && d.destination(0, type.width) &&
         d.source(1, type, 1) && d.source(2, type, 2);
}

bool decodeNot(Decoder &d) {
  PTXType type;
  d.result.handler = runNot;
  return takeBitsType(d, type, /*allowPredicate=*/true) &&
         d.expectOperands(2) && d.destination(0, type.width) &&
         d.source(1, type, 1);
}

constexpr PTXType kU32{PTXType::Unsigned, 32, 1, Format::F32};

bool decodeShift(Decoder &d) {
  PTXType type;
  if (d.getName() == "shl") {
    d.result.handler = runShiftLeft;
    if (!takeBitsType(d, type, /*allowPredicate=*/false))
      return false;
  } else if (!d.takeType(type)) {
    return false;
  } else {
    d.result.handler = type.isSigned() ? runShiftRightSigned : runShiftRight;
  }
  if (type.isFloat() || type.lanes != 1 || type.width < 16)
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  d.result.width = type.width;
  return d.expectOperands(3) && d.destination(0, type.width) &&
         d.source(1, type, 1) && d.source(2, kU32, 2);
}

bool decodeFunnelShift(Decoder &d) {
  if (d.take("l"))
    d.result.handler = runFunnelLeft;
  else if (d.take("r"))
    d.result.handler = runFunnelRight;
  else
    return d.fail("'" + d.statement.opcode + "' needs .l or .r");
  d.result.saturate = d.take("clamp");
  if (!d.result.saturate && !d.take("wrap"))
    return d.fail("'" + d.statement.opcode + "' needs .clamp or .wrap");
  PTXType type;
  return takeBitsType(d, type, /*allowPredicate=*/false) &&
         (type.width == 32 || d.fail("shf exists for b32 only")) &&
         d.expectOperands(4) && d.destination(0, 32) && d.source(1, kU32, 1) &&
         d.source(2, kU32, 2) && d.source(3, kU32, 3);
}

//===----------------------------------------------------------------------===//
// Bit fields and permutations
//===----------------------------------------------------------------------===//

/// Extracts a bit field. Bits beyond the field or the register repeat its sign,
/// or are zero.
void runExtract(Thread &t, const Instruction &i) {
  uint64_t value = t.slots[i.slot[1]];
  unsigned position = t.slots[i.slot[2]] & 255;
  unsigned length = t.slots[i.slot[3]] & 255;
  unsigned top = std::min<unsigned>(position + length - 1, i.width - 1);
  bool fill = i.isSigned && length != 0 && ((value >> top) & 1);
  uint64_t result = 0;
  for (unsigned bit = 0; bit < i.width; ++bit) {
    bool inside = bit < length && position + bit < i.width;
    uint64_t set = inside ? (value >> (position + bit)) & 1 : fill;
    result |= set << bit;
  }
  t.slots[i.slot[0]] = result;
}

void runInsert(Thread &t, const Instruction &i) {
  uint64_t field = t.slots[i.slot[1]], result = t.slots[i.slot[2]];
  unsigned position = t.slots[i.slot[3]] & 255;
  unsigned length = t.slots[i.slot[4]] & 255;
  for (unsigned bit = 0; bit < length && position + bit < i.width; ++bit) {
    uint64_t place = uint64_t(1) << (position + bit);
    result = (field >> bit) & 1 ? result | place : result & ~place;
  }
  t.slots[i.slot[0]] = result;
}

/// Permutes bytes. Each selector nibble selects one of eight bytes, or its sign
/// if bit 3 is set.
void runPermute(Thread &t, const Instruction &i) {
  uint64_t bytes = (t.slots[i.slot[2]] << 32) | t.slots[i.slot[1]];
  uint64_t selector = t.slots[i.slot[3]], result = 0;
  for (unsigned index = 0; index < 4; ++index) {
    unsigned nibble = (selector >> (4 * index)) & 15;
    uint64_t byte = (bytes >> (8 * (nibble & 7))) & 255;
    if (nibble & 8)
      byte = byte & 128 ? 255 : 0;
    result |= byte << (8 * index);
  }
  t.slots[i.slot[0]] = result;
}

bool decodeExtract(Decoder &d) {
  PTXType type;
  if (!d.takeType(type))
    return false;
  if ((type.kind != PTXType::Unsigned && type.kind != PTXType::Signed) ||
      type.lanes != 1 || type.width < 32)
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  d.result.handler = runExtract;
  d.result.width = type.width;
  d.result.isSigned = type.isSigned();
  return d.expectOperands(4) && d.destination(0, type.width) &&
         d.source(1, type, 1) && d.source(2, kU32, 2) && d.source(3, kU32, 3);
}

bool decodeInsert(Decoder &d) {
  PTXType type;
  d.result.handler = runInsert;
  return takeBitsType(d, type, /*allowPredicate=*/false) &&
         (type.width >= 32 || d.fail("bfi exists for b32 and b64 only")) &&
         d.expectOperands(5) && d.destination(0, type.width) &&
         d.source(1, type, 1) && d.source(2, type, 2) && d.source(3, kU32, 3) &&
         d.source(4, kU32, 4);
}

bool decodePermute(Decoder &d) {
  d.result.handler = runPermute;
  PTXType type;
  return takeBitsType(d, type, /*allowPredicate=*/false) &&
         (type.width == 32 || d.fail("prmt exists for b32 only")) &&
         d.expectOperands(4) && d.destination(0, 32) && d.source(1, kU32, 1) &&
         d.source(2, kU32, 2) && d.source(3, kU32, 3);
}

//===----------------------------------------------------------------------===//
// Counting and reversing
//===----------------------------------------------------------------------===//

void runPopulation(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] = llvm::popcount(t.slots[i.slot[1]]);
}

void runLeadingZeros(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] = llvm::countl_zero(t.slots[i.slot[1]]) - (64 - i.width);
}

void runReverse(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] =
      llvm::reverseBits<uint64_t>(t.slots[i.slot[1]]) >> (64 - i.width);
}

template <Handler handler, bool countsBits>
bool decodeBitUnary(Decoder &d) {
  PTXType type;
  d.result.handler = handler;
  return takeBitsType(d, type, /*allowPredicate=*/false) &&
         (type.width >= 32 ||
          d.fail("'" + d.statement.opcode + "' exists for b32 and b64 only")) &&
         d.expectOperands(2) &&
         d.destination(0, countsBits ? 32 : type.width) && d.source(1, type, 1);
}

const Opcode kOpcodes[] = {
    {"and", OpcodeClass::Integer, decodeLogic<Logic::And>},
    {"or", OpcodeClass::Integer, decodeLogic<Logic::Or>},
    {"xor", OpcodeClass::Integer, decodeLogic<Logic::Xor>},
    {"not", OpcodeClass::Integer, decodeNot},
    {"shl", OpcodeClass::Integer, decodeShift},
    {"shr", OpcodeClass::Integer, decodeShift},
    {"shf", OpcodeClass::Integer, decodeFunnelShift},
    {"bfe", OpcodeClass::Integer, decodeExtract},
    {"bfi", OpcodeClass::Integer, decodeInsert},
    {"prmt", OpcodeClass::Integer, decodePermute},
    {"popc", OpcodeClass::Integer, decodeBitUnary<runPopulation, true>},
    {"clz", OpcodeClass::Integer, decodeBitUnary<runLeadingZeros, true>},
    {"brev", OpcodeClass::Integer, decodeBitUnary<runReverse, false>},
};

} // namespace

llvm::ArrayRef<Opcode> ptx::getBitOpcodes() { return kOpcodes; }
