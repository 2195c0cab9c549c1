//===- TextMutator.cpp - Random changes of texts --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file makes new MLIR texts from existing ones.
//
//===----------------------------------------------------------------------===//

#include "TextMutator.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace tandem::fuzz;
using llvm::StringRef;

static bool isLetter(char c) { return llvm::isAlnum(c) || c == '_'; }

/// Returns the size of a word of letters with its prefix (%x, #tandem.float,
/// bf16), a quoted string, white space, or a single character.
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

/// Returns the end of an attribute with parameters that begins at a position,
/// such as #tandem.float<bf16>, or the position if there is none.
static size_t getAttributeEnd(const std::vector<std::string> &words,
                              size_t place) {
  if (words[place][0] != '#' || place + 1 == words.size() ||
      words[place + 1] != "<")
    return place;
  unsigned depth = 0;
  for (size_t end = place + 1; end < words.size(); ++end) {
    depth += words[end] == "<" ? 1 : words[end] == ">" ? -1 : 0;
    if (depth == 0)
      return end + 1;
  }
  return place;
}

TextMutator::TextMutator(std::vector<std::string> sources) {
  std::set<Words> allAttributes;
  std::set<std::string> all;
  for (StringRef text : sources) {
    Words &words = texts.emplace_back();
    while (!text.empty()) {
      words.push_back(text.take_front(getWordSize(text)).str());
      text = text.drop_front(words.back().size());
    }
    all.insert(words.begin(), words.end());
    for (size_t place = 0; place < words.size(); ++place)
      if (size_t end = getAttributeEnd(words, place); end != place)
        allAttributes.emplace(words.begin() + place, words.begin() + end);
  }
  attributes.assign(allAttributes.begin(), allAttributes.end());
  dictionary.assign(all.begin(), all.end());
}

/// Numbers that programs often handle incorrectly.
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
  // Choose a word of the same kind, since few other texts are meaningful.
  for (int i = 0; i < 64; ++i) {
    const std::string &word = random.choose(dictionary);
    if (word[0] == old[0] || (isLetter(old[0]) && isLetter(word[0])) || i == 63)
      return word;
  }
  llvm_unreachable("the last word is taken as it is");
}

TextMutator::Words TextMutator::makeAttribute(StringRef old,
                                              Random &random) const {
  StringRef dialect = old.take_front(old.find('.'));
  // There are none if the original attribute is a result of earlier changes.
  for (int i = 0; i < 64 && !attributes.empty(); ++i) {
    const Words &attribute = random.choose(attributes);
    if (StringRef(attribute[0]).starts_with(dialect))
      return attribute;
  }
  return {old.str()};
}

/// Replaces all occurrences of a sequence of words.
static void replaceAll(std::vector<std::string> &words,
                       const std::vector<std::string> &old,
                       const std::vector<std::string> &replacement) {
  std::vector<std::string> result;
  for (size_t i = 0; i < words.size();) {
    bool isOld = i + old.size() <= words.size() &&
                 std::equal(old.begin(), old.end(), words.begin() + i);
    if (isOld)
      result.insert(result.end(), replacement.begin(), replacement.end());
    else
      result.push_back(words[i]);
    i += isOld ? old.size() : 1;
  }
  words = std::move(result);
}

static void eraseLine(std::vector<std::string> &words, size_t place) {
  auto endsLine = [](StringRef word) { return word.contains('\n'); };
  auto end = std::find_if(words.begin() + place, words.end(), endsLine);
  auto begin = std::find_if(std::make_reverse_iterator(words.begin() + place),
                            words.rend(), endsLine);
  words.erase(begin.base(), end);
}

void TextMutator::change(Words &words, Random &random) const {
  size_t place = random.below(words.size());
  size_t end = std::min(words.size(), place + 1 + random.below(12));
  auto begin = words.begin();
  switch (random.below(12)) {
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
  case 5: {
    // Find the next attribute of the text.
    while (place < words.size() && getAttributeEnd(words, place) == place)
      ++place;
    if (place == words.size())
      return;
    Words old(begin + place, begin + getAttributeEnd(words, place));
    replaceAll(words, old, makeAttribute(old[0], random));
    return;
  }
  case 6:
    replaceAll(words, {words[place]}, {makeWord(words[place], random)});
    return;
  case 7:
    eraseLine(words, place);
    return;
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
