//===- Decoder.h - From PTX text to decoded instructions --------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the parts of the PTX front end: tokens, statements, types,
// and the decoder that each family of instructions uses.
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
  /// A name, a number, or the base of an address.
  llvm::StringRef text;
  bool negative = false;
  /// The offset in bytes that is added to the base of an address.
  int64_t offset = 0;
  /// The elements of {a, b} and p|q.
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

/// Parses an unsigned decimal or hexadecimal literal, which may have a U
/// suffix.
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
  /// Returns false if the scope already has the name.
  bool declareRegister(llvm::StringRef name, unsigned width);
  std::optional<Register> findRegister(llvm::StringRef name) const;
  Slot getConstant(uint64_t value);

  bool declareLabel(llvm::StringRef name);
  /// Makes the current instruction jump to a label that may be declared later.
  void branchTo(llvm::StringRef label, unsigned line);
  void append(const Instruction &instruction, const Statement &statement);
  /// Resolves the labels. If one is missing, names it in `message` and returns
  /// false.
  bool finish(std::string &message, unsigned &line);

  /// Returns the address of a variable.
  std::optional<uint64_t> findVariable(llvm::StringRef name) const;

  Kernel kernel;
  /// The addresses of the module's variables.
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
/// to right and request operands. Only the first error is kept.
class Decoder {
public:
  Decoder(KernelBuilder &builder, const Statement &statement);

  bool decode();
  llvm::StringRef getMessage() const { return message; }

  /// Records an error and returns false.
  bool fail(const llvm::Twine &complaint);

  llvm::StringRef getName() const { return name; }
  /// Consumes the next modifier if it is this one. Returns whether it was.
  bool take(llvm::StringRef modifier);
  /// Consumes and returns the next modifier, or an empty string if there is
  /// none.
  llvm::StringRef takeAny();
  llvm::StringRef peek() const;
  bool takeType(PTXType &type);
  /// Reports modifiers that were not read as an error.
  bool endOfModifiers();
  bool expectOperands(unsigned count);
  const Operand &operand(unsigned index) const {
    return statement.operands[index];
  }
  unsigned getNumOperands() const { return statement.operands.size(); }

  /// Decodes the operand with this index in the statement into a slot.
  bool destination(unsigned index, unsigned width, unsigned slot = 0);
  bool source(unsigned index, const PTXType &type, unsigned slot);
  /// Decodes an operand, which may be an element of another one. `mayBeWider`
  /// is for ld, st and cvt.
  bool destination(const Operand &operand, unsigned width, unsigned slot,
                   bool mayBeWider = false);
  bool source(const Operand &operand, const PTXType &type, unsigned slot,
              bool mayBeWider = false);
  /// Decodes [register + offset].
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

/// The instructions that a function decodes among those of one name, by their
/// last type.
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

/// Decodes the comparison of an integer or float setp.
bool decodeComparison(Decoder &decoder, ConditionMask &mask);
bool decodePredicates(Decoder &decoder, Handler handler, const PTXType &type);

} // namespace tandem::reference::ptx

#endif // TANDEM_LIB_REFERENCE_PTX_DECODER_H
