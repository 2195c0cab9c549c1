//===- RandomBits.h - Random bits of several elements -----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the lowering of random bits.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_RANDOMBITS_H
#define TANDEM_CONVERSION_RANDOMBITS_H

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// The inputs that determine the random bits of consecutive elements.
struct RandomSource {
  Value seedLow, seedHigh, step, tensorKey;
  /// The first element's index in the unsharded tensor, an i64.
  Value start;
};

/// Builds the 16 random bits of each of `width` elements, an i16 or a vector of
/// them. An element gets half-word `element mod 8` (low half first) of
/// Philox4x32-10 with key = seed and counter = (element div 8 as 64 bits,
/// tensor key, step); see Salmon et al., SC 2011. Philox is computed once for
/// eight elements, and once more if `start` is not a multiple of eight.
Value buildRandomBits(SequenceBuilder &b, const RandomSource &source,
                      int64_t width);

/// Builds the 16 dithered bits (see `tandem.random_bits`) of elements at
/// `offsets` from the first one, an i32 or a vector of them. `number` is the
/// tensor's number. Everything that does not depend on the element is the same
/// for all elements of a tensor in a launch; LLVM hoists it out of loops.
Value buildDitherBits(SequenceBuilder &b, const RandomSource &source,
                      unsigned number, ArrayRef<int64_t> offsets);

} // namespace tandem

#endif // TANDEM_CONVERSION_RANDOMBITS_H
