//===- Recomputation.h - Computing tensors again ----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the analysis of what it takes to compute a tensor of a
// graph again, of others that are there.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_TANDEM_TRANSFORMS_RECOMPUTATION_H
#define TANDEM_LIB_DIALECT_TANDEM_TRANSFORMS_RECOMPUTATION_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

namespace mlir::tandem {

/// How a tensor is computed of others.
struct Recomputation {
  /// The names of the others.
  llvm::SetVector<StringRef> sources;
  /// Float operations for a row, and transcendental functions by their names.
  double operations = 0;
  llvm::MapVector<llvm::StringRef, double> functions;
};

/// Tensors that are there, resolved, and their names.
using Sources = llvm::DenseMap<Value, StringRef>;

/// How `value` is computed of the sources but itself; none where it is computed
/// of other tensors too, or of none. Rows whose length is not known have
/// `columns` elements.
std::optional<Recomputation>
findRecomputation(Value value, const Sources &sources, int64_t columns);

} // namespace mlir::tandem

#endif // TANDEM_LIB_DIALECT_TANDEM_TRANSFORMS_RECOMPUTATION_H
