//===- PackedCodes.h - Several codes in a byte ------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what targets have in common in accesses to planes whose
// entries hold the codes of several elements, the first in the lowest bits.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_PACKEDCODES_H
#define TANDEM_CONVERSION_PACKEDCODES_H

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

namespace tandem {

/// Returns the number of bits of each of an entry's codes.
constexpr unsigned packedBits(int64_t packed) { return 8 / packed; }

/// Returns the number of entries that hold `count` codes.
Value countPackedBytes(SequenceBuilder &b, Value count, int64_t packed);

/// Returns the code of an element from its entry. `element` is its position in
/// its row, an i64.
Value extractPacked(SequenceBuilder &b, Value entry, Value element,
                    int64_t packed);

/// Returns an entry with another code for an element. The codes after it become
/// 0 if it is the last of its row.
Value insertPacked(SequenceBuilder &b, Value entry, Value code, Value element,
                   Value isLast, int64_t packed);

} // namespace tandem

#endif // TANDEM_CONVERSION_PACKEDCODES_H
