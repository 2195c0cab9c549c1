//===- TextMutator.h - Random changes of texts ------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares a mutator that makes new MLIR texts from existing ones.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_FUZZ_TEXTMUTATOR_H
#define TANDEM_TEST_FUZZ_TEXTMUTATOR_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tandem::fuzz {

/// A random generator that is the same for every standard library.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  size_t below(size_t end) { return engine() % end; }
  bool oneIn(size_t count) { return below(count) == 0; }
  template <typename List>
  const auto &choose(const List &list) {
    return list[below(std::size(list))];
  }

private:
  std::mt19937_64 engine;
};

/// Changes texts word by word, line by line, or in all occurrences of one word
/// or attribute, such as a storage. Words and attributes come from all texts,
/// so that changes are often meaningful.
class TextMutator {
public:
  explicit TextMutator(std::vector<std::string> texts);

  /// Returns one of the texts with up to `changes` changes.
  std::string next(Random &random, unsigned changes) const;

private:
  using Words = std::vector<std::string>;

  void change(Words &words, Random &random) const;
  std::string makeWord(llvm::StringRef old, Random &random) const;
  Words makeAttribute(llvm::StringRef old, Random &random) const;

  std::vector<Words> texts;
  /// Every distinct word of the texts, and every attribute.
  Words dictionary;
  std::vector<Words> attributes;
};

} // namespace tandem::fuzz

#endif // TANDEM_TEST_FUZZ_TEXTMUTATOR_H
