//===- Recomputation.cpp - Recomputation of tensors -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the analysis of how a tensor of a graph can be
// recomputed: the operations that lead to it from available tensors.
//
//===----------------------------------------------------------------------===//

#include "Recomputation.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"

using namespace mlir;
using namespace tandem;

/// Returns the number of times that an operation is executed for a row.
static double countExecutions(Operation *op, int64_t columns) {
  if (auto owner = dyn_cast<linalg::LinalgOp>(op->getParentOp()))
    op = owner;
  double most = 1;
  for (Value value : llvm::concat<Value>(llvm::to_vector(op->getOperands()),
                                         llvm::to_vector(op->getResults())))
    if (auto type = dyn_cast<RankedTensorType>(value.getType());
        type && type.getRank() == 2)
      most = std::max(
          most, double(type.isDynamicDim(1) ? columns : type.getDimSize(1)));
  return most;
}

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

namespace {
/// Walks from a value to those that it is computed from.
class DefinitionWalk {
public:
  DefinitionWalk(Value target, const Sources &sources, int64_t columns)
      : target(target), sources(sources), columns(columns) {}

  /// Returns whether everything that a value is computed from is available.
  bool visit(Value value) {
    value = resolve(value);
    if (!visited.insert(value).second || isUniform(value))
      return true;
    if (auto source = sources.find(value);
        source != sources.end() && value != target) {
      found.sources.insert(source->second);
      return true;
    }
    Operation *op = value.getDefiningOp();
    if (!op)
      return false;
    // A tensor's extents are available without its elements.
    if (isa<tensor::DimOp>(op))
      return true;
    count(op);
    return llvm::all_of(op->getOperands(),
                        [&](Value operand) { return visit(operand); });
  }

  Recomputation found;

private:
  void count(Operation *op) {
    if (!llvm::any_of(op->getResults(), isFloat))
      return;
    double executions = countExecutions(op, columns);
    if (isa<math::ExpOp, math::LogOp, math::TanhOp, math::ErfOp>(op))
      found.functions[op->getName().stripDialect()] += executions;
    else
      found.operations += executions;
  }

  Value target;
  const Sources &sources;
  int64_t columns;
  llvm::DenseSet<Value> visited;
};
} // namespace

std::optional<Recomputation> tandem::findRecomputation(Value value,
                                                       const Sources &sources,
                                                       int64_t columns) {
  value = resolve(value);
  DefinitionWalk walk(value, sources, columns);
  if (!walk.visit(value) || walk.found.sources.empty())
    return std::nullopt;
  return std::move(walk.found);
}
