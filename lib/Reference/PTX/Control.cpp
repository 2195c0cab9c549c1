//===- Control.cpp - Moves and control flow of PTX ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements mov in all its forms, selp, cvta, branches and returns.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

using namespace tandem::reference;
using namespace tandem::reference::ptx;

namespace {

//===----------------------------------------------------------------------===//
// Handlers
//===----------------------------------------------------------------------===//

void runMove(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] = t.slots[i.slot[1]];
}

/// Packs the elements of a vector; the first one is the least significant.
void runPack(Thread &t, const Instruction &i) {
  uint64_t result = 0;
  for (unsigned index = 0; index < i.count; ++index)
    result |= t.slots[i.slot[1 + index]] << (index * i.width);
  t.slots[i.slot[0]] = result;
}

/// Unpacks a register. Reads the source before it writes any element.
void runUnpack(Thread &t, const Instruction &i) {
  uint64_t value = t.slots[i.slot[i.count]];
  for (unsigned index = 0; index < i.count; ++index)
    t.slots[i.slot[index]] =
        (value >> (index * i.width)) & maskOfWidth(i.width);
}

void runSelect(Thread &t, const Instruction &i) {
  t.slots[i.slot[0]] = t.slots[t.slots[i.slot[3]] ? i.slot[1] : i.slot[2]];
}

void runBranch(Thread &t, const Instruction &i) { t.pc = i.immediate; }

void runExit(Thread &t, const Instruction &) { t.state = ThreadState::Exited; }

void runTrap(Thread &t, const Instruction &) { t.fail("trap"); }

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

/// Determines the type of one element of {...} when it splits or forms a
/// register.
bool getPartType(Decoder &d, const Operand &vector, const PTXType &whole,
                 PTXType &part) {
  unsigned count = vector.elements.size();
  part = whole;
  part.kind = PTXType::Bits;
  if (whole.kind != PTXType::Bits || (count != 2 && count != 4) ||
      whole.width / count < 8)
    return d.fail("'" + d.statement.opcode + "' cannot have " +
                  llvm::Twine(count) + " parts");
  part.width = whole.width / count;
  d.result.width = part.width;
  d.result.count = count;
  return true;
}

bool decodePack(Decoder &d, const PTXType &type) {
  PTXType part;
  const Operand &vector = d.operand(1);
  d.result.handler = runPack;
  if (!getPartType(d, vector, type, part) || !d.destination(0, type.width))
    return false;
  for (unsigned index = 0; index < d.result.count; ++index)
    if (!d.source(vector.elements[index], part, 1 + index))
      return false;
  return true;
}

bool decodeUnpack(Decoder &d, const PTXType &type) {
  PTXType part;
  const Operand &vector = d.operand(0);
  d.result.handler = runUnpack;
  if (!getPartType(d, vector, type, part))
    return false;
  for (unsigned index = 0; index < d.result.count; ++index)
    if (!d.destination(vector.elements[index], part.width, index))
      return false;
  return d.source(1, type, d.result.count);
}

bool decodeMove(Decoder &d) {
  PTXType type;
  if (!d.takeType(type) || !d.expectOperands(2))
    return false;
  if (type.lanes != 1 || type.width == 8)
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  if (d.operand(1).kind == Operand::Vector)
    return decodePack(d, type);
  if (d.operand(0).kind == Operand::Vector)
    return decodeUnpack(d, type);
  d.result.handler = runMove;
  return d.destination(0, type.width) && d.source(1, type, 1);
}

bool decodeSelect(Decoder &d) {
  constexpr PTXType kPredicate{PTXType::Predicate, 1, 1, Format::F32};
  PTXType type;
  if (!d.takeType(type) || !d.expectOperands(4))
    return false;
  if (type.kind == PTXType::Predicate || type.lanes != 1 || type.width == 8)
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  d.result.handler = runSelect;
  return d.destination(0, type.width) && d.source(1, type, 1) &&
         d.source(2, type, 2) && d.source(3, kPredicate, 3);
}

/// Decodes cvta. Generic and global addresses are the same numbers.
bool decodeAddressCast(Decoder &d) {
  d.take("to");
  if (!d.take("global"))
    return d.fail("'" + d.statement.opcode +
                  "': only the global space is known");
  PTXType type;
  if (!d.takeType(type) || !d.expectOperands(2))
    return false;
  if (type.kind != PTXType::Unsigned || type.width != 64)
    return d.fail("unknown instruction '" + d.statement.opcode + "'");
  d.result.handler = runMove;
  return d.destination(0, 64) && d.source(1, type, 1);
}

bool decodeBranch(Decoder &d) {
  d.take("uni");
  if (!d.expectOperands(1))
    return false;
  if (d.operand(0).kind != Operand::Name)
    return d.fail("'" + d.statement.opcode + "' needs a label");
  d.result.handler = runBranch;
  d.builder.branchTo(d.operand(0).text, d.statement.line);
  return true;
}

template <Handler handler>
bool decodeBare(Decoder &d) {
  d.result.handler = handler;
  return d.expectOperands(0);
}

/// Decodes ret, which leaves the kernel, since functions cannot be called.
bool decodeReturn(Decoder &d) {
  d.take("uni");
  return decodeBare<runExit>(d);
}

const Opcode kOpcodes[] = {
    {"mov", OpcodeClass::Any, decodeMove},
    {"selp", OpcodeClass::Any, decodeSelect},
    {"cvta", OpcodeClass::Any, decodeAddressCast},
    {"bra", OpcodeClass::Any, decodeBranch},
    {"ret", OpcodeClass::Any, decodeReturn},
    {"exit", OpcodeClass::Any, decodeBare<runExit>},
    {"trap", OpcodeClass::Any, decodeBare<runTrap>},
};

} // namespace

llvm::ArrayRef<Opcode> ptx::getControlOpcodes() { return kOpcodes; }
