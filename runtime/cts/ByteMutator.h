//===- ByteMutator.h - Changes of files at random ---------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements random changes of binary files.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_BYTEMUTATOR_H
#define TANDEM_RUNTIME_CTS_BYTEMUTATOR_H

#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tandem::cts {

/// Changes contents at random. The same seed repeats the same changes.
class ByteMutator {
public:
  ByteMutator(std::vector<std::string> contents, uint64_t seed)
      : contents(std::move(contents)), random(seed) {}

  /// Returns one of the contents with one to eight changes.
  std::string next() { return change(contents[below(contents.size())]); }

  /// Returns \p bytes with one to eight changes.
  std::string change(std::string bytes) {
    for (size_t i = 1 + below(8); i > 0 && !bytes.empty(); --i)
      changeOnce(bytes);
    return bytes;
  }

  size_t below(size_t end) { return random() % end; }

private:
  /// Writes a number of \p width bytes at an aligned place, where the format
  /// may have one.
  void setNumber(std::string &bytes, size_t width) {
    if (bytes.size() < width)
      return;
    size_t place = below(bytes.size() / width) * width;
    uint64_t values[] = {0,
                         1,
                         ~uint64_t(0),
                         uint64_t(1) << (8 * width - 1),
                         (uint64_t(1) << (8 * width - 1)) - 1,
                         below(256),
                         bytes.size(),
                         bytes.size() - place,
                         place,
                         random()};
    std::memcpy(&bytes[place], &values[below(std::size(values))], width);
  }

  /// Changes a number slightly, as an offset to an adjacent object would
  /// differ.
  void shiftNumber(std::string &bytes) {
    if (bytes.size() < 4)
      return;
    uint32_t value;
    char *place = &bytes[below(bytes.size() / 4) * 4];
    std::memcpy(&value, place, 4);
    value += static_cast<uint32_t>(below(65)) - 32;
    std::memcpy(place, &value, 4);
  }

  void copyRange(std::string &bytes) {
    const std::string &source = contents[below(contents.size())];
    size_t from = below(source.size()), to = below(bytes.size());
    size_t count = 1 + below(32);
    bytes.replace(to, below(2) ? count : 0, source.substr(from, count));
  }

  void changeOnce(std::string &bytes) {
    size_t place = below(bytes.size());
    switch (below(10)) {
    case 0:
      bytes[place] = static_cast<char>(bytes[place] ^ 1 << below(8));
      return;
    case 1:
      bytes[place] = static_cast<char>(random());
      return;
    case 2:
      return bytes.resize(place);
    case 3:
      return copyRange(bytes);
    case 4:
      bytes.erase(place & ~size_t(3), 4);
      return;
    case 5:
      return setNumber(bytes, 2);
    case 6:
      return setNumber(bytes, 1);
    case 7:
      return shiftNumber(bytes);
    default:
      return setNumber(bytes, 4);
    }
  }

  std::vector<std::string> contents;
  std::mt19937_64 random;
};

} // namespace tandem::cts

#endif // TANDEM_RUNTIME_CTS_BYTEMUTATOR_H
