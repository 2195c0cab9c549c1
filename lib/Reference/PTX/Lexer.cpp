//===- Lexer.cpp - Tokens of PTX ------------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the lexer for PTX text, its literals and its types.
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace tandem::reference;
using namespace tandem::reference::ptx;
using llvm::StringRef;

static bool startsWord(char c) {
  return llvm::isAlpha(c) || c == '_' || c == '$' || c == '%' || c == '.';
}

static bool continuesWord(char c) { return startsWord(c) || llvm::isDigit(c); }

/// Returns the length of a word. A modifier such as L1::no_allocate contains a
/// double colon.
static size_t wordLength(StringRef text) {
  size_t length = 1;
  while (length < text.size()) {
    if (text.substr(length).starts_with("::"))
      length += 2;
    else if (continuesWord(text[length]))
      ++length;
    else
      break;
  }
  return length;
}

Token Lexer::take(Token::Kind kind, size_t length) {
  Token token{kind, rest.take_front(length), line};
  rest = rest.drop_front(length);
  return token;
}

void Lexer::skipSpaceAndComments() {
  while (!rest.empty()) {
    size_t length = 0;
    if (llvm::isSpace(rest.front()))
      length = 1;
    else if (rest.starts_with("//"))
      length = std::min(rest.find('\n'), rest.size());
    else if (rest.starts_with("/*"))
      length = std::min(rest.find("*/", 2), rest.size() - 2) + 2;
    if (length == 0)
      return;
    line += rest.take_front(length).count('\n');
    rest = rest.drop_front(length);
  }
}

Token Lexer::next() {
  skipSpaceAndComments();
  if (rest.empty())
    return take(Token::End, 0);
  char c = rest.front();
  if (startsWord(c))
    return take(Token::Word, wordLength(rest));
  if (llvm::isDigit(c)) {
    size_t length =
        rest.find_if_not([](char c) { return llvm::isAlnum(c) || c == '.'; });
    return take(Token::Number, std::min(length, rest.size()));
  }
  if (c == '"') {
    size_t end = rest.find('"', 1);
    if (end == StringRef::npos)
      return take(Token::Bad, 1);
    return take(Token::String, end + 1);
  }
  if (StringRef("{}[]()<>,;:+-@!|=").contains(c))
    return take(Token::Punctuation, 1);
  return take(Token::Bad, 1);
}

bool ptx::parseInteger(StringRef text, uint64_t &value) {
  text.consume_back("U");
  unsigned radix = 10;
  if (text.consume_front("0x") || text.consume_front("0X"))
    radix = 16;
  return !text.getAsInteger(radix, value);
}

static std::optional<Format> getPTXFormat(StringRef text) {
  return llvm::StringSwitch<std::optional<Format>>(text)
      .Case("f16", Format::F16)
      .Case("bf16", Format::BF16)
      .Case("f32", Format::F32)
      .Case("f64", Format::F64)
      .Case("e4m3", Format::F8E4M3FN)
      .Case("e5m2", Format::F8E5M2)
      .Default(std::nullopt);
}

/// Parses a type of a kind and width that exist. x2 halves a register into two
/// lanes.
std::optional<PTXType> ptx::parseType(StringRef text) {
  PTXType type;
  if (text == "pred") {
    type.kind = PTXType::Predicate;
    type.width = 1;
    return type;
  }
  if (text.consume_back("x2"))
    type.lanes = 2;
  if (std::optional<Format> format = getPTXFormat(text)) {
    bool existsOnlyPacked = getBitWidth(*format) == 8;
    if (existsOnlyPacked != (type.lanes == 2) && getBitWidth(*format) != 16 &&
        *format != Format::F32)
      return std::nullopt;
    type.kind = PTXType::Float;
    type.format = *format;
    type.width = getBitWidth(*format);
    return type;
  }
  unsigned width;
  if (text.size() < 2 || text.drop_front().getAsInteger(10, width) ||
      !llvm::is_contained({8u, 16u, 32u, 64u}, width))
    return std::nullopt;
  if (type.lanes == 2 && (width != 16 || text.front() == 'b'))
    return std::nullopt;
  type.width = width;
  switch (text.front()) {
  case 'b':
    type.kind = PTXType::Bits;
    return type;
  case 'u':
    type.kind = PTXType::Unsigned;
    return type;
  case 's':
    type.kind = PTXType::Signed;
    return type;
  default:
    return std::nullopt;
  }
}
