//===- Parser.cpp - Parser of PTX modules ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parser of directives, kernels and statements.
//
//===----------------------------------------------------------------------===//

#include "Parser.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace tandem::reference;
using namespace tandem::reference::ptx;
using llvm::StringRef;
using llvm::Twine;

Parser::Parser(StringRef text) : text(text), lexer(text) { advance(); }

bool Parser::failAt(unsigned line, const Twine &complaint) {
  if (message.empty())
    message = ("PTX line " + Twine(line) + ": " + complaint).str();
  return false;
}

bool Parser::fail(const Twine &complaint) {
  return failAt(token.line, complaint);
}

bool Parser::consume(char c) {
  if (!token.is(c))
    return false;
  advance();
  return true;
}

bool Parser::expect(char c) {
  if (consume(c))
    return true;
  return fail("expected '" + Twine(c) + "' before '" + token.text + "'");
}

bool Parser::expectNumber(uint64_t &value) {
  if (token.kind != Token::Number || !parseInteger(token.text, value))
    return fail("expected an integer, not '" + token.text + "'");
  advance();
  return true;
}

bool Parser::expectName(StringRef &name) {
  if (token.kind != Token::Word)
    return fail("expected a name, not '" + token.text + "'");
  name = token.text;
  advance();
  return true;
}

//===----------------------------------------------------------------------===//
// Module
//===----------------------------------------------------------------------===//

llvm::Error Parser::parseModule() {
  while (token.kind != Token::End)
    if (!parseDirective())
      return llvm::createStringError(message);
  return llvm::Error::success();
}

bool Parser::parseDirective() {
  uint64_t size;
  if (token.isWord(".version")) {
    advance();
    if (token.kind != Token::Number)
      return fail("expected a version, not '" + token.text + "'");
    advance();
    return true;
  }
  if (token.isWord(".target")) {
    advance();
    StringRef name;
    if (!expectName(name))
      return false;
    target = name.str();
    return !token.is(',') || fail("unknown target option");
  }
  if (token.isWord(".address_size")) {
    advance();
    if (!expectNumber(size))
      return false;
    return size == 64 || fail("only 64-bit addresses are known");
  }
  if (token.isWord(".visible"))
    advance();
  if (token.isWord(".entry"))
    return parseKernel();
  if (token.isWord(".shared"))
    return parseShared();
  if (token.isWord(".global"))
    return parseConstants();
  return fail("unknown directive '" + token.text + "'");
}

/// Parses .shared .align 8 .b8 name[64], from the state space on.
bool Parser::parseVariable(Variable &variable) {
  advance();
  if (token.isWord(".align")) {
    advance();
    if (!expectNumber(variable.alignment))
      return false;
  }
  std::optional<PTXType> type;
  if (token.kind == Token::Word && token.text.starts_with("."))
    type = parseType(token.text.drop_front());
  if (!type || type->kind == PTXType::Predicate)
    return fail("unknown type of a variable '" + token.text + "'");
  advance();
  variable.elementBytes = type->totalWidth() / 8;
  if (!expectName(variable.name))
    return false;
  if (consume('[') && (!expectNumber(variable.count) || !expect(']')))
    return false;
  return llvm::isPowerOf2_64(variable.alignment) ||
         fail("the alignment of '" + variable.name + "' is not a power of two");
}

/// Parses a shared variable, which may be declared outside of kernels or in
/// one.
bool Parser::parseShared() {
  Variable variable;
  if (!parseVariable(variable))
    return false;
  sharedBytes = llvm::alignTo(sharedBytes, variable.alignment);
  if (!addresses.try_emplace(variable.name, sharedBytes).second)
    return fail("variable '" + variable.name + "' is declared twice");
  sharedBytes += variable.count * variable.elementBytes;
  return expect(';');
}

/// Parses .global .align 4 .b32 name[2] = {1, 2}; whose values no kernel
/// writes.
bool Parser::parseConstants() {
  Variable variable;
  if (!parseVariable(variable))
    return false;
  unsigned bytes = variable.elementBytes;
  if (bytes != 1 && bytes != 4)
    return fail("constants of 8 and 32 bits are known, '" + variable.name +
                "' has others");
  auto values = std::make_shared<std::vector<uint32_t>>(
      llvm::divideCeil(variable.count * bytes, 4));
  uint64_t number = 0;
  if (!expect('=') || !expect('{'))
    return false;
  do {
    bool isNegative = consume('-');
    uint64_t value = 0;
    if (!expectNumber(value))
      return false;
    uint32_t bits = isNegative ? -value : value;
    // Little-endian, as on the device.
    uint64_t place = number++ * bytes;
    if (place / 4 < values->size())
      (*values)[place / 4] |= (bytes == 1 ? bits & 0xFF : bits)
                              << place % 4 * 8;
  } while (consume(','));
  // LLVM omits trailing zeros.
  if (number > variable.count)
    return fail("'" + variable.name + "' has " + Twine(variable.count) +
                " elements and " + Twine(number) + " values");
  auto address = reinterpret_cast<uint64_t>(values->data());
  if (!addresses.try_emplace(variable.name, address).second)
    return fail("variable '" + variable.name + "' is declared twice");
  constants.push_back({variable.name.str(), std::move(values)});
  return expect('}') && expect(';');
}

bool Parser::parseKernel() {
  advance();
  builder = std::make_unique<KernelBuilder>();
  // Declarations in the body belong to this kernel only.
  llvm::SaveAndRestore ownAddresses(addresses);
  llvm::SaveAndRestore ownBytes(sharedBytes);
  builder->addresses = &addresses;
  StringRef name;
  if (!expectName(name))
    return false;
  for (const auto &kernel : kernels)
    if (kernel->name == name)
      return fail("kernel '" + name + "' is defined twice");
  builder->kernel.name = name.str();
  unsigned line = token.line;
  if (!parseParameters() || !parsePerformanceDirectives() || !parseBody())
    return false;
  builder->kernel.sharedBytes = sharedBytes;
  builder->kernel.constants = constants;
  std::string complaint;
  if (!builder->finish(complaint, line))
    return failAt(line, complaint);
  kernels.push_back(std::make_shared<Kernel>(std::move(builder->kernel)));
  return true;
}

bool Parser::parseParameters() {
  if (!consume('('))
    return true;
  if (consume(')'))
    return true;
  do {
    if (!parseParameter())
      return false;
  } while (consume(','));
  return expect(')');
}

/// Parses .param .u64 .ptr .global .align 16 name.
bool Parser::parseParameter() {
  if (!token.isWord(".param"))
    return fail("expected '.param' before '" + token.text + "'");
  advance();
  std::optional<PTXType> type;
  if (token.kind == Token::Word && token.text.starts_with("."))
    type = parseType(token.text.drop_front());
  if (!type || type->kind == PTXType::Predicate || type->lanes != 1)
    return fail("unknown parameter type '" + token.text + "'");
  advance();
  while (token.kind == Token::Word && token.text.starts_with(".")) {
    uint64_t alignment;
    bool isAlign = token.isWord(".align");
    if (!isAlign && !token.isWord(".ptr") && !token.isWord(".global"))
      return fail("unknown parameter attribute '" + token.text + "'");
    advance();
    if (isAlign && !expectNumber(alignment))
      return false;
  }
  StringRef name;
  if (!expectName(name))
    return false;
  builder->kernel.params.push_back({name.str(), type->width / 8u});
  return !token.is('[') || fail("parameters passed by value are not known");
}

bool Parser::parsePerformanceDirectives() {
  while (token.kind == Token::Word) {
    if (!llvm::is_contained(
            {".maxntid", ".reqntid", ".minnctapersm", ".maxnreg"}, token.text))
      return fail("unknown directive '" + token.text + "'");
    advance();
    uint64_t value;
    do {
      if (!expectNumber(value))
        return false;
    } while (consume(','));
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

bool Parser::parseBody() {
  if (!expect('{'))
    return false;
  unsigned depth = 1;
  while (depth) {
    if (token.kind == Token::End)
      return fail("the kernel's body does not end");
    if (consume('{')) {
      builder->pushScope();
      ++depth;
    } else if (consume('}')) {
      if (--depth)
        builder->popScope();
    } else if (!parseItem()) {
      return false;
    }
  }
  return true;
}

bool Parser::parseItem() {
  if (token.isWord(".reg"))
    return parseRegisters();
  if (token.isWord(".shared"))
    return parseShared();
  if (token.isWord(".pragma"))
    return parsePragma();
  if (token.kind == Token::Word && token.text.starts_with("."))
    return fail("unknown directive '" + token.text + "'");
  return parseLabelOrStatement();
}

/// Parses .reg .b32 %r<12>, %x;
bool Parser::parseRegisters() {
  advance();
  std::optional<PTXType> type;
  if (token.kind == Token::Word && token.text.starts_with("."))
    type = parseType(token.text.drop_front());
  if (!type || type->width == 8)
    return fail("unknown register type '" + token.text + "'");
  advance();
  unsigned width = type->totalWidth();
  do {
    StringRef name;
    if (!expectName(name))
      return false;
    if (!consume('<')) {
      if (!builder->declareRegister(name, width))
        return fail("register '" + name + "' is declared twice");
      continue;
    }
    uint64_t count;
    if (!expectNumber(count) || !expect('>'))
      return false;
    for (uint64_t index = 0; index < count; ++index)
      if (!builder->declareRegister((name + Twine(index)).str(), width))
        return fail("registers '" + name + "' are declared twice");
  } while (consume(','));
  return expect(';');
}

/// Parses the one pragma that does not change what a kernel computes.
bool Parser::parsePragma() {
  advance();
  if (token.kind != Token::String || token.text != "\"nounroll\"")
    return fail("unknown pragma " + token.text);
  advance();
  return expect(';');
}

bool Parser::parseLabelOrStatement() {
  Statement statement;
  statement.line = token.line;
  const char *begin = token.text.data();
  if (!parseGuard(statement))
    return false;
  if (token.kind != Token::Word)
    return fail("expected an instruction, not '" + token.text + "'");
  statement.opcode = token.text;
  advance();
  if (statement.guard.empty() && consume(':'))
    return builder->declareLabel(statement.opcode) ||
           failAt(statement.line,
                  "label '" + statement.opcode + "' stands twice");
  if (!parseOperands(statement))
    return false;
  const char *end = token.text.data() + 1;
  if (!expect(';'))
    return false;
  statement.text = StringRef(begin, end - begin);
  Decoder decoder(*builder, statement);
  return decoder.decode() || failAt(statement.line, decoder.getMessage());
}

bool Parser::parseGuard(Statement &statement) {
  if (!consume('@'))
    return true;
  statement.guardNegated = consume('!');
  return expectName(statement.guard);
}

bool Parser::parseOperands(Statement &statement) {
  if (token.is(';'))
    return true;
  do {
    if (!parseOperand(statement.operands.emplace_back()))
      return false;
  } while (consume(','));
  return true;
}

bool Parser::parseOperand(Operand &operand) {
  if (token.is('{'))
    return parseVector(operand);
  if (token.is('['))
    return parseAddress(operand);
  if (token.is('-') || token.kind == Token::Number)
    return parseNumberOperand(operand);
  if (!expectName(operand.text))
    return false;
  if (!consume('|'))
    return true;
  operand.elements.resize(2);
  operand.elements[0].text = operand.text;
  operand.kind = Operand::Pair;
  return expectName(operand.elements[1].text);
}

bool Parser::parseNumberOperand(Operand &operand) {
  operand.kind = Operand::Number;
  operand.negative = consume('-');
  if (token.kind != Token::Number)
    return fail("expected a number, not '" + token.text + "'");
  operand.text = token.text;
  advance();
  return true;
}

bool Parser::parseVector(Operand &operand) {
  operand.kind = Operand::Vector;
  advance();
  do {
    Operand &element = operand.elements.emplace_back();
    if (!parseOperand(element))
      return false;
    if (element.kind != Operand::Name && element.kind != Operand::Number)
      return fail("a vector holds registers and constants only");
  } while (consume(','));
  return expect('}');
}

/// Parses [base], [base+4], [base-4] and [base+-4].
bool Parser::parseAddress(Operand &operand) {
  operand.kind = Operand::Address;
  advance();
  if (!expectName(operand.text))
    return false;
  bool plus = consume('+');
  bool minus = consume('-');
  if (plus || minus) {
    uint64_t magnitude;
    if (!expectNumber(magnitude))
      return false;
    operand.offset = minus ? -int64_t(magnitude) : int64_t(magnitude);
  }
  return expect(']');
}
