//===- FloatLanes.h - Lanes of f32 ------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements f32 operands and results of the parts.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_VERIFY_FLOATLANES_H
#define TANDEM_VERIFY_FLOATLANES_H

#include "Part.h"
#include "SmallFloat.h"

namespace tandem::verify {

typedef float Floats __attribute__((vector_size(32)));
typedef uint32_t FloatBits __attribute__((vector_size(32)));

TANDEM_LANES Floats loadFloatBits(const uint32_t *from) {
  Floats lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

/// Loads eight f32, which doubles represent exactly.
TANDEM_LANES Reals loadFloats(const uint32_t *from) {
  return __builtin_convertvector(loadFloatBits(from), Reals);
}

/// Stores numbers rounded to f32, with the canonical NaN.
TANDEM_LANES void storeFloats(uint32_t *to, Reals x) {
  Floats rounded = __builtin_convertvector(x, Floats);
  FloatBits bits = (FloatBits)rounded;
  bits = (bits & 0x7FFFFFFF) > 0x7F800000 ? FloatBits{} + 0x7FFFFFFF : bits;
  std::memcpy(to, &bits, sizeof(bits));
}

/// Fills the block with the f32 whose upper halves are the number of the unit.
inline void fillFloats(Block &block) {
  auto *x = block.inputs[0].get<uint32_t>();
  block.size = blockSize;
  for (uint32_t i = 0; i < blockSize; ++i)
    x[i] = uint32_t(block.unit) << 16 | i;
}

} // namespace tandem::verify

#endif // TANDEM_VERIFY_FLOATLANES_H
