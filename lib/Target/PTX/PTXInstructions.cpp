//===- PTXInstructions.cpp - A reader of PTX text -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the splitting of PTX text into statements. It does not
// interpret instructions; that is left to its users.
//
//===----------------------------------------------------------------------===//

#include "PTXInstructions.h"
#include "llvm/ADT/StringExtras.h"

using namespace tandem;
using llvm::StringRef;

llvm::SmallVector<StringRef, 6> PTXInstruction::getParts() const {
  llvm::SmallVector<StringRef, 6> parts;
  mnemonic.split(parts, '.');
  return parts;
}

llvm::SmallVector<StringRef, 4> PTXInstruction::getOperands() const {
  llvm::SmallVector<StringRef, 4> result;
  size_t begin = 0;
  int depth = 0;
  for (auto [index, c] : llvm::enumerate(operands)) {
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (c != ',' || depth)
      continue;
    result.push_back(operands.slice(begin, index).trim());
    begin = index + 1;
  }
  result.push_back(operands.drop_front(begin).trim());
  return result;
}

namespace {
/// Scans the text once, statement by statement.
class Reader {
public:
  explicit Reader(StringRef text) : text(text) {}

  std::vector<PTXFunction> run() {
    while (position < text.size())
      step();
    return std::move(entries);
  }

private:
  void step() {
    if (skipComment())
      return;
    char c = text[position];
    if (begin == StringRef::npos && !llvm::isSpace(c))
      startStatement(c);
    else if (c == ';')
      endStatement();
    else if (c == '{' && depth == 0 && !beginsValues())
      openFunction();
    else if (isLabelEnd(c))
      begin = StringRef::npos;
    line += c == '\n';
    ++position;
  }

  bool skipComment() {
    StringRef rest = text.drop_front(position);
    if (!rest.starts_with("//") && !rest.starts_with("/*"))
      return false;
    StringRef end = rest.starts_with("//") ? "\n" : "*/";
    size_t length = std::min(rest.find(end, 2), rest.size());
    line += rest.take_front(length).count('\n');
    position += length + (end == "*/" ? 2 : 0);
    return true;
  }

  /// Starts a statement. Braces before it open and close scopes.
  void startStatement(char c) {
    if (c == '{') {
      ++depth;
    } else if (c == '}') {
      if (--depth == 0)
        isEntry = false;
    } else if (c != ';') {
      begin = position;
      firstLine = line;
    }
  }

  bool isLabelEnd(char c) {
    return c == ':' && begin != StringRef::npos &&
           llvm::all_of(text.slice(begin, position), [](char c) {
             return llvm::isAlnum(c) || c == '_' || c == '$' || c == '%';
           });
  }

  /// Returns whether a brace begins the values of a constant, which end in
  /// '};'.
  bool beginsValues() const {
    return begin != StringRef::npos &&
           text.slice(begin, position).rtrim().ends_with("=");
  }

  void openFunction() {
    StringRef head = text.slice(begin, position);
    begin = StringRef::npos;
    ++depth;
    auto [before, after] = head.split(".entry");
    isEntry = before.size() != head.size();
    if (isEntry)
      entries.push_back(
          {after.take_until([](char c) { return c == '('; }).trim(), {}});
  }

  void endStatement() {
    if (begin != StringRef::npos && isEntry && text[begin] != '.')
      addInstruction(text.slice(begin, position).trim());
    begin = StringRef::npos;
  }

  void addInstruction(StringRef statement) {
    if (statement.starts_with("@"))
      statement =
          statement.drop_until([](char c) { return llvm::isSpace(c); }).ltrim();
    StringRef mnemonic =
        statement.take_until([](char c) { return llvm::isSpace(c); });
    entries.back().instructions.push_back(
        {firstLine, statement, mnemonic,
         statement.drop_front(mnemonic.size()).trim()});
  }

  StringRef text;
  size_t position = 0, begin = StringRef::npos;
  unsigned line = 1, firstLine = 1;
  int depth = 0;
  bool isEntry = false;
  std::vector<PTXFunction> entries;
};
} // namespace

std::vector<PTXFunction> tandem::readEntries(StringRef ptx) {
  return Reader(ptx).run();
}

PTXConstants::PTXConstants(const PTXFunction &function) {
  for (const PTXInstruction &instruction : function.instructions) {
    auto operands = instruction.getOperands();
    StringRef target = operands.front();
    std::optional<uint64_t> value;
    if (instruction.mnemonic.starts_with("mov.") && operands.size() == 2 &&
        !operands[1].starts_with("%") && !operands[1].starts_with("{"))
      value = lookup(operands[1]);
    // A vector operand sets each register in its braces.
    llvm::SmallVector<StringRef, 4> names;
    target.trim("{}").split(names, ',');
    for (StringRef name : names)
      if (name.trim().starts_with("%"))
        define(name.trim(), value);
  }
}

void PTXConstants::define(StringRef name, std::optional<uint64_t> value) {
  auto [known, isNew] = registers.try_emplace(name, value);
  if (!isNew && known->second != value)
    known->second = std::nullopt;
}

std::optional<uint64_t> PTXConstants::lookup(StringRef operand) const {
  if (operand.starts_with("%"))
    return registers.lookup(operand);
  int64_t negative;
  uint64_t value;
  if (!operand.getAsInteger(0, value))
    return value;
  return operand.getAsInteger(0, negative)
             ? std::nullopt
             : std::optional<uint64_t>(uint64_t(negative));
}
