//===- RangeAnalysis.h - Ranges of floats -----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the data-flow analysis of float ranges.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_ANALYSIS_RANGEANALYSIS_H
#define TANDEM_DIALECT_TANDEM_ANALYSIS_RANGEANALYSIS_H

#include "mlir/Analysis/DataFlow/SparseAnalysis.h"
#include "tandem/Dialect/Tandem/Analysis/ErrorFreeTransforms.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

class RangeLattice : public dataflow::Lattice<FloatRange> {
public:
  using Lattice::Lattice;
};

/// Finds the range of each float from the operations that lead to it. The
/// inputs of a kernel (planes, hyperparameters) may have any value: planes are
/// not checked, nor are hyperparameters that lie on a device.
class RangeAnalysis
    : public dataflow::SparseForwardDataFlowAnalysis<RangeLattice> {
public:
  using SparseForwardDataFlowAnalysis::SparseForwardDataFlowAnalysis;

  LogicalResult visitOperation(Operation *op,
                               ArrayRef<const RangeLattice *> operands,
                               ArrayRef<RangeLattice *> results) override;
  void visitNonControlFlowArguments(Operation *op,
                                    const RegionSuccessor &successor,
                                    ArrayRef<RangeLattice *> arguments,
                                    unsigned firstIndex) override;
  void setToEntryState(RangeLattice *lattice) override;

private:
  void addTrails(Operation *op, FloatRange &range);
};

/// The ranges of all values inside an operation.
class Ranges {
public:
  explicit Ranges(Operation *top);

  const FloatRange &get(Value value) const;
  Proof prove(const Transform &transform) const {
    return proveExact(transform, get(transform.a), get(transform.b));
  }

private:
  DataFlowSolver solver;
  FloatRange nothing;
};

} // namespace tandem

#endif // TANDEM_DIALECT_TANDEM_ANALYSIS_RANGEANALYSIS_H
