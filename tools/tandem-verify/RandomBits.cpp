//===- RandomBits.cpp - The bits by which values are rounded --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the random bits of the elements of a launch.
//
//===----------------------------------------------------------------------===//

#include "RandomBits.h"

using namespace tandem::verify;

llvm::StringRef tandem::verify::getName(Rounding rounding) {
  switch (rounding) {
  case Rounding::Nearest:
    return "";
  case Rounding::Stochastic:
    return "stochastic";
  case Rounding::Dither:
    return "dither";
  }
  return "";
}

static constexpr uint64_t lowWord = 0xFFFFFFFF;

namespace {
/// Four words of 32 bits for each lane.
struct Counters {
  Words words[4];

  uint32_t first() const { return uint32_t(words[0][0]); }
};
} // namespace

/// Philox4x32-10 of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2,
/// 3" (2011).
static Counters philox(Counters counters, uint64_t key) {
  Words *c = counters.words;
  uint64_t low = key & lowWord, high = key >> 32;
  for (int round = 0; round < 10; ++round) {
    Words first = c[0] * 0xD2511F53, second = c[2] * 0xCD9E8D57;
    c[0] = (second >> 32) ^ c[1] ^ low;
    c[1] = second & lowWord;
    c[2] = (first >> 32) ^ c[3] ^ high;
    c[3] = first & lowWord;
    low = (low + 0x9E3779B9) & lowWord;
    high = (high + 0xBB67AE85) & lowWord;
  }
  return counters;
}

/// Draws the bits of eight elements for each lane.
static void drawStochastic(const Draw &draw, uint16_t *bits) {
  constexpr size_t perCounter = 8;
  for (size_t i = 0; i < blockSize; i += numLanes * perCounter) {
    Words number = splatWord((draw.first + i) / perCounter) +
                   Words{0, 1, 2, 3, 4, 5, 6, 7};
    Counters drawn =
        philox({number & lowWord, number >> 32, splatWord(draw.key),
                splatWord(draw.step & lowWord)},
               draw.seed);
    for (size_t word = 0; word < 4; ++word)
      for (size_t lane = 0; lane < numLanes; ++lane) {
        uint16_t *pair = bits + i + lane * perCounter + 2 * word;
        pair[0] = uint16_t(drawn.words[word][lane]);
        pair[1] = uint16_t(drawn.words[word][lane] >> 16);
      }
  }
}

/// Returns S of a tensor and step.
static uint32_t findShift(const Draw &draw, uint32_t tensor) {
  auto step = uint32_t(draw.step);
  uint32_t window = step / 64, place = step % 64;
  auto drawWord = [&](uint32_t purpose, uint32_t last) {
    return philox({splatWord(tensor), splatWord(purpose), splatWord(draw.key),
                   splatWord(last)},
                  draw.seed)
        .first();
  };
  uint32_t q = drawWord(0x64697468, window);
  uint32_t base = drawWord(0x64697469, 0);
  uint32_t m = 0x271B1713u >> (8 * (q / 64 % 4)) & 0xFF;
  return (((m * place + q) % 64) << 26) + (base + window * 0x9E3779B9u) / 64;
}

static void drawDither(const Draw &draw, uint32_t tensor, uint16_t *bits) {
  uint32_t shift = findShift(draw, tensor);
  for (size_t i = 0; i < blockSize; ++i)
    bits[i] = uint16_t((uint32_t(draw.first + i) * 0x6107DA4Du + shift) >> 16);
}

void tandem::verify::drawBits(Rounding rounding, const Draw &draw,
                              uint32_t tensor, uint16_t *bits) {
  if (rounding == Rounding::Stochastic)
    drawStochastic(draw, bits);
  if (rounding == Rounding::Dither)
    drawDither(draw, tensor, bits);
}
