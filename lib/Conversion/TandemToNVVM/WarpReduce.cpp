//===- WarpReduce.cpp - Combining values across a warp --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements butterfly shuffles.
//
//===----------------------------------------------------------------------===//

#include "WarpReduce.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace tandem;

static Value shuffleWord(SequenceBuilder &b, Value word, int64_t distance) {
  Type i32 = b.builder.getI32Type();
  return NVVM::ShflOp::create(
      b.builder, b.loc, word.getType(), b.integer(i32, 0xFFFFFFFF), word,
      b.integer(i32, distance), b.integer(i32, warpSize - 1),
      NVVM::ShflKind::bfly, UnitAttr());
}

Value tandem::shuffleButterfly(SequenceBuilder &b, Value value,
                               int64_t distance) {
  Type type = value.getType();
  if (type.getIntOrFloatBitWidth() == 32)
    return shuffleWord(b, value, distance);
  Type i32 = b.builder.getI32Type(), i64 = b.builder.getI64Type();
  Value bits = isa<FloatType>(type) ? b.bits(value) : value;
  Value low = shuffleWord(b, b.resize(bits, i32), distance);
  Value high = shuffleWord(b, b.resize(b.shr(bits, 32), i32), distance);
  Value lower = b.resize(low, i64);
  bits = b.ori(b.shl(b.resize(high, i64), 32), lower);
  return isa<FloatType>(type) ? b.bitcast(bits, type) : bits;
}

Value tandem::reduceLanes(SequenceBuilder &b, Value value, int64_t lanes,
                          Combiner combine) {
  for (int64_t distance = 1; distance < lanes; distance *= 2)
    value = combine(value, shuffleButterfly(b, value, distance));
  return value;
}
