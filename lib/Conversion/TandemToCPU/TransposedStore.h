//===- TransposedStore.h - Stores of transposes -----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the stores of blocks of a row to the transposed matrix.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTOCPU_TRANSPOSEDSTORE_H
#define TANDEM_LIB_CONVERSION_TANDEMTOCPU_TRANSPOSEDSTORE_H

#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

namespace tandem {

/// Writes the elements of a vector, which begins at column `index` of a tile's
/// row, to their columns in a transposed plane. Drops lanes past the end of the
/// row. `scratch` has memory for the vector.
void storeTransposed(SequenceBuilder &b, LaunchBuilder &launch,
                     const Chunk &row, unsigned plane, Value index,
                     Value vector, Value scratch);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTOCPU_TRANSPOSEDSTORE_H
