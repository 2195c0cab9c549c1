//===- TextMutator.cpp - Changes of texts at random -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements what makes new MLIR texts of old ones.
//
//===----------------------------------------------------------------------===//

#include "TextMutator.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace mlir::tandem::fuzz;
using llvm::StringRef;

static bool isLetter(char c) { return llvm::isAlnum(c) || c == '_'; }

/// A word of letters with its prefix (%x, #tandem.float, bf16), a string in
/// quotes, spaces, or a single character.
static size_t getWordSize(StringRef text) {
  if (text[0] == '"') {
    size_t end = text.find_first_of("\"\n", 1);
    return end == StringRef::npos ? text.size() : end + 1;
  }
  if (llvm::isSpace(text[0]))
    return text.size() - text.ltrim().size();
  size_t size = 1;
  if (isLetter(text[0]) || StringRef("%#!@^").contains(text[0]))
    while (size < text.size() && (isLetter(text[size]) || text[size] == '.'))
      ++size;
  return size;
}

TextMutator::TextMutator(std::vector<std::string> sources) {
  std::set<std::string> all;
  for (StringRef text : sources) {
    Words &words = texts.emplace_back();
    while (!text.empty()) {
      words.push_back(text.take_front(getWordSize(text)).str());
      text = text.drop_front(words.back().size());
    }
    all.insert(words.begin(), words.end());
  }
  dictionary.assign(all.begin(), all.end());
}

/// What programs tend to be wrong about.
static const char *const numbers[] = {
    "0",    "1",        "-1",         "2",          "3",
    "7",    "31",       "32",         "64",         "65",
    "127",  "128",      "255",        "256",        "1024",
    "4096", "65536",    "2147483647", "4294967296", "9223372036854775807",
    "-0.0", "1.0e+300", "0x7FC00000", "1.0e-46",
};

std::string TextMutator::makeWord(StringRef old, Random &random) const {
  if (llvm::isDigit(old[0]) && !random.oneIn(4))
    return random.choose(numbers);
  // Of the same kind, for otherwise few texts have a meaning.
  for (int i = 0; i < 64; ++i) {
    const std::string &word = random.choose(dictionary);
    if (word[0] == old[0] || (isLetter(old[0]) && isLetter(word[0])) || i == 63)
      return word;
  }
  llvm_unreachable("the last word is taken as it is");
}

void TextMutator::change(Words &words, Random &random) const {
  size_t place = random.below(words.size());
  size_t end = std::min(words.size(), place + 1 + random.below(12));
  auto begin = words.begin();
  switch (random.below(8)) {
  case 0:
    words.erase(begin + place);
    return;
  case 1:
    words.erase(begin + place, begin + end);
    return;
  case 2:
    std::swap(words[place], words[random.below(words.size())]);
    return;
  case 3: {
    Words copy(begin + place, begin + end);
    words.insert(begin + random.below(words.size()), copy.begin(), copy.end());
    return;
  }
  case 4: {
    const Words &other = random.choose(texts);
    size_t from = random.below(other.size());
    size_t to = std::min(other.size(), from + 1 + random.below(24));
    words.insert(begin + place, other.begin() + from, other.begin() + to);
    return;
  }
  default:
    words[place] = makeWord(words[place], random);
  }
}

std::string TextMutator::next(Random &random, unsigned changes) const {
  Words words = random.choose(texts);
  for (unsigned i = 0, count = random.below(changes + 1); i < count; ++i)
    if (!words.empty())
      change(words, random);
  return llvm::join(words, "");
}
