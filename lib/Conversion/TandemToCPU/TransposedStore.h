//===- TransposedStore.h - Stores of transposes -----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how a block of a row goes to a matrix's transpose.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTOCPU_TRANSPOSEDSTORE_H
#define TANDEM_LIB_CONVERSION_TANDEMTOCPU_TRANSPOSEDSTORE_H

#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

namespace tandem {

/// Writes those of a vector's elements that a row of a tile has, from column
/// `index` on, each to its column's place in a plane. `scratch` has memory for
/// the vector.
void storeTransposed(SequenceBuilder &b, LaunchBuilder &launch,
                     const Chunk &row, unsigned plane, Value index,
                     Value vector, Value scratch);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTOCPU_TRANSPOSEDSTORE_H
