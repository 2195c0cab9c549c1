//===- InterpreterGraphStep.cpp - One step of a source graph --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the execution of source graphs under a strategy:
// policies, expansions and storages of docs/Numerics.md, element by element.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/TypeUtilities.h"
#include "tandem/Reference/InterpreterGraph.h"
#include "tandem/Reference/InterpreterOperations.h"
#include "tandem/Reference/InterpreterStorage.h"

#include <optional>

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::reference;

//===----------------------------------------------------------------------===//
// The program for one element
//===----------------------------------------------------------------------===//

namespace {
/// One value of an element. Operands are indices of earlier nodes.
struct Node {
  enum class Kind {
    /// The decoded value of a tensor: an f32, a component, or all of them.
    Load,
    /// A scalar, in f32.
    Scalar,
    /// An operation of the graph, on leading components.
    Operation,
    /// The steps of a compensated state, whole to whole.
    Accumulate,
    Decay
  };
  Kind kind;
  SmallVector<unsigned, 3> operands;
  /// Load: which. Accumulate and Decay: whose storage.
  unsigned tensor = 0;
  /// Scalar: the value. Decay: the factor.
  std::optional<SoftFloat> scalar;
  /// Decay: the factor's components, as many as the storage has.
  Components split;
  bool isSubtracted = false;
  Operation *op = nullptr;
  OperationHandler handler = nullptr;
};

/// A graph under a strategy.
class GraphStep {
public:
  GraphStep(func::FuncOp graph, StrategyOp strategy, MachineState &state)
      : reader(graph), compute(strategy.getCompute()), strategy(strategy),
        state(state), scalars(reader) {}

  llvm::Error run();

private:
  // Preparation.
  llvm::Error bindArguments();
  llvm::Error bindScalars();
  llvm::Error build();
  llvm::Error checkStored(unsigned updated);
  llvm::Expected<unsigned> readNode(Value source);
  llvm::Expected<unsigned> wholeNode(Value source);
  llvm::Expected<unsigned> makeScalar(Value source);
  llvm::Expected<unsigned> makeOperation(Operation *op);
  llvm::Expected<unsigned> makeStep(const UpdateStep &step);
  llvm::Expected<SoftFloat> evaluateReal(Value source);
  unsigned addNode(Node node) {
    nodes.push_back(std::move(node));
    return nodes.size() - 1;
  }

  // Execution.
  llvm::Error runElement(uint64_t element);
  Lane load(const BoundTensor &tensor, uint64_t element) const;
  void store(const BoundTensor &tensor, const Lane &value,
             uint64_t element) const;
  void storeGroups();
  llvm::Expected<Lane> evaluate(const Node &node, uint64_t element) const;
  llvm::Expected<Lane> evaluateOperation(const Node &node) const;
  Lane accumulate(const Node &node) const;
  Lane decay(const Node &node) const;

  bool isComponentPolicy() const {
    return compute.getPolicy() == Policy::component;
  }
  Format getFormatOfPolicy() const { return *getFormat(compute.getFormat()); }
  const SoftFloat &leading(unsigned node) const {
    return std::get<SoftFloat>(values[node].front());
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
  /// The node and the tensor of each new value.
  SmallVector<std::pair<unsigned, const BoundTensor *>> stores;
  /// The values of the nodes for the element at hand.
  std::vector<Lane> values;
  /// For each of `stores`, the new values that a scale has yet to be made of.
  std::vector<std::vector<SoftFloat>> pending;
};
} // namespace

llvm::Error GraphStep::run() {
  if (llvm::Error error = reader.check())
    return error;
  if (llvm::Error error = bindArguments())
    return error;
  if (llvm::Error error = bindScalars())
    return error;
  if (llvm::Error error = build())
    return error;
  pending.resize(stores.size());
  for (uint64_t element = 0; element < bound.numElements; ++element)
    if (llvm::Error error = runElement(element))
      return error;
  storeGroups();
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Binding
//===----------------------------------------------------------------------===//

llvm::Error GraphStep::bindArguments() {
  SmallVector<RoleAttr> roles;
  SmallVector<StorageAttrInterface> storages;
  for (BlockArgument argument : reader.getTensors()) {
    RoleAttr role = getRole(argument);
    StringRef name = role.getName().getValue();
    StorageAttrInterface storage = strategy.getStorage(role);
    if (!storage)
      return makeError("strategy '" + strategy.getSymName() +
                       "' has no rule for the " +
                       stringifyRoleKind(role.getKind()) + " '" + name +
                       "'; add a tandem.assign that matches it");
    if (llvm::Error error = checkPolicy(storage, compute, name))
      return error;
    tensorIndex[argument] = roles.size();
    roles.push_back(role);
    storages.push_back(storage);
  }
  llvm::Expected<BoundTensors> found = bindTensors(roles, storages, state);
  if (!found)
    return found.takeError();
  bound = std::move(*found);
  return llvm::Error::success();
}

llvm::Error GraphStep::bindScalars() {
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

llvm::Error GraphStep::build() {
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
    llvm::Expected<unsigned> node =
        isWhole ? wholeNode(source) : readNode(source);
    if (!node)
      return node.takeError();
    stores.push_back({*node, &tensor});
  }
  return llvm::Error::success();
}

/// The value as its own update continues with it.
llvm::Expected<unsigned> GraphStep::wholeNode(Value source) {
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

/// The value as everything else reads it.
llvm::Expected<unsigned> GraphStep::readNode(Value source) {
  auto known = readNodes.find(source);
  if (known != readNodes.end())
    return known->second;
  const UpdateStep *step = chains->find(source);
  bool isWhole = isComponentPolicy() && step && !step->isInsideSum &&
                 isCompensated(getTensor(step->state).storage);
  auto argument = dyn_cast<BlockArgument>(source);
  llvm::Expected<unsigned> node =
      reader.isUniform(source) ? makeScalar(source)
      : isWhole                ? wholeNode(source)
      : argument ? addNode({Node::Kind::Load, {}, tensorIndex.lookup(source)})
                 : makeOperation(source.getDefiningOp());
  if (node)
    readNodes[source] = *node;
  return node;
}

llvm::Expected<SoftFloat> GraphStep::evaluateReal(Value source) {
  llvm::Expected<Number> value = scalars.evaluate(source);
  if (!value)
    return value.takeError();
  if (auto *real = std::get_if<SoftFloat>(&*value))
    return *real;
  return makeError("an integer scalar meets an element; convert it with "
                   "arith.sitofp first");
}

llvm::Expected<unsigned> GraphStep::makeScalar(Value source) {
  llvm::Expected<SoftFloat> value = evaluateReal(source);
  if (!value)
    return value.takeError();
  Node node{Node::Kind::Scalar};
  node.scalar = value->convert(Format::F32);
  return addNode(node);
}

/// A graph fixes no precision: its elements are real numbers, or truths.
static bool isElementType(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isF32() || element.isInteger(1);
}

llvm::Expected<unsigned> GraphStep::makeOperation(Operation *op) {
  Node node{Node::Kind::Operation};
  node.op = op;
  node.handler = findHandler(op);
  if (!node.handler)
    return makeUnknownOperationError(op);
  if (op->getNumResults() != 1 ||
      !llvm::all_of(op->getOperandTypes(), isElementType) ||
      !llvm::all_of(op->getResultTypes(), isElementType))
    return makeError("'" + describe(op->getName()) +
                     "' is no operation on the real numbers (f32) and truth "
                     "values (i1) of a graph");
  for (Value operand : op->getOperands()) {
    llvm::Expected<unsigned> read = readNode(reader.getSource(operand));
    if (!read)
      return read.takeError();
    node.operands.push_back(*read);
  }
  return addNode(node);
}

llvm::Expected<unsigned> GraphStep::makeStep(const UpdateStep &step) {
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

llvm::Error GraphStep::runElement(uint64_t element) {
  values.clear();
  for (const Node &node : nodes) {
    llvm::Expected<Lane> value = evaluate(node, element);
    if (!value)
      return value.takeError();
    values.push_back(std::move(*value));
  }
  for (auto [i, nodeAndTensor] : llvm::enumerate(stores)) {
    auto [node, tensor] = nodeAndTensor;
    if (getGroup(tensor->storage) == 1)
      store(*tensor, values[node], element);
    else
      pending[i].push_back(leading(node));
  }
  return llvm::Error::success();
}

void GraphStep::storeGroups() {
  for (auto [nodeAndTensor, newValues] : llvm::zip(stores, pending))
    nodeAndTensor.second->writeGroups(state, 0, newValues);
}

llvm::Expected<Lane> GraphStep::evaluate(const Node &node,
                                         uint64_t element) const {
  switch (node.kind) {
  case Node::Kind::Load:
    return load(bound.tensors[node.tensor], element);
  case Node::Kind::Scalar:
    return Lane{*node.scalar};
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

Lane GraphStep::load(const BoundTensor &tensor, uint64_t element) const {
  Codes codes = tensor.read(element);
  state.flags |= getFlags(tensor, codes);
  if (!isComponentPolicy())
    return {decodeReal(tensor.storage, codes)};
  return toLane(decodeComponents(tensor.storage, codes, getFormatOfPolicy()));
}

void GraphStep::store(const BoundTensor &tensor, const Lane &value,
                      uint64_t element) const {
  uint16_t random =
      tensor.storage.usesRandomBits() ? drawRandomBits(state, element) : 0;
  if (!isComponentPolicy()) {
    const SoftFloat &real = std::get<SoftFloat>(value.front());
    return tensor.write(element, encodeReal(tensor.storage, real, random));
  }
  Components whole = componentsOf(value);
  // A plain storage takes the leading component of another's whole value.
  if (!isCompensated(tensor.storage))
    whole = {whole[0].convert(getFormatOfPolicy())};
  tensor.write(element, encodeComponents(tensor.storage, whole));
}

/// Computes in f32 and rounds once to the policy's format. An fma of components
/// is the one operation for which f32 is not wide enough.
llvm::Expected<Lane> GraphStep::evaluateOperation(const Node &node) const {
  bool hasScalar = llvm::any_of(node.operands, [&](unsigned operand) {
    return nodes[operand].kind == Node::Kind::Scalar;
  });
  bool isDirect = isa<math::FmaOp>(node.op) && !hasScalar;
  SmallVector<Lane, 3> lanes;
  for (unsigned operand : node.operands) {
    Number number = values[operand].front();
    if (auto *real = std::get_if<SoftFloat>(&number); real && !isDirect)
      number = real->convert(Format::F32);
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
    result.front() = real->convert(getFormatOfPolicy());
  return result;
}

/// grow for an expansion, Kahan's sum for a value and its compensation.
Lane GraphStep::accumulate(const Node &node) const {
  const StorageAttrInterface &storage = bound.tensors[node.tensor].storage;
  Components whole = widenMixed(componentsOf(values[node.operands[0]]));
  SoftFloat addend = leading(node.operands[1]).convert(getFormatOfPolicy());
  if (node.isSubtracted)
    addend = addend.neg();
  bool isKahan = isa<KahanStorageAttr>(storage);
  return toLane(
      settle(storage, isKahan ? kahan(whole, addend) : grow(whole, addend)));
}

/// mul by the split factor for an expansion. Under Kahan's sum the value
/// decays; what is still to be added to it does not.
Lane GraphStep::decay(const Node &node) const {
  const StorageAttrInterface &storage = bound.tensors[node.tensor].storage;
  Components whole = widenMixed(componentsOf(values[node.operands[0]]));
  if (isa<KahanStorageAttr>(storage)) {
    SoftFloat product = whole[0].convert(Format::F32).mul(*node.scalar);
    return {product.convert(getFormatOfPolicy()), whole[1]};
  }
  return toLane(settle(storage, mul(node.split, whole)));
}

llvm::Error reference::interpretGraph(func::FuncOp graph, StrategyOp strategy,
                                      MachineState &state) {
  MachineState next = state;
  if (llvm::Error error = GraphStep(graph, strategy, next).run())
    return error;
  state = std::move(next);
  return llvm::Error::success();
}
