//===- PackedCodes.cpp - Several codes in a byte --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements accesses to single codes of an entry.
//
//===----------------------------------------------------------------------===//

#include "tandem/Conversion/PackedCodes.h"

using namespace mlir;
using namespace tandem;

Value tandem::countPackedBytes(SequenceBuilder &b, Value count,
                               int64_t packed) {
  Value raised = b.addi(count, b.like(count, packed - 1));
  return b.shr(raised, llvm::Log2_64(packed));
}

/// Returns the position of an element's code in its entry, in bits.
static Value getShift(SequenceBuilder &b, Value element, Type type,
                      int64_t packed) {
  Value number = b.andi(element, b.like(element, packed - 1));
  Value shift = b.shl(number, llvm::Log2_64(packedBits(packed)));
  return b.resize(shift, type);
}

Value tandem::extractPacked(SequenceBuilder &b, Value entry, Value element,
                            int64_t packed) {
  Value shift = getShift(b, element, entry.getType(), packed);
  Value code = arith::ShRUIOp::create(b.builder, b.loc, entry, shift);
  return b.andi(code, b.like(code, (1 << packedBits(packed)) - 1));
}

Value tandem::insertPacked(SequenceBuilder &b, Value entry, Value code,
                           Value element, Value isLast, int64_t packed) {
  Value shift = getShift(b, element, entry.getType(), packed);
  auto shifted = [&](Value value) -> Value {
    return arith::ShLIOp::create(b.builder, b.loc, value, shift);
  };
  Value all = b.like(entry, 0xFF);
  Value own = shifted(b.like(entry, (1 << packedBits(packed)) - 1));
  Value others = b.xori(own, all);
  // -1 << shift has the bits from the code on.
  Value before = b.xori(shifted(all), all);
  Value kept = b.andi(entry, b.select(isLast, before, others));
  return b.ori(kept, shifted(code));
}
