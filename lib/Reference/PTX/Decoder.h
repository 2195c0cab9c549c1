//===- Decoder.h - From PTX text to decoded instructions --------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the pieces of the PTX front end: tokens, statements,
// types, and the decoder that each family of instructions is written against.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_REFERENCE_PTX_DECODER_H
#define TANDEM_LIB_REFERENCE_PTX_DECODER_H

#include "Instruction.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/Twine.h"

#include <map>
#include <optional>

namespace tandem::reference::ptx {

//===----------------------------------------------------------------------===//
// Tokens and statements
//===----------------------------------------------------------------------===//

struct Token {
  enum Kind : uint8_t { Word, Number, String, Punctuation, End, Bad };

  Kind kind = End;
  llvm::StringRef text;
  unsigned line = 1;

  bool is(char c) const { return kind == Punctuation && text.front() == c; }
  bool isWord(llvm::StringRef word) const {
    return kind == Word && text == word;
  }
};

class Lexer {
public:
  explicit Lexer(llvm::StringRef text) : rest(text) {}
  Token next();

private:
  void skipSpaceAndComments();
  Token take(Token::Kind kind, size_t length);

  llvm::StringRef rest;
  unsigned line = 1;
};

/// An operand as written.
struct Operand {
  enum Kind : uint8_t { Name, Number, Address, Vector, Pair };

  Kind kind = Name;
  /// A name, a number, or an address's base.
  llvm::StringRef text;
  bool negative = false;
  /// The offset that is added to an address's base, in bytes.
  int64_t offset = 0;
  /// The parts of {a, b} and p|q.
  std::vector<Operand> elements;
};

struct Statement {
  unsigned line = 1;
  llvm::StringRef text;
  llvm::StringRef guard;
  bool guardNegated = false;
  llvm::StringRef opcode;
  llvm::SmallVector<Operand, 4> operands;
};

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// A type suffix: b32, s64, f16x2, pred...
struct PTXType {
  enum Kind : uint8_t { Bits, Unsigned, Signed, Float, Predicate };

  Kind kind = Bits;
  /// The width of one element in bits.
  uint8_t width = 32;
  uint8_t lanes = 1;
  Format format = Format::F32;

  unsigned totalWidth() const { return width * lanes; }
  bool isFloat() const { return kind == Float; }
  bool isSigned() const { return kind == Signed; }
};

std::optional<PTXType> parseType(llvm::StringRef text);

/// Reads an unsigned decimal or hexadecimal literal, perhaps with a U suffix.
bool parseInteger(llvm::StringRef text, uint64_t &value);

//===----------------------------------------------------------------------===//
// The kernel under construction
//===----------------------------------------------------------------------===//

struct Register {
  Slot slot;
  unsigned width;
};

class KernelBuilder {
public:
  KernelBuilder();

  void pushScope() { scopes.emplace_back(); }
  void popScope() { scopes.pop_back(); }
  /// False if the scope has the name already.
  bool declareRegister(llvm::StringRef name, unsigned width);
  std::optional<Register> findRegister(llvm::StringRef name) const;
  Slot getConstant(uint64_t value);

  bool declareLabel(llvm::StringRef name);
  /// Makes the current instruction jump to a label known later.
  void branchTo(llvm::StringRef label, unsigned line);
  void append(const Instruction &instruction, const Statement &statement);
  /// Resolves the labels. Names one that is missing in `message`.
  bool finish(std::string &message, unsigned &line);

  /// The address of a variable.
  std::optional<uint64_t> findVariable(llvm::StringRef name) const;

  Kernel kernel;
  /// Addresses of the module's variables.
  const llvm::StringMap<uint64_t> *addresses = nullptr;

private:
  struct Fixup {
    size_t instruction;
    std::string label;
    unsigned line;
  };

  std::vector<llvm::StringMap<Register>> scopes;
  llvm::StringMap<uint32_t> labels;
  std::vector<Fixup> fixups;
  std::map<uint64_t, Slot> constants;
};

//===----------------------------------------------------------------------===//
// Decoder
//===----------------------------------------------------------------------===//

/// Decodes one statement. The families of instructions read modifiers from left
/// to right and ask for operands; the first complaint wins.
class Decoder {
public:
  Decoder(KernelBuilder &builder, const Statement &statement);

  bool decode();
  llvm::StringRef getMessage() const { return message; }

  /// Records a complaint; returns false.
  bool fail(const llvm::Twine &complaint);

  llvm::StringRef getName() const { return name; }
  /// Consumes the next modifier if it is this one.
  bool take(llvm::StringRef modifier);
  /// Consumes the next modifier, empty if there is none.
  llvm::StringRef takeAny();
  llvm::StringRef peek() const;
  bool takeType(PTXType &type);
  /// Complains about modifiers that were not read.
  bool endOfModifiers();
  bool expectOperands(unsigned count);
  const Operand &operand(unsigned index) const {
    return statement.operands[index];
  }
  unsigned getNumOperands() const { return statement.operands.size(); }

  /// Operands by number in the statement, into slots by number.
  bool destination(unsigned index, unsigned width, unsigned slot = 0);
  bool source(unsigned index, const PTXType &type, unsigned slot);
  /// The same for an operand inside another. `mayBeWider` is for ld, st and
  /// cvt.
  bool destination(const Operand &operand, unsigned width, unsigned slot,
                   bool mayBeWider = false);
  bool source(const Operand &operand, const PTXType &type, unsigned slot,
              bool mayBeWider = false);
  /// [register + offset]
  bool address(unsigned index, unsigned slot);

  KernelBuilder &builder;
  const Statement &statement;
  Instruction result;

private:
  bool immediate(const Operand &operand, const PTXType &type, uint64_t &bits);
  bool decodeGuard();

  llvm::StringRef name;
  llvm::SmallVector<llvm::StringRef, 6> modifiers;
  unsigned nextModifier = 0;
  std::string message;
};

using DecodeFunction = bool (*)(Decoder &);

/// The instructions of a name that a function decodes, by their last type.
enum class OpcodeClass : uint8_t { Any, Integer, Float };

struct Opcode {
  llvm::StringLiteral name;
  OpcodeClass kind;
  DecodeFunction decode;
};

llvm::ArrayRef<Opcode> getIntegerOpcodes();
llvm::ArrayRef<Opcode> getBitOpcodes();
llvm::ArrayRef<Opcode> getFloatOpcodes();
llvm::ArrayRef<Opcode> getConvertOpcodes();
llvm::ArrayRef<Opcode> getMemoryOpcodes();
llvm::ArrayRef<Opcode> getControlOpcodes();
llvm::ArrayRef<Opcode> getWarpOpcodes();

/// Shared by the integer and the float setp.
bool decodeComparison(Decoder &decoder, ConditionMask &mask);
bool decodePredicates(Decoder &decoder, Handler handler, const PTXType &type);

} // namespace tandem::reference::ptx

#endif // TANDEM_LIB_REFERENCE_PTX_DECODER_H
