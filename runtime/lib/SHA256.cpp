//===- SHA256.cpp - Content hashes ----------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements SHA-256.
//
//===----------------------------------------------------------------------===//

#include "SHA256.h"

#include <algorithm>
#include <cstring>

using namespace tandem::runtime;

static constexpr uint32_t roundConstants[64] = {
    0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1,
    0x923F82A4, 0xAB1C5ED5, 0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3,
    0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174, 0xE49B69C1, 0xEFBE4786,
    0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA,
    0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7, 0xC6E00BF3, 0xD5A79147,
    0x06CA6351, 0x14292967, 0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13,
    0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85, 0xA2BFE8A1, 0xA81A664B,
    0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070,
    0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A,
    0x5B9CCA4F, 0x682E6FF3, 0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208,
    0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2};

static uint32_t rotate(uint32_t value, int bits) {
  return value >> bits | value << (32 - bits);
}

static uint32_t readWord(const uint8_t *bytes) {
  return uint32_t(bytes[0]) << 24 | uint32_t(bytes[1]) << 16 |
         uint32_t(bytes[2]) << 8 | bytes[3];
}

static void expand(const uint8_t *block, uint32_t (&words)[64]) {
  for (int i = 0; i < 16; ++i)
    words[i] = readWord(block + 4 * i);
  for (int i = 16; i < 64; ++i) {
    uint32_t near = words[i - 2], far = words[i - 15];
    words[i] = words[i - 16] + words[i - 7] +
               (rotate(far, 7) ^ rotate(far, 18) ^ far >> 3) +
               (rotate(near, 17) ^ rotate(near, 19) ^ near >> 10);
  }
}

void SHA256::addBlock(const uint8_t *block) {
  uint32_t words[64];
  expand(block, words);
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    uint32_t first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                     ((e & f) ^ (~e & g)) + roundConstants[i] + words[i];
    uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                      ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const uint32_t added[] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i)
    state[i] += added[i];
}

void SHA256::add(const void *bytes, size_t size) {
  auto *next = static_cast<const uint8_t *>(bytes);
  while (size) {
    size_t used = length % rest.size();
    size_t count = std::min(size, rest.size() - used);
    if (count == rest.size()) {
      addBlock(next);
    } else {
      std::memcpy(rest.data() + used, next, count);
      if (used + count == rest.size())
        addBlock(rest.data());
    }
    length += count;
    next += count;
    size -= count;
  }
}

Digest SHA256::finish() {
  uint64_t bits = 8 * length;
  const uint8_t end[64] = {0x80};
  // The padding is a one, zeros up to 8 bytes before a block's end, and the
  // length in bits.
  add(end, 1 + (119 - length % 64) % 64);
  uint8_t count[8];
  for (int i = 0; i < 8; ++i)
    count[i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  add(count, sizeof(count));
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest tandem::runtime::digestOf(const void *bytes, size_t size) {
  SHA256 hash;
  hash.add(bytes, size);
  return hash.finish();
}
