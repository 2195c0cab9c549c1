//===- PackedWords.h - Several codes in a byte on GPUs ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the packing of a thread's codes in halves of bytes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTONVVM_PACKEDWORDS_H
#define TANDEM_LIB_CONVERSION_TANDEMTONVVM_PACKEDWORDS_H

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

namespace tandem {

/// Returns the codes of bytes, two of each, as a vector of bytes.
Value unpackCodes(SequenceBuilder &b, Value bytes);

/// Returns bytes of two codes each.
Value packCodes(SequenceBuilder &b, Value codes);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_PACKEDWORDS_H
