//===- PrecisionParts.cpp - Double words of few bits ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts that evaluate the listings of double-word
// operations in formats with 3 to 6 bits of precision and a wide range, for all
// significands. They compile no code, and check the bounds themselves.
//
//===----------------------------------------------------------------------===//

#include "ExpansionParts.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace tandem::verify;

namespace {
/// Evaluates a listing. x is in [1, 4) for roots and else in [1, 2), and y has
/// any sign. Trailing components are zero, or half an ulp down to 2^-depth of
/// it. In sums, y is as large as x or smaller by up to 2^-distance.
template <int p>
class PrecisionPart : public ExpansionPart<SmallFloat<8, p - 1>, uint16_t> {
  using F = SmallFloat<8, p - 1>;
  using Base = ExpansionPart<F, uint16_t>;

public:
  explicit PrecisionPart(const ExpansionInfo &info)
      : Base("p" + std::to_string(p), info,
             llvm::formatv("the listing of {0} with {1} bits of precision, all "
                           "significands",
                           info.name, p)) {
    bool isRoot = info.operation == Expansion::Sqrt;
    first = makeExpansions(0, isRoot ? 1 : 0, /*isSigned=*/false);
    if (info.other != Other::None)
      second = makeSecond();
    chunks = llvm::divideCeil(second.size(), blockSize);
    this->units = second.empty() ? llvm::divideCeil(first.size(), blockSize)
                                 : first.size() * chunks;
  }

  void fill(Block &block) const override {
    uint16_t *planes[4] = {};
    for (size_t i = 0; i < block.inputs.size(); ++i)
      planes[i] = block.inputs[i].template get<uint16_t>();
    if (second.empty())
      return fillWith(block, planes, first, block.unit * blockSize);
    size_t begin = block.unit % chunks * blockSize;
    Pair x = first[block.unit / chunks];
    fillWith(block, planes + 2, second, begin);
    std::fill_n(planes[0], block.size, x.first);
    std::fill_n(planes[1], block.size, x.second);
  }

  void compute(Block &block) const override {
    this->evaluate(block, block.results);
  }

  /// Expects the result of the listing if it is a number, since only its error
  /// is checked.
  void expect(Block &block) const override {
    for (size_t k = 0; k < block.results.size(); ++k) {
      auto *from = block.results[k].template get<uint16_t>();
      auto *to = block.expected[k].template get<uint16_t>();
      forLanes(block.size, [=](size_t i) {
        Words codes = loadCodes(from + i);
        storeCodes(to + i, select(isFinite(F::decode(codes)), codes, ~codes));
      });
    }
  }

private:
  using Pair = std::pair<uint16_t, uint16_t>;
  static constexpr int depth = 6, distance = p + 4;
  static constexpr uint16_t mantissas = 1 << (p - 1), sign = 1 << (p + 7);

  static uint16_t encode(int exponent, unsigned mantissa) {
    return uint16_t((exponent + F::bias) << (p - 1) | mantissa);
  }

  static void addTrailing(std::vector<Pair> &to, uint16_t high, int exponent) {
    int half = exponent - p;
    auto add = [&](uint16_t low) {
      to.push_back({high, low});
      to.push_back({high, uint16_t(low | sign)});
    };
    to.push_back({high, 0});
    add(encode(half, 0));
    for (int gap = 1; gap <= depth; ++gap)
      for (unsigned mantissa = 0; mantissa < mantissas; ++mantissa)
        add(encode(half - gap, mantissa));
  }

  static std::vector<Pair> makeExpansions(int lowest, int highest,
                                          bool isSigned) {
    std::vector<Pair> result;
    for (int exponent = lowest; exponent <= highest; ++exponent)
      for (unsigned mantissa = 0; mantissa < mantissas; ++mantissa)
        for (uint16_t s : {uint16_t(0), sign})
          if (s == 0 || isSigned)
            addTrailing(result, encode(exponent, mantissa) | s, exponent);
    return result;
  }

  std::vector<Pair> makeSecond() const {
    auto operation = this->info.operation;
    bool isSum = operation == Expansion::Grow || operation == Expansion::Add ||
                 operation == Expansion::Sub || operation == Expansion::Kahan;
    int lowest = isSum ? -distance : 0;
    if (this->info.other == Other::Expansion)
      return makeExpansions(lowest, 0, isSum);
    std::vector<Pair> result;
    for (int exponent = lowest; exponent <= 0; ++exponent)
      for (unsigned mantissa = 0; mantissa < mantissas; ++mantissa)
        for (uint16_t s : {uint16_t(0), sign})
          result.push_back({uint16_t(encode(exponent, mantissa) | s), 0});
    return result;
  }

  /// Writes operands. The operation grow requires a component that is no larger
  /// than x, which replaces larger ones.
  void fillWith(Block &block, uint16_t *const *planes,
                const std::vector<Pair> &from, size_t begin) const {
    block.size = std::min(blockSize, from.size() - begin);
    bool isGrow = this->info.operation == Expansion::Grow;
    uint16_t limit = isGrow ? first[block.unit / chunks].first : 0xFFFF;
    for (size_t i = 0; i < block.size; ++i) {
      auto [high, low] = from[begin + i];
      bool isLarge = isGrow && (high & (sign - 1)) > limit;
      planes[0][i] = isLarge ? uint16_t(limit | (high & sign)) : high;
      if (planes[1])
        planes[1][i] = low;
    }
  }

  std::vector<Pair> first, second;
  size_t chunks = 0;
};

template <int p>
void addParts(Parts &parts) {
  for (const ExpansionInfo &info : getExpansionOperations())
    if (info.bound)
      parts.push_back(std::make_unique<PrecisionPart<p>>(info));
}
} // namespace

void tandem::verify::addPrecisionParts(Parts &parts) {
  addParts<3>(parts);
  addParts<4>(parts);
  addParts<5>(parts);
  addParts<6>(parts);
}
