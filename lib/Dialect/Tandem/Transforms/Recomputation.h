//===- Recomputation.h - Recomputation of tensors ---------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the analysis of how a tensor of a graph can be recomputed
// from other tensors that are available.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_DIALECT_TANDEM_TRANSFORMS_RECOMPUTATION_H
#define TANDEM_LIB_DIALECT_TANDEM_TRANSFORMS_RECOMPUTATION_H

#include "mlir/IR/Value.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

namespace tandem {

/// The sources and the cost of recomputing a tensor.
struct Recomputation {
  /// The names of the tensors it is computed from.
  llvm::SetVector<StringRef> sources;
  /// Float operations for a row, and transcendental functions by their names.
  double operations = 0;
  llvm::MapVector<llvm::StringRef, double> functions;
};

/// The available tensors, resolved, and their names.
using Sources = llvm::DenseMap<Value, StringRef>;

/// Finds how to recompute `value` from the other sources; none if that needs
/// further tensors, or no tensor at all. Rows of unknown length are counted as
/// `columns` elements.
std::optional<Recomputation>
findRecomputation(Value value, const Sources &sources, int64_t columns);

} // namespace tandem

#endif // TANDEM_LIB_DIALECT_TANDEM_TRANSFORMS_RECOMPUTATION_H
