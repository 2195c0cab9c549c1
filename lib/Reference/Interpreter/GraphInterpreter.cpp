//===- GraphInterpreter.cpp - One step of a source graph ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the execution of source graphs with a strategy: the
// policies, expansions and storages of docs/Numerics.md. Values that all
// elements of a row, a column or the tensor share are computed once. All other
// values are computed for each element, anew for each sum over it and for the
// new values.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "tandem/Reference/Interpreter/Graph.h"
#include "tandem/Reference/Interpreter/Operations.h"
#include "tandem/Reference/Interpreter/Storage.h"

#include "llvm/ADT/SmallBitVector.h"

#include <optional>

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;

//===----------------------------------------------------------------------===//
// The program for one element
//===----------------------------------------------------------------------===//

namespace {
/// One value. Its operands are indices of earlier nodes.
struct Node {
  enum class Kind {
    /// The decoded value of a tensor: an f32, a component, or all of them.
    Load,
    /// A scalar, in f32.
    Scalar,
    /// The number of elements, rows or columns.
    Size,
    /// The reduction of rows, columns or all elements of a node, in f32.
    Reduction,
    /// An operation of the graph, on leading components.
    Operation,
    /// The steps of a compensated state, whole to whole.
    Accumulate,
    Decay
  };
  Kind kind;
  SmallVector<unsigned, 3> operands;
  /// Load: the tensor. Accumulate and Decay: the tensor whose storage it has.
  unsigned tensor = 0;
  /// The granularity of the node's values.
  Granularity per = Granularity::tensor;
  /// Reduction: whether it is over rows, columns or both.
  Granularity reduced = Granularity::element;
  /// Whether the value is an f32 in every policy.
  bool isWide = false;
  /// Size: the value.
  uint64_t size = 0;
  /// Scalar: the value. Decay: the factor.
  std::optional<SoftFloat> scalar;
  /// Decay: the factor's components, as many as those of the storage.
  Components split;
  bool isSubtracted = false;
  Operation *op = nullptr;
  OperationHandler handler = nullptr;
};

/// A new value that is to be stored in a tensor.
struct Store {
  unsigned node;
  const BoundTensor *tensor;
  Granularity per;
  /// The values of groups, which are stored last, when their scale can be
  /// computed.
  std::vector<SoftFloat> pending;
};

/// A destination that gets what a framework reads of a tensor's new value.
struct VisibleCopy {
  const BoundTensor *from, *to;
};

/// A row and a column. A flat tensor is one row.
struct Place {
  uint64_t row = 0, column = 0;
};

/// Executes a graph with a strategy.
class GraphInterpreter {
public:
  GraphInterpreter(func::FuncOp graph, StrategyOp strategy, MachineState &state)
      : reader(graph), compute(strategy.getCompute()), strategy(strategy),
        state(state), scalars(reader) {}

  llvm::Error run();

private:
  // Preparation.
  llvm::Error bindArguments();
  llvm::Error bindScalars();
  llvm::Error build();
  llvm::Expected<unsigned> readNode(Value source);
  llvm::Expected<unsigned> wholeNode(Value source);
  llvm::Expected<unsigned> makeScalar(Value source);
  llvm::Expected<unsigned> makeReduction(linalg::ReduceOp op);
  llvm::Expected<Granularity> findReduced(linalg::ReduceOp op);
  llvm::Error checkStart(linalg::ReduceOp op);
  llvm::Expected<unsigned> makeSize(tensor::DimOp op);
  llvm::Expected<unsigned> makeOperation(Value source);
  llvm::Expected<unsigned> makeFrom(Value source);
  llvm::Expected<unsigned> makeStep(const UpdateStep &step);
  llvm::Expected<SoftFloat> evaluateReal(Value source);
  unsigned addNode(Node node) {
    if (node.kind != Node::Kind::Reduction)
      for (unsigned operand : node.operands)
        node.per = join(node.per, nodes[operand].per);
    nodes.push_back(std::move(node));
    return nodes.size() - 1;
  }

  // Places.
  uint64_t count(Granularity per) const;
  uint64_t indexAt(Granularity per) const;
  void moveTo(Granularity per, uint64_t index);

  // Execution.
  using Part = llvm::function_ref<llvm::Expected<SoftFloat>()>;
  llvm::Error fillEntries(unsigned node);
  llvm::Expected<SoftFloat> reduce(const Node &node);
  llvm::Expected<SoftFloat> reduceOver(Granularity per, Operation *join,
                                       Part part);
  SmallVector<unsigned> findNeeded(ArrayRef<unsigned> wanted) const;
  llvm::Error runElement(ArrayRef<unsigned> needed);
  llvm::Error storeAll(Granularity per);
  void raiseFlags();
  Lane load(const BoundTensor &tensor, uint64_t element) const;
  void store(const BoundTensor &tensor, const Lane &value,
             uint64_t element) const;
  void storeGroups();
  llvm::Expected<Lane> evaluate(const Node &node);
  llvm::Expected<Lane> evaluateOperation(const Node &node) const;
  Lane accumulate(const Node &node) const;
  Lane decay(const Node &node) const;

  bool isComponentPolicy() const {
    return compute.getPolicy() == Policy::component;
  }
  Format getFormatOfPolicy() const { return *getFormat(compute.getFormat()); }
  /// Returns the value of a node at the current element.
  const Lane &getValue(unsigned node) const {
    Granularity per = nodes[node].per;
    return per == Granularity::element ? values[node]
                                       : entries[node][indexAt(per)];
  }
  const SoftFloat &leading(unsigned node) const {
    return std::get<SoftFloat>(getValue(node).front());
  }
  const BoundTensor &getTensor(BlockArgument argument) const {
    return bound.tensors[tensorIndex.lookup(argument)];
  }

  GraphReader reader;
  ComputeAttr compute;
  StrategyOp strategy;
  MachineState &state;
  ScalarEvaluator scalars;
  std::optional<UpdateChains> chains;
  BoundTensors bound;
  llvm::DenseMap<Value, unsigned> tensorIndex;

  std::vector<Node> nodes;
  llvm::DenseMap<Value, unsigned> readNodes, wholeNodes;
  SmallVector<Store> stores;
  /// The copies that follow all stores.
  SmallVector<VisibleCopy> copies;
  Place place;
  /// The values of the nodes per element at the current element.
  std::vector<Lane> values;
  /// The values of the other nodes, for all rows or columns.
  std::vector<std::vector<Lane>> entries;
};
} // namespace

llvm::Error GraphInterpreter::run() {
  if (llvm::Error error = reader.check())
    return error;
  if (llvm::Error error = bindArguments())
    return error;
  if (llvm::Error error = bindScalars())
    return error;
  if (llvm::Error error = build())
    return error;
  // There are no means over the rows of a matrix without columns.
  if (reader.isMatrix() && bound.numElements == 0)
    return llvm::Error::success();
  raiseFlags();
  values.resize(nodes.size());
  entries.resize(nodes.size());
  for (unsigned i = 0, e = nodes.size(); i < e; ++i)
    if (llvm::Error error = fillEntries(i))
      return error;
  for (Granularity per :
       {Granularity::row, Granularity::column, Granularity::element})
    if (llvm::Error error = storeAll(per))
      return error;
  storeGroups();
  for (const VisibleCopy &copy : copies)
    if (llvm::Error error = copyVisible(*copy.from, *copy.to, state))
      return error;
  return llvm::Error::success();
}

/// Sets the flags of all gradients, even of those that the graph does not use.
void GraphInterpreter::raiseFlags() {
  for (const BoundTensor &tensor : bound.tensors) {
    if (tensor.role.getKind() != RoleKind::grad)
      continue;
    for (uint64_t i = 0; i < tensor.numElements; ++i)
      state.flags |= getFlags(tensor, tensor.read(i));
  }
}

//===----------------------------------------------------------------------===//
// Binding
//===----------------------------------------------------------------------===//

llvm::Error GraphInterpreter::bindArguments() {
  SmallVector<RoleAttr> roles;
  SmallVector<StorageAttrInterface> storages;
  for (BlockArgument argument : reader.getTensors()) {
    RoleAttr role = getRole(argument);
    StorageAttrInterface storage = reader.findStorage(strategy, role);
    if (!storage)
      return makeError(
          "strategy '" + strategy.getSymName() + "' has no rule for the " +
          stringifyRoleKind(role.getKind()) + " '" + role.getName().getValue() +
          "'; add a tandem.assign that matches it");
    if (llvm::Error error = checkPolicy(storage, compute, role))
      return error;
    tensorIndex[argument] = roles.size();
    roles.push_back(role);
    storages.push_back(storage);
  }
  bool isMatrix = reader.isMatrix() || llvm::any_of(storages, needsMatrix);
  llvm::Expected<BoundTensors> found =
      isMatrix ? bindMatrices(roles, storages, state)
               : bindTensors(roles, storages, state);
  if (!found)
    return found.takeError();
  bound = std::move(*found);
  return llvm::Error::success();
}

llvm::Error GraphInterpreter::bindScalars() {
  for (BlockArgument argument : reader.getGraph().getArguments()) {
    RoleAttr role = getRole(argument);
    if (role.isTensor())
      continue;
    if (llvm::Error error = checkScalar(role, state, compute))
      return error;
    scalars.bind(argument, getScalar(role, state));
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

llvm::Error GraphInterpreter::build() {
  chains.emplace(reader);
  for (auto [index, argument] : llvm::enumerate(reader.getUpdated())) {
    const BoundTensor &tensor = getTensor(argument);
    bool isWhole = isComponentPolicy() && isCompensated(tensor.storage);
    if (isWhole && !chains->isComplete(argument))
      return makeError(
          "the new value of '" + tensor.role.getName().getValue() +
          "' is not made of s + d, s - d, b * s + x and b * s with a uniform "
          "b, so " +
          describe(tensor.storage) +
          " could keep nothing; give it a plain "
          "storage");
    Value source = reader.getNewValue(index);
    if (auto visible = source.getDefiningOp<VisibleOp>()) {
      auto from = cast<BlockArgument>(visible.getTensor());
      copies.push_back({&getTensor(from), &tensor});
      continue;
    }
    llvm::Expected<unsigned> node =
        isWhole ? wholeNode(source) : readNode(source);
    if (!node)
      return node.takeError();
    stores.push_back({*node, &tensor, reader.getGranularity(argument), {}});
  }
  return llvm::Error::success();
}

/// Returns the node of a value with all components, as its own update reads it.
llvm::Expected<unsigned> GraphInterpreter::wholeNode(Value source) {
  const UpdateStep *step = chains->find(source);
  if (!step)
    return readNode(source);
  auto known = wholeNodes.find(source);
  if (known != wholeNodes.end())
    return known->second;
  llvm::Expected<unsigned> node = makeStep(*step);
  if (node)
    wholeNodes[source] = *node;
  return node;
}

/// Returns the node of a value as all other operations read it.
llvm::Expected<unsigned> GraphInterpreter::readNode(Value source) {
  auto known = readNodes.find(source);
  if (known != readNodes.end())
    return known->second;
  const UpdateStep *step = chains->find(source);
  bool isWhole = isComponentPolicy() && step && !step->isInsideSum &&
                 isCompensated(getTensor(step->state).storage);
  llvm::Expected<unsigned> node =
      isWhole ? wholeNode(source) : makeFrom(source);
  if (node)
    readNodes[source] = *node;
  return node;
}

llvm::Expected<unsigned> GraphInterpreter::makeFrom(Value source) {
  if (reader.isUniform(source))
    return makeScalar(source);
  if (isa<BlockArgument>(source))
    return addNode({Node::Kind::Load,
                    {},
                    tensorIndex.lookup(source),
                    reader.getGranularity(source)});
  Operation *op = source.getDefiningOp();
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op))
    return makeReduction(reduce);
  if (auto dim = dyn_cast<tensor::DimOp>(op))
    return makeSize(dim);
  return makeOperation(source);
}

llvm::Expected<unsigned> GraphInterpreter::makeSize(tensor::DimOp op) {
  int64_t rank = op.getSource().getType().getRank();
  std::optional<Granularity> per = Granularity::element;
  if (reader.isMatrix())
    per = reader.getEntries(op.getResult());
  if (!per || (rank != 1 && !reader.isMatrix()))
    return makeError("'tensor.dim' becomes a number of a graph where the "
                     "tensor has one dimension, or is a matrix of a graph of "
                     "rows and columns and the dimension a constant");
  Node node{Node::Kind::Size};
  node.isWide = true;
  node.size = count(*per);
  return addNode(node);
}

llvm::Expected<SoftFloat> GraphInterpreter::evaluateReal(Value source) {
  llvm::Expected<Number> value = scalars.evaluate(source);
  if (!value)
    return value.takeError();
  if (auto *real = std::get_if<SoftFloat>(&*value))
    return *real;
  return makeError("an integer scalar meets an element; convert it with "
                   "arith.sitofp first");
}

llvm::Expected<unsigned> GraphInterpreter::makeScalar(Value source) {
  llvm::Expected<SoftFloat> value = evaluateReal(source);
  if (!value)
    return value.takeError();
  Node node{Node::Kind::Scalar};
  node.isWide = true;
  node.scalar = value->convert(Format::F32);
  return addNode(node);
}

/// Returns whether a number is the identity of a reduction.
static bool isIdentity(const SoftFloat &number, linalg::ReduceOp op) {
  Operation &join = op.getBlock()->front();
  if (isa<arith::AddFOp>(join))
    return number.isZero();
  return number.isInf() && number.isNegative() == isa<arith::MaximumFOp>(join);
}

/// Checks that the initial value of a reduction has no effect, since the
/// specification covers only the elements.
llvm::Error GraphInterpreter::checkStart(linalg::ReduceOp op) {
  Value initial = reader.getSource(op.getInits().front());
  bool isFine = reader.isUniform(initial);
  if (isFine) {
    llvm::Expected<SoftFloat> value = evaluateReal(initial);
    if (!value)
      return value.takeError();
    isFine = isIdentity(*value, op);
  }
  if (isFine)
    return llvm::Error::success();
  return makeError("'linalg.reduce' begins with a number other than 0 for a "
                   "sum, -inf for a maximum or inf for a minimum");
}

/// Returns the granularity that a reduction runs over. One that leaves an entry
/// per row runs over the columns.
llvm::Expected<Granularity> GraphInterpreter::findReduced(linalg::ReduceOp op) {
  Value input = op.getInputs().front();
  bool isWhole = op.getNumReductionLoops() == op.getNumLoops();
  if (!isWhole)
    return op.getDimensions().front() == 1 ? Granularity::column
                                           : Granularity::row;
  if (!reader.isMatrix() || op.getNumLoops() == 2)
    return Granularity::element;
  if (std::optional<Granularity> per = reader.getEntries(input))
    return *per;
  return makeError("'linalg.reduce' takes entries without saying whether "
                   "they are a row's or a column's; take their number from "
                   "tensor.dim");
}

llvm::Expected<unsigned> GraphInterpreter::makeReduction(linalg::ReduceOp op) {
  if (state.first != 0)
    return makeError("'linalg.reduce' takes the whole tensor, but element 0 is "
                     "number " +
                     llvm::Twine(state.first) +
                     " of the unsharded tensor; pass the unsharded tensor");
  if (llvm::Error error = checkStart(op))
    return error;
  llvm::Expected<Granularity> reduced = findReduced(op);
  if (!reduced)
    return reduced.takeError();
  llvm::Expected<unsigned> part =
      readNode(reader.getSource(op.getInputs().front()));
  if (!part)
    return part.takeError();
  Node node{Node::Kind::Reduction, {*part}};
  node.per = reader.getGranularity(op->getResult(0));
  node.reduced = *reduced;
  node.op = &op.getBlock()->front();
  node.isWide = true;
  return addNode(node);
}

/// Returns whether values may have this type. A graph does not fix a precision:
/// its elements are real numbers or truth values. Values that do not depend on
/// elements may be computed from the number of elements.
static bool isValueType(Type type, bool isWide) {
  Type element = getElementTypeOrSelf(type);
  return element.isF32() || element.isInteger(1) ||
         (isWide && (element.isInteger(64) || element.isIndex()));
}

llvm::Expected<unsigned> GraphInterpreter::makeOperation(Value source) {
  Operation *op = source.getDefiningOp();
  Node node{Node::Kind::Operation};
  node.op = op;
  node.isWide = reader.isWide(source);
  auto isElementType = [&](Type type) {
    return isValueType(type, node.isWide);
  };
  node.handler = findHandler(op);
  if (!node.handler)
    return makeUnknownOperationError(op);
  if (op->getNumResults() != 1 ||
      !llvm::all_of(op->getOperandTypes(), isElementType) ||
      !llvm::all_of(op->getResultTypes(), isElementType))
    return makeError(
        "'" + describe(op->getName()) +
        "' is not an operation on the real numbers (f32) and truth "
        "values (i1) of a graph");
  for (Value operand : op->getOperands()) {
    llvm::Expected<unsigned> read = readNode(reader.getSource(operand));
    if (!read)
      return read.takeError();
    node.operands.push_back(*read);
  }
  return addNode(node);
}

llvm::Expected<unsigned> GraphInterpreter::makeStep(const UpdateStep &step) {
  Node node{step.addend ? Node::Kind::Accumulate : Node::Kind::Decay};
  node.tensor = tensorIndex.lookup(step.state);
  node.isSubtracted = step.isSubtracted;
  llvm::Expected<unsigned> before = wholeNode(step.before);
  if (!before)
    return before.takeError();
  node.operands.push_back(*before);
  if (step.addend) {
    llvm::Expected<unsigned> addend = readNode(step.addend);
    if (!addend)
      return addend.takeError();
    node.operands.push_back(*addend);
    return addNode(node);
  }
  llvm::Expected<SoftFloat> factor = evaluateReal(step.factor);
  if (!factor)
    return factor.takeError();
  node.split = toComponents(*factor, getFormatOfPolicy(),
                            bound.tensors[node.tensor].planes.size());
  node.scalar = factor->convert(Format::F32);
  return addNode(node);
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

uint64_t GraphInterpreter::count(Granularity per) const {
  switch (per) {
  case Granularity::tensor:
    return 1;
  case Granularity::row:
    return bound.rows;
  case Granularity::column:
    return bound.columns;
  case Granularity::element:
    return bound.numElements;
  default:
    llvm_unreachable("a graph has no values per group, block or model");
  }
}

/// Returns the index of a node's value at the current element.
uint64_t GraphInterpreter::indexAt(Granularity per) const {
  switch (per) {
  case Granularity::tensor:
    return 0;
  case Granularity::row:
    return place.row;
  case Granularity::column:
    return place.column;
  case Granularity::element:
    return place.row * bound.columns + place.column;
  default:
    llvm_unreachable("a graph has no values per group, block or model");
  }
}

void GraphInterpreter::moveTo(Granularity per, uint64_t index) {
  if (per == Granularity::row)
    place.row = index;
  else if (per == Granularity::column)
    place.column = index;
  else if (per == Granularity::element)
    place = {index / bound.columns, index % bound.columns};
}

/// Returns, in order, the nodes per element from which the wanted ones are
/// computed.
SmallVector<unsigned>
GraphInterpreter::findNeeded(ArrayRef<unsigned> wanted) const {
  llvm::SmallBitVector isNeeded(nodes.size());
  for (unsigned node : wanted)
    isNeeded.set(node);
  SmallVector<unsigned> needed;
  for (unsigned node = nodes.size(); node-- > 0;) {
    if (!isNeeded[node] || nodes[node].per != Granularity::element)
      continue;
    needed.push_back(node);
    for (unsigned operand : nodes[node].operands)
      isNeeded.set(operand);
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

llvm::Error GraphInterpreter::runElement(ArrayRef<unsigned> needed) {
  for (unsigned node : needed) {
    llvm::Expected<Lane> value = evaluate(nodes[node]);
    if (!value)
      return value.takeError();
    values[node] = std::move(*value);
  }
  return llvm::Error::success();
}

/// Computes the values of a node that is not per element, for all rows or
/// columns.
llvm::Error GraphInterpreter::fillEntries(unsigned node) {
  Granularity per = nodes[node].per;
  if (per == Granularity::element)
    return llvm::Error::success();
  for (uint64_t i = 0, e = count(per); i < e; ++i) {
    moveTo(per, i);
    llvm::Expected<Lane> value = evaluate(nodes[node]);
    if (!value)
      return value.takeError();
    entries[node].push_back(std::move(*value));
  }
  return llvm::Error::success();
}

/// Joins numbers. A sum is a tree; the order does not matter for extremes.
static SoftFloat joinAll(std::vector<SoftFloat> parts, Operation *op) {
  if (isa<arith::AddFOp>(op))
    return sumTree(std::move(parts));
  bool isMax = isa<arith::MaximumFOp>(op);
  SoftFloat result = SoftFloat::getInf(Format::F32, isMax);
  for (const SoftFloat &part : parts)
    result = isMax ? result.maximum(part) : result.minimum(part);
  return result;
}

/// Joins the parts of all rows, columns or elements.
llvm::Expected<SoftFloat>
GraphInterpreter::reduceOver(Granularity per, Operation *op, Part part) {
  std::vector<SoftFloat> parts;
  for (uint64_t i = 0, e = count(per); i < e; ++i) {
    moveTo(per, i);
    llvm::Expected<SoftFloat> next = part();
    if (!next)
      return next.takeError();
    parts.push_back(*next);
  }
  return joinAll(std::move(parts), op);
}

/// Reduces a node. A reduction over the model covers only this tensor.
llvm::Expected<SoftFloat> GraphInterpreter::reduce(const Node &node) {
  SmallVector<unsigned> needed = findNeeded(node.operands);
  auto part = [&]() -> llvm::Expected<SoftFloat> {
    if (llvm::Error error = runElement(needed))
      return error;
    return leading(node.operands.front()).convert(Format::F32);
  };
  if (node.reduced != Granularity::element)
    return reduceOver(node.reduced, node.op, part);
  return reduceOver(Granularity::row, node.op, [&] {
    return reduceOver(Granularity::column, node.op, part);
  });
}

/// Stores the new values of the tensors of one granularity.
llvm::Error GraphInterpreter::storeAll(Granularity per) {
  SmallVector<unsigned> wanted;
  for (const Store &store : stores)
    if (store.per == per)
      wanted.push_back(store.node);
  if (wanted.empty())
    return llvm::Error::success();
  SmallVector<unsigned> needed = findNeeded(wanted);
  for (uint64_t i = 0, e = count(per); i < e; ++i) {
    moveTo(per, i);
    if (llvm::Error error = runElement(needed))
      return error;
    for (Store &to : stores) {
      if (to.per != per)
        continue;
      if (getGroup(to.tensor->storage) == 1)
        store(*to.tensor, getValue(to.node), i);
      else
        to.pending.push_back(leading(to.node));
    }
  }
  return llvm::Error::success();
}

void GraphInterpreter::storeGroups() {
  for (const Store &store : stores)
    store.tensor->writeGroups(state, 0, store.pending);
}

llvm::Expected<Lane> GraphInterpreter::evaluate(const Node &node) {
  switch (node.kind) {
  case Node::Kind::Load:
    return load(bound.tensors[node.tensor], indexAt(node.per));
  case Node::Kind::Scalar:
    return Lane{*node.scalar};
  case Node::Kind::Size:
    return Lane{Integer(64, node.size)};
  case Node::Kind::Reduction: {
    llvm::Expected<SoftFloat> total = reduce(node);
    if (!total)
      return total.takeError();
    return Lane{*total};
  }
  case Node::Kind::Operation:
    return evaluateOperation(node);
  case Node::Kind::Accumulate:
    return accumulate(node);
  case Node::Kind::Decay:
    return decay(node);
  }
  llvm_unreachable("every kind is listed");
}

static Components componentsOf(const Lane &whole) {
  Components components;
  for (const Number &number : whole)
    components.push_back(std::get<SoftFloat>(number));
  return components;
}

static Lane toLane(ArrayRef<SoftFloat> components) {
  return Lane(components.begin(), components.end());
}

Lane GraphInterpreter::load(const BoundTensor &tensor, uint64_t element) const {
  Codes codes = tensor.read(element);
  if (!isComponentPolicy())
    return {decodeReal(tensor.storage, codes)};
  return toLane(decodeComponents(tensor.storage, codes, getFormatOfPolicy()));
}

void GraphInterpreter::store(const BoundTensor &tensor, const Lane &value,
                             uint64_t element) const {
  if (!isComponentPolicy()) {
    const SoftFloat &real = std::get<SoftFloat>(value.front());
    ElementRounding rounding{tensor.drawBits(state, element),
                             tensor.hasFloor()};
    return tensor.write(element, encodeReal(tensor.storage, real, rounding));
  }
  Components whole = componentsOf(value);
  // A plain storage takes the leading component of a value with several
  // components.
  if (!isCompensated(tensor.storage))
    whole = {whole[0].convert(getFormatOfPolicy())};
  tensor.write(element, encodeComponents(tensor.storage, whole));
}

/// Computes in f32 and rounds once to the policy's format, or not at all if the
/// value depends on sums and uniform values only. An fma of components is the
/// one operation for which f32 is not wide enough.
llvm::Expected<Lane>
GraphInterpreter::evaluateOperation(const Node &node) const {
  bool hasScalar = llvm::any_of(
      node.operands, [&](unsigned operand) { return nodes[operand].isWide; });
  bool isDirect = isa<math::FmaOp>(node.op) && !hasScalar;
  SmallVector<Lane, 3> lanes;
  for (unsigned operand : node.operands) {
    Number number = getValue(operand).front();
    if (auto *real = std::get_if<SoftFloat>(&number); real && !isDirect)
      number = real->convert(Format::F32);
    // The sign of a NaN is not specified.
    if (auto *real = std::get_if<SoftFloat>(&number);
        real && real->isNaN() && isa<math::CopySignOp>(node.op))
      number = SoftFloat::getNaN(real->getFormat());
    lanes.push_back({number});
  }
  SmallVector<const Lane *, 3> operands;
  for (const Lane &lane : lanes)
    operands.push_back(&lane);
  Evaluation evaluation(node.op, operands);
  if (llvm::Error error = node.handler(evaluation))
    return error;
  Lane result = evaluation.results.front();
  if (auto *real = std::get_if<SoftFloat>(&result.front()))
    result.front() =
        real->convert(node.isWide ? Format::F32 : getFormatOfPolicy());
  return result;
}

/// Applies grow to an expansion, or Kahan's sum to a value and its
/// compensation.
Lane GraphInterpreter::accumulate(const Node &node) const {
  const StorageAttrInterface &storage = bound.tensors[node.tensor].storage;
  Components whole = widenMixed(componentsOf(getValue(node.operands[0])));
  SoftFloat addend = leading(node.operands[1]).convert(getFormatOfPolicy());
  if (node.isSubtracted)
    addend = addend.neg();
  bool isKahan = isa<KahanStorageAttr>(storage);
  return toLane(
      settle(storage, isKahan ? kahan(whole, addend) : grow(whole, addend)));
}

/// Multiplies an expansion by the split factor. With Kahan's sum, the value
/// decays and the compensation, which is still to be added to it, does not.
Lane GraphInterpreter::decay(const Node &node) const {
  const StorageAttrInterface &storage = bound.tensors[node.tensor].storage;
  Components whole = widenMixed(componentsOf(getValue(node.operands[0])));
  if (isa<KahanStorageAttr>(storage)) {
    SoftFloat product = whole[0].convert(Format::F32).mul(*node.scalar);
    return {product.convert(getFormatOfPolicy()), whole[1]};
  }
  return toLane(settle(storage, mul(node.split, whole)));
}

llvm::Error reference::interpretGraph(func::FuncOp graph, StrategyOp strategy,
                                      MachineState &state) {
  MachineState next = state;
  SmallVector<RoleAttr> roles;
  for (BlockArgument argument : graph.getArguments())
    if (RoleAttr role = getRole(argument))
      roles.push_back(role);
  llvm::Error error = computeExternals(roles, next, [&](MachineState &machine) {
    return GraphInterpreter(graph, strategy, machine).run();
  });
  if (error)
    return error;
  state = std::move(next);
  return llvm::Error::success();
}
