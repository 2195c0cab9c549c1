//===- Decoder.cpp - From PTX statements to instructions ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the kernel under construction, and the decoder's access
// to registers, constants, labels, modifiers and operands.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include "llvm/ADT/StringExtras.h"

using namespace tandem::reference;
using namespace tandem::reference::ptx;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// KernelBuilder
//===----------------------------------------------------------------------===//

/// The initial value of registers, which is unlikely to pass for a computed
/// one.
static constexpr uint64_t kPoison = 0xA5A5A5A5A5A5A5A5;

static constexpr std::pair<llvm::StringLiteral, Slot> kSpecialRegisters[] = {
    {"%tid.x", TidX},       {"%tid.y", TidY},       {"%tid.z", TidZ},
    {"%ntid.x", NtidX},     {"%ntid.y", NtidY},     {"%ntid.z", NtidZ},
    {"%ctaid.x", CtaidX},   {"%ctaid.y", CtaidY},   {"%ctaid.z", CtaidZ},
    {"%nctaid.x", NctaidX}, {"%nctaid.y", NctaidY}, {"%nctaid.z", NctaidZ},
    {"%laneid", LaneId}};

KernelBuilder::KernelBuilder() {
  kernel.initialSlots.resize(NumSpecialSlots);
  pushScope();
  for (const auto &[name, slot] : kSpecialRegisters)
    scopes.back()[name] = Register{slot, 32};
}

bool KernelBuilder::declareRegister(StringRef name, unsigned width) {
  Slot slot = kernel.initialSlots.size();
  if (!scopes.back().try_emplace(name, Register{slot, width}).second)
    return false;
  kernel.initialSlots.push_back(kPoison & maskOfWidth(width));
  return true;
}

std::optional<Register> KernelBuilder::findRegister(StringRef name) const {
  for (const auto &scope : llvm::reverse(scopes)) {
    auto found = scope.find(name);
    if (found != scope.end())
      return found->second;
  }
  return std::nullopt;
}

std::optional<uint64_t> KernelBuilder::findVariable(StringRef name) const {
  auto found = addresses->find(name);
  if (found == addresses->end())
    return std::nullopt;
  return found->second;
}

Slot KernelBuilder::getConstant(uint64_t value) {
  auto [found, isNew] = constants.try_emplace(value, 0);
  if (isNew) {
    found->second = kernel.initialSlots.size();
    kernel.initialSlots.push_back(value);
  }
  return found->second;
}

bool KernelBuilder::declareLabel(StringRef name) {
  return labels.try_emplace(name, kernel.code.size()).second;
}

void KernelBuilder::branchTo(StringRef label, unsigned line) {
  fixups.push_back({kernel.code.size(), label.str(), line});
}

void KernelBuilder::append(const Instruction &instruction,
                           const Statement &statement) {
  kernel.code.push_back(instruction);
  kernel.info.push_back(
      {statement.line, statement.opcode.str(), statement.text.str()});
}

bool KernelBuilder::finish(std::string &message, unsigned &line) {
  for (const Fixup &fixup : fixups) {
    auto found = labels.find(fixup.label);
    if (found == labels.end()) {
      message =
          "no label '" + fixup.label + "' in kernel '" + kernel.name + "'";
      line = fixup.line;
      return false;
    }
    kernel.code[fixup.instruction].immediate = found->second;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Modifiers
//===----------------------------------------------------------------------===//

Decoder::Decoder(KernelBuilder &builder, const Statement &statement)
    : builder(builder), statement(statement) {
  statement.opcode.split(modifiers, '.');
  name = modifiers.front();
  modifiers.erase(modifiers.begin());
}

bool Decoder::fail(const Twine &complaint) {
  if (message.empty())
    message = complaint.str();
  return false;
}

StringRef Decoder::peek() const {
  return nextModifier < modifiers.size() ? modifiers[nextModifier]
                                         : StringRef();
}

StringRef Decoder::takeAny() {
  StringRef modifier = peek();
  if (nextModifier < modifiers.size())
    ++nextModifier;
  return modifier;
}

bool Decoder::take(StringRef modifier) {
  if (nextModifier >= modifiers.size() || modifiers[nextModifier] != modifier)
    return false;
  ++nextModifier;
  return true;
}

bool Decoder::takeType(PTXType &type) {
  StringRef modifier = takeAny();
  std::optional<PTXType> parsed = parseType(modifier);
  if (!parsed)
    return fail("'" + statement.opcode + "': expected a known type, not '." +
                modifier + "'");
  type = *parsed;
  return true;
}

bool Decoder::endOfModifiers() {
  if (nextModifier == modifiers.size())
    return true;
  return fail("'" + statement.opcode + "': unknown modifier '." + peek() + "'");
}

bool Decoder::expectOperands(unsigned count) {
  if (getNumOperands() == count)
    return true;
  return fail("'" + statement.opcode + "' takes " + Twine(count) +
              " operands, not " + Twine(getNumOperands()));
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

static bool parseHexFloat(StringRef text, char prefix, size_t digits,
                          uint64_t &bits) {
  return text.size() == digits + 2 && text[0] == '0' &&
         llvm::toLower(text[1]) == prefix &&
         !text.drop_front(2).getAsInteger(16, bits);
}

bool Decoder::immediate(const Operand &operand, const PTXType &type,
                        uint64_t &bits) {
  unsigned width = type.totalWidth();
  bool takesFloat =
      type.lanes == 1 && (type.isFloat() || type.kind == PTXType::Bits);
  if (takesFloat && !operand.negative &&
      ((width == 32 && parseHexFloat(operand.text, 'f', 8, bits)) ||
       (width == 64 && parseHexFloat(operand.text, 'd', 16, bits))))
    return true;
  if (type.isFloat())
    return fail("constant '" + operand.text + "' is not of the type of '" +
                statement.opcode + "'");
  if (!parseInteger(operand.text, bits))
    return fail("cannot read constant '" + operand.text + "'");
  if (type.kind == PTXType::Predicate) {
    bits = bits != 0;
    return true;
  }
  bool fits = operand.negative ? bits <= (uint64_t(1) << (width - 1))
                               : bits <= maskOfWidth(width);
  if (!fits)
    return fail("constant '" + operand.text + "' does not fit in " +
                Twine(width) + " bits");
  if (operand.negative)
    bits = (0 - bits) & maskOfWidth(width);
  return true;
}

bool Decoder::destination(const Operand &operand, unsigned width, unsigned slot,
                          bool mayBeWider) {
  if (operand.kind != Operand::Name)
    return fail("'" + statement.opcode + "' needs a register to write to");
  if (operand.text == "_") {
    result.slot[slot] = Sink;
    return true;
  }
  std::optional<Register> found = builder.findRegister(operand.text);
  if (!found || found->slot < NumSpecialSlots)
    return fail("'" + operand.text + "' is not a register that can be written");
  if (found->width != width && !(mayBeWider && found->width > width))
    return fail("register '" + operand.text + "' has " + Twine(found->width) +
                " bits, '" + statement.opcode + "' writes " + Twine(width));
  result.slot[slot] = found->slot;
  result.registerWidth = found->width;
  return true;
}

bool Decoder::source(const Operand &operand, const PTXType &type, unsigned slot,
                     bool mayBeWider) {
  if (operand.kind == Operand::Number) {
    uint64_t bits = 0;
    if (!immediate(operand, type, bits))
      return false;
    result.slot[slot] = builder.getConstant(bits);
    return true;
  }
  if (operand.kind != Operand::Name)
    return fail("'" + statement.opcode + "' needs a register or a constant");
  unsigned width = type.totalWidth();
  std::optional<uint64_t> variable = builder.findVariable(operand.text);
  if (variable && width == 64) {
    result.slot[slot] = builder.getConstant(*variable);
    return true;
  }
  std::optional<Register> found = builder.findRegister(operand.text);
  if (!found)
    return fail("unknown register '" + operand.text + "'");
  if (found->width != width && !(mayBeWider && found->width > width))
    return fail("register '" + operand.text + "' has " + Twine(found->width) +
                " bits, '" + statement.opcode + "' reads " + Twine(width));
  result.slot[slot] = found->slot;
  return true;
}

bool Decoder::destination(unsigned index, unsigned width, unsigned slot) {
  return destination(operand(index), width, slot);
}

bool Decoder::source(unsigned index, const PTXType &type, unsigned slot) {
  return source(operand(index), type, slot);
}

bool Decoder::address(unsigned index, unsigned slot) {
  const Operand &written = operand(index);
  if (written.kind != Operand::Address)
    return fail("'" + statement.opcode + "' needs an address in brackets");
  result.immediate = written.offset;
  if (std::optional<uint64_t> variable = builder.findVariable(written.text)) {
    result.slot[slot] = builder.getConstant(*variable);
    return true;
  }
  std::optional<Register> found = builder.findRegister(written.text);
  if (!found || found->width != 64)
    return fail("address base '" + written.text + "' is not a 64-bit register");
  result.slot[slot] = found->slot;
  return true;
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

/// Returns all opcodes by name. A name may have an integer and a float family.
static const llvm::StringMap<llvm::SmallVector<Opcode, 2>> &getOpcodeTable() {
  static const auto table = [] {
    llvm::StringMap<llvm::SmallVector<Opcode, 2>> result;
    for (llvm::ArrayRef<Opcode> family :
         {getIntegerOpcodes(), getBitOpcodes(), getFloatOpcodes(),
          getConvertOpcodes(), getMemoryOpcodes(), getControlOpcodes(),
          getWarpOpcodes()})
      for (const Opcode &opcode : family)
        result[opcode.name].push_back(opcode);
    return result;
  }();
  return table;
}

bool Decoder::decodeGuard() {
  if (statement.guard.empty())
    return true;
  std::optional<Register> found = builder.findRegister(statement.guard);
  if (!found || found->width != 1)
    return fail("guard '" + statement.guard + "' is not a predicate");
  result.guard = found->slot;
  result.guardNegated = statement.guardNegated;
  return true;
}

bool Decoder::decode() {
  if (!decodeGuard())
    return false;
  std::optional<PTXType> type;
  if (!modifiers.empty())
    type = parseType(modifiers.back());
  OpcodeClass kind =
      type && type->isFloat() ? OpcodeClass::Float : OpcodeClass::Integer;
  auto family = getOpcodeTable().find(name);
  if (family == getOpcodeTable().end())
    return fail("unknown instruction '" + statement.opcode + "'");
  for (const Opcode &opcode : family->second) {
    if (opcode.kind != OpcodeClass::Any && opcode.kind != kind)
      continue;
    if (!opcode.decode(*this) || !endOfModifiers())
      return false;
    builder.append(result, statement);
    return true;
  }
  return fail("unknown instruction '" + statement.opcode + "'");
}
