//===- Graph.h - Reading of source graphs -----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how the reference interpreter reads source graphs: which
// value an element comes from, which values are scalars, and by which steps a
// param or state is updated.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_INTERPRETER_GRAPH_H
#define TANDEM_REFERENCE_INTERPRETER_GRAPH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Reference/Interpreter/Values.h"
#include "tandem/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem::reference {

/// Returns the granularity of a value computed from two others: each element,
/// row or column, or the tensor.
Granularity join(Granularity a, Granularity b);

/// A graph as element-wise arithmetic and sums; other linalg operations and
/// splats only wrap it. In a graph of matrices some tensors have an entry for
/// each row or column.
class GraphReader {
public:
  explicit GraphReader(func::FuncOp graph) : graph(graph) {}

  /// Returns an error unless the function is a graph: roles, results,
  /// element-wise operations.
  llvm::Error check();
  /// Returns whether `check` found rows and columns. If not, all tensors are
  /// flat.
  bool isMatrix() const { return hasRows; }

  func::FuncOp getGraph() const { return graph; }
  /// Returns the tensor arguments, in order.
  SmallVector<BlockArgument> getTensors() const;
  /// Return the params and states among them, and their new values.
  SmallVector<BlockArgument> getUpdated() const;
  Value getNewValue(unsigned updated);
  /// Returns the storage of a tensor, or null. An average of weights that no
  /// rule matches is stored like the first param.
  StorageAttrInterface findStorage(StrategyOp strategy, RoleAttr role) const;

  /// Returns the scalar arithmetic, constant or function argument whose value
  /// an element of `value` is.
  Value getSource(Value value) const;

  /// Returns whether a value is computed only from hyperparameters and
  /// literals. Takes a source.
  bool isUniform(Value source);
  /// Returns whether a value is computed only from uniform values, sums and
  /// sizes, so that it is an f32 under every policy.
  bool isWide(Value source);
  /// Returns the units for each of which a source has one number.
  Granularity getGranularity(Value source);
  /// Returns the units that a tensor with one dimension has entries for, or
  /// none if the graph does not say.
  std::optional<Granularity> getEntries(Value vector);

private:
  llvm::Error checkArguments();
  llvm::Error checkRanks();
  llvm::Error checkResults();
  llvm::Error checkNewValues();
  llvm::Error checkOperation(Operation *op);
  llvm::Error checkOperands(linalg::LinalgOp loop);
  llvm::Error checkEntries(Operation *op);
  bool isByPlace(linalg::LinalgOp loop, OpOperand &operand);
  Granularity computeGranularity(Value source);
  std::optional<Granularity> computeEntries(Value vector);

  func::FuncOp graph;
  bool hasRows = false;
  llvm::DenseMap<Value, bool> uniform, wide;
  llvm::DenseMap<Value, Granularity> granularities;
  llvm::DenseMap<Value, std::optional<Granularity>> entries;
};

/// One step of an update, found by the value that it computes.
struct UpdateStep {
  /// The param or state.
  BlockArgument state;
  /// Its value before this step.
  Value before;
  /// The addend of before + addend or before - addend, or null for a product.
  Value addend;
  bool isSubtracted = false;
  /// The factor of factor * before, or null for a sum.
  Value factor;
  /// Whether this product is the b * s in b * s + x. It is then part of the
  /// step of the sum, and only there a value of the state.
  bool isInsideSum = false;
};

/// Finds how each param and state is updated: the chain of sums s + d, s - d
/// and products b * s with a uniform b that leads from its new value back to
/// its old one. If both sides of a sum lead back, the one with the shorter path
/// is the state's, or the left one if both are equal. A step belongs to the
/// first state whose chain it is on.
class UpdateChains {
public:
  explicit UpdateChains(GraphReader &reader);

  /// Returns the step that computes a source, or null.
  const UpdateStep *find(Value source) const;
  /// Returns whether steps lead from the new value of a state to its old one.
  bool isComplete(BlockArgument state) const;

private:
  using Distance = std::optional<unsigned>;

  void follow(BlockArgument state, Value newValue);
  UpdateStep describeStep(BlockArgument state, Operation *op);
  /// Returns the number of steps from a source back to a state, if there is a
  /// path.
  Distance getDistance(BlockArgument state, Value source);
  Distance computeDistance(BlockArgument state, Operation *op);
  /// Returns whether the left operand of a product is the state's side.
  bool isStateLeft(BlockArgument state, Operation *product);
  Value operand(Operation *op, unsigned index) const {
    return reader.getSource(op->getOperand(index));
  }

  GraphReader &reader;
  llvm::DenseMap<Value, UpdateStep> steps;
  llvm::DenseSet<Value> complete;
  /// The distances for the state whose chain is being followed.
  llvm::DenseMap<Value, Distance> distances;
};

/// Evaluates scalar expressions in f64 and i64, in graph order. Float types in
/// a graph mean real numbers, so that conversions between them vanish.
class ScalarEvaluator {
public:
  explicit ScalarEvaluator(GraphReader &reader) : reader(reader) {}

  void bind(BlockArgument argument, Number value) {
    values.insert({argument, value});
  }
  llvm::Expected<Number> evaluate(Value source);

private:
  llvm::Expected<Number> evaluateOperation(Operation *op);
  llvm::Expected<Number> evaluateConstant(Operation *op);

  GraphReader &reader;
  llvm::DenseMap<Value, Number> values;
};

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_INTERPRETER_GRAPH_H
