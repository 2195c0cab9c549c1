//===- StorageParts.cpp - Numbers written and read ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements what the parts share that write every f32 in a storage,
// or read every code of one.
//
//===----------------------------------------------------------------------===//

#include "StorageParts.h"

using namespace tandem::verify;

void tandem::verify::put(Array &array, size_t index, uint16_t code) {
  if (array.getBytes() == 1)
    array.get<uint8_t>()[index] = uint8_t(code);
  else
    array.get<uint16_t>()[index] = code;
}

uint8_t *tandem::verify::getUnpacked() {
  static thread_local uint8_t codes[blockSize];
  return codes;
}

void tandem::verify::pack(Array &to, const uint8_t *codes, size_t size,
                          unsigned shared) {
  auto *bytes = to.get<uint8_t>();
  for (size_t i = 0; i < size; i += shared)
    bytes[i / shared] =
        shared == 1 ? codes[i] : uint8_t(codes[i] | codes[i + 1] << 4);
}

//===----------------------------------------------------------------------===//
// WritePart
//===----------------------------------------------------------------------===//

WritePart::WritePart(llvm::StringRef name, llvm::StringRef storage,
                     std::vector<PlaneDecl> planes, Rounding rounding)
    : Part((name + "-write").str(), ("every f32 as " + storage).str()),
      rounding(rounding) {
  inputs = {{"x", 4}};
  results = std::move(planes);
  units = blockSize;
  kernel = writeKernel("f32, f32", {{"x", floatStorage("f32")}},
                       {{"q", storage.str()}},
                       "  %x = tandem.load %t_x : !x -> f32\n"
                       "  tandem.store %x, %t_q : f32, !q\n");
}

void WritePart::fill(Block &block) const { fillFloats(block); }

/// All words of a draw differ from unit to unit. The number of the first
/// element has more than 32 bits and is a multiple of the size of a group.
Draw WritePart::draw(uint64_t unit) const {
  if (rounding == Rounding::Nearest)
    return {};
  Random random{unit};
  Draw draw;
  draw.seed = random();
  draw.step = 1 + unit;
  draw.key = uint32_t(random());
  draw.first = random() >> 20 & ~uint64_t(0xFF);
  return draw;
}

const uint16_t *WritePart::drawBits(const Block &block) const {
  static thread_local uint16_t bits[blockSize];
  // The tensor that is read is the graph's first, this one its second.
  constexpr uint32_t tensor = 1;
  verify::drawBits(rounding, draw(block.unit), tensor, bits);
  return bits;
}

//===----------------------------------------------------------------------===//
// ReadPart
//===----------------------------------------------------------------------===//

ReadPart::ReadPart(llvm::StringRef name, llvm::StringRef storage,
                   std::vector<PlaneDecl> planes)
    : Part((name + "-read").str(), ("every code of " + storage).str()) {
  inputs = std::move(planes);
  results = {{"r", 4}};
  unsigned bits = 0;
  for (const PlaneDecl &plane : inputs)
    bits += 8 * plane.bytes;
  units = uint64_t(1) << (std::max(bits, 16u) - 16);
  kernel = writeKernel("f32, f32", {{"q", storage.str()}},
                       {{"r", floatStorage("f32")}},
                       "  %x = tandem.load %t_q : !q -> f32\n"
                       "  tandem.store %x, %t_r : f32, !r\n");
}

void ReadPart::fill(Block &block) const {
  block.size = blockSize;
  unsigned lowBits = inputs.size() == 2 ? 8 * inputs[1].bytes : 0;
  for (size_t i = 0; i < blockSize; ++i) {
    uint64_t all = block.unit << 16 | i;
    put(block.inputs[0], i, uint16_t(all >> lowBits));
    if (lowBits)
      put(block.inputs[1], i, uint16_t(all & ((1u << lowBits) - 1)));
  }
}
