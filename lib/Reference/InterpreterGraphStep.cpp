//===- InterpreterGraphStep.cpp - One step of a source graph --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the execution of source graphs under a strategy:
// policies, expansions and storages of docs/Numerics.md, element by element,
// once for each sum over all of them and once for the new values.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
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
    /// The number of elements.
    Size,
    /// The sum of a node over all elements, in f32.
    Sum,
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
  /// Whether all elements have one value, which is an f32.
  bool isShared = false;
  /// Scalar: the value. Decay: the factor. Sum: the value, once it is known.
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
  llvm::Expected<unsigned> makeSum(linalg::ReduceOp op);
  llvm::Expected<unsigned> makeOperation(Operation *op, bool isShared);
  llvm::Expected<unsigned> makeFrom(Value source);
  llvm::Expected<unsigned> makeStep(const UpdateStep &step);
  llvm::Expected<SoftFloat> evaluateReal(Value source);
  unsigned addNode(Node node) {
    nodes.push_back(std::move(node));
    return nodes.size() - 1;
  }

  // Execution.
  llvm::Error sum(unsigned node);
  llvm::Error runNodes(uint64_t element, unsigned count);
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
  for (unsigned i = 0, e = nodes.size(); i < e; ++i)
    if (nodes[i].kind == Node::Kind::Sum)
      if (llvm::Error error = sum(i))
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
  llvm::Expected<unsigned> node =
      isWhole ? wholeNode(source) : makeFrom(source);
  if (node)
    readNodes[source] = *node;
  return node;
}

llvm::Expected<unsigned> GraphStep::makeFrom(Value source) {
  if (reader.isUniform(source))
    return makeScalar(source);
  if (isa<BlockArgument>(source))
    return addNode({Node::Kind::Load, {}, tensorIndex.lookup(source)});
  Operation *op = source.getDefiningOp();
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op))
    return makeSum(reduce);
  if (auto dim = dyn_cast<tensor::DimOp>(op)) {
    if (dim.getSource().getType().getRank() == 1)
      return addNode({Node::Kind::Size});
    return makeError("'tensor.dim' becomes a number of a graph where the "
                     "tensor has one dimension");
  }
  return makeOperation(op, reader.isShared(source));
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
  node.isShared = true;
  node.scalar = value->convert(Format::F32);
  return addNode(node);
}

/// What the sum begins with must be a zero, since the tree is the whole rule.
llvm::Expected<unsigned> GraphStep::makeSum(linalg::ReduceOp op) {
  if (state.first != 0)
    return makeError("'linalg.reduce' takes the whole tensor, but element 0 is "
                     "number " +
                     llvm::Twine(state.first) +
                     " of the unsharded tensor; pass the unsharded tensor");
  Value initial = reader.getSource(op.getInits().front());
  bool isZero = reader.isUniform(initial);
  if (isZero) {
    llvm::Expected<SoftFloat> value = evaluateReal(initial);
    if (!value)
      return value.takeError();
    isZero = value->isZero();
  }
  if (!isZero)
    return makeError("'linalg.reduce' begins with another number than 0");
  llvm::Expected<unsigned> summand =
      readNode(reader.getSource(op.getInputs().front()));
  if (!summand)
    return summand.takeError();
  Node node{Node::Kind::Sum, {*summand}};
  node.isShared = true;
  return addNode(node);
}

/// A graph fixes no precision: its elements are real numbers, or truths. What
/// all elements share may come from their number.
static bool isValueType(Type type, bool isShared) {
  Type element = getElementTypeOrSelf(type);
  return element.isF32() || element.isInteger(1) ||
         (isShared && (element.isInteger(64) || element.isIndex()));
}

llvm::Expected<unsigned> GraphStep::makeOperation(Operation *op,
                                                  bool isShared) {
  Node node{Node::Kind::Operation};
  node.op = op;
  node.isShared = isShared;
  auto isElementType = [&](Type type) { return isValueType(type, isShared); };
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

/// The values of the first nodes.
llvm::Error GraphStep::runNodes(uint64_t element, unsigned count) {
  values.clear();
  for (const Node &node : ArrayRef<Node>(nodes).take_front(count)) {
    llvm::Expected<Lane> value = evaluate(node, element);
    if (!value)
      return value.takeError();
    values.push_back(std::move(*value));
  }
  return llvm::Error::success();
}

/// The sum over the tensor, which here is all of the model.
llvm::Error GraphStep::sum(unsigned node) {
  std::vector<SoftFloat> summands;
  for (uint64_t element = 0; element < bound.numElements; ++element) {
    if (llvm::Error error = runNodes(element, node))
      return error;
    const SoftFloat &summand = leading(nodes[node].operands.front());
    summands.push_back(summand.convert(Format::F32));
  }
  nodes[node].scalar = sumTree(std::move(summands));
  return llvm::Error::success();
}

llvm::Error GraphStep::runElement(uint64_t element) {
  if (llvm::Error error = runNodes(element, nodes.size()))
    return error;
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
  case Node::Kind::Sum:
    return Lane{*node.scalar};
  case Node::Kind::Size:
    return Lane{Integer(64, bound.numElements)};
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

/// Computes in f32 and rounds once to the policy's format, unless all elements
/// share the value. An fma of components is the one operation for which f32 is
/// not wide enough.
llvm::Expected<Lane> GraphStep::evaluateOperation(const Node &node) const {
  bool hasScalar = llvm::any_of(
      node.operands, [&](unsigned operand) { return nodes[operand].isShared; });
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
    result.front() =
        real->convert(node.isShared ? Format::F32 : getFormatOfPolicy());
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
