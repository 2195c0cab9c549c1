//===- Graph.cpp - What a source graph says -------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements how the reference interpreter reads source graphs.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Interpreter/Graph.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "tandem/Reference/Interpreter/Operations.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

/// Goes one step from a value to where its elements come from. Returns null at
/// a source.
static Value getOrigin(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Operation *parent = argument.getOwner()->getParentOp();
    if (isa<linalg::LinalgOp>(parent))
      return parent->getOperand(argument.getArgNumber());
    return {};
  }
  Operation *op = value.getDefiningOp();
  unsigned index = cast<OpResult>(value).getResultNumber();
  if (isa<linalg::ReduceOp>(op))
    return {};
  if (auto loop = dyn_cast<linalg::LinalgOp>(op))
    return loop.getBlock()->getTerminator()->getOperand(index);
  if (auto extract = dyn_cast<tensor::ExtractOp>(op))
    return extract.getTensor();
  if (auto splat = dyn_cast<tensor::SplatOp>(op))
    return splat.getInput();
  return {};
}

Value GraphReader::getSource(Value value) const {
  while (Value origin = getOrigin(value))
    value = origin;
  return value;
}

bool GraphReader::isUniform(Value source) {
  auto known = uniform.find(source);
  if (known != uniform.end())
    return known->second;
  bool result = false;
  if (auto argument = dyn_cast<BlockArgument>(source)) {
    RoleAttr role = getRole(argument);
    result = role && !role.isTensor();
  } else {
    Operation *op = source.getDefiningOp();
    result = !isa<tensor::EmptyOp, tensor::DimOp>(op) &&
             op->getNumRegions() == 0 &&
             llvm::all_of(op->getOperands(), [&](Value operand) {
               return isUniform(getSource(operand));
             });
  }
  return uniform[source] = result;
}

bool GraphReader::isWide(Value source) {
  auto known = wide.find(source);
  if (known != wide.end())
    return known->second;
  Operation *op = source.getDefiningOp();
  bool result =
      isUniform(source) || isa_and_nonnull<linalg::ReduceOp, tensor::DimOp>(op);
  if (!result && op)
    result = !isa<tensor::EmptyOp>(op) && op->getNumRegions() == 0 &&
             llvm::all_of(op->getOperands(), [&](Value operand) {
               return isWide(getSource(operand));
             });
  return wide[source] = result;
}

//===----------------------------------------------------------------------===//
// Rows and columns
//===----------------------------------------------------------------------===//

static int64_t getRank(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type.getRank() : 0;
}

/// Returns whether a tensor has an entry for each row or column, or is the
/// matrix of a layer.
static bool findRows(func::FuncOp graph) {
  auto isVector = [](BlockArgument argument) {
    RoleAttr role = getRole(argument);
    return role.getPer() != Granularity::element ||
           (role.isOfLayer() && getRank(argument) == 2);
  };
  auto leavesVector = [](linalg::ReduceOp reduce) {
    return reduce->getNumResults() == 1 && getRank(reduce->getResult(0)) == 1;
  };
  return llvm::any_of(graph.getArguments(), isVector) ||
         llvm::any_of(graph.getBody().front().getOps<linalg::ReduceOp>(),
                      leavesVector);
}

Granularity reference::join(Granularity a, Granularity b) {
  if (a == Granularity::tensor || a == b)
    return b;
  return b == Granularity::tensor ? a : Granularity::element;
}

Granularity GraphReader::getGranularity(Value source) {
  auto known = granularities.find(source);
  if (known != granularities.end())
    return known->second;
  Granularity per = computeGranularity(source);
  return granularities[source] = per;
}

Granularity GraphReader::computeGranularity(Value source) {
  if (auto argument = dyn_cast<BlockArgument>(source)) {
    RoleAttr role = getRole(argument);
    return role.isTensor() ? role.getPer() : Granularity::tensor;
  }
  Operation *op = source.getDefiningOp();
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op)) {
    if (getRank(source) == 0)
      return Granularity::tensor;
    return reduce.getDimensions().front() == 1 ? Granularity::row
                                               : Granularity::column;
  }
  Granularity per = Granularity::tensor;
  if (!isa<tensor::DimOp, tensor::EmptyOp>(op))
    for (Value operand : op->getOperands())
      per = join(per, getGranularity(getSource(operand)));
  return per;
}

std::optional<Granularity> GraphReader::getEntries(Value vector) {
  auto known = entries.find(vector);
  if (known != entries.end())
    return known->second;
  std::optional<Granularity> per = computeEntries(vector);
  return entries[vector] = per;
}

/// Returns which entries a vector has. A splat has those of the tensor.dim that
/// gives its size.
std::optional<Granularity> GraphReader::computeEntries(Value vector) {
  Operation *op = vector.getDefiningOp();
  if (!op || isa<linalg::ReduceOp>(op))
    return getGranularity(vector);
  if (auto dim = dyn_cast<tensor::DimOp>(op)) {
    std::optional<int64_t> index = dim.getConstantIndex();
    if (getRank(dim.getSource()) == 1)
      return getEntries(dim.getSource());
    if (getRank(dim.getSource()) != 2 || !index)
      return std::nullopt;
    return *index == 0 ? Granularity::row : Granularity::column;
  }
  bool isSized = isa<tensor::SplatOp, tensor::EmptyOp>(op);
  std::optional<Granularity> per;
  for (Value operand : op->getOperands()) {
    bool counts = isSized ? bool(operand.getDefiningOp<tensor::DimOp>())
                          : getRank(operand) == 1;
    if (counts && !per)
      per = getEntries(operand);
  }
  return per;
}

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

SmallVector<BlockArgument> GraphReader::getTensors() const {
  func::FuncOp function = graph;
  SmallVector<BlockArgument> tensors;
  for (BlockArgument argument : function.getArguments())
    if (getRole(argument).isTensor())
      tensors.push_back(argument);
  return tensors;
}

SmallVector<BlockArgument> GraphReader::getUpdated() const {
  SmallVector<BlockArgument> updated;
  for (BlockArgument argument : getTensors())
    if (getRole(argument).isUpdated())
      updated.push_back(argument);
  return updated;
}

Value GraphReader::getNewValue(unsigned updated) {
  Operation *terminator = graph.getBody().front().getTerminator();
  return getSource(terminator->getOperand(updated));
}

StorageAttrInterface GraphReader::findStorage(StrategyOp strategy,
                                              RoleAttr role) const {
  StorageAttrInterface storage = strategy.getStorage(role);
  if (storage || role.getMoment() != Moment::average)
    return storage;
  SmallVector<BlockArgument> tensors = getTensors();
  const BlockArgument *param = llvm::find_if(tensors, [](BlockArgument tensor) {
    return getRole(tensor).getKind() == RoleKind::param;
  });
  if (param != tensors.end())
    storage = strategy.getStorage(getRole(*param));
  return storage ? storage.getAverageStorage(strategy.getCompute()) : storage;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

llvm::Error GraphReader::check() {
  if (graph.isExternal() || !llvm::hasSingleElement(graph.getBody()))
    return makeError("graph '" + graph.getName() +
                     "' must be one block; express control flow with "
                     "arith.select");
  if (llvm::Error error = checkArguments())
    return error;
  hasRows = findRows(graph);
  if (llvm::Error error = checkRanks())
    return error;
  if (llvm::Error error = checkResults())
    return error;
  for (Operation &op : graph.getBody().front())
    if (llvm::Error error = checkOperation(&op))
      return error;
  return checkNewValues();
}

llvm::Error GraphReader::checkArguments() {
  llvm::StringSet<> names;
  for (BlockArgument argument : graph.getArguments()) {
    RoleAttr role = getRole(argument);
    if (!role)
      return makeError("argument #" + llvm::Twine(argument.getArgNumber()) +
                       " of graph '" + graph.getName() + "' has no role");
    if (role.isTensor() && !isa<RankedTensorType>(argument.getType()))
      return makeError("argument '" + role.getName().getValue() +
                       "' of graph '" + graph.getName() + "' is " +
                       describe(argument.getType()) +
                       ", not a tensor; the interpreter takes graphs before a "
                       "strategy is applied");
    if (!names.insert(role.getName().getValue()).second)
      return makeError("two arguments of graph '" + graph.getName() +
                       "' are named '" + role.getName().getValue() + "'");
  }
  return llvm::Error::success();
}

/// Checks that a graph of matrices has only matrices, rows and columns.
llvm::Error GraphReader::checkRanks() {
  if (!hasRows)
    return llvm::Error::success();
  for (BlockArgument argument : getTensors()) {
    RoleAttr role = getRole(argument);
    int64_t wanted = role.getPer() == Granularity::element ? 2 : 1;
    if (getRank(argument) != wanted)
      return makeError("'" + role.getName().getValue() + "' is " +
                       describe(argument.getType()) + " per " +
                       stringifyGranularity(role.getPer()) +
                       " in a graph of matrices, which takes tensor<?x?xf32> "
                       "per element, tensor<?xf32> per row and per column");
  }
  return llvm::Error::success();
}

/// Checks that the new value of a tensor with an entry per row or column has
/// the same entries.
llvm::Error GraphReader::checkNewValues() {
  Operation *terminator = graph.getBody().front().getTerminator();
  for (auto [argument, value] :
       llvm::zip(getUpdated(), terminator->getOperands())) {
    bool isVector = hasRows && getRank(value) == 1;
    std::optional<Granularity> got =
        isVector ? getEntries(value) : std::nullopt;
    if (got && *got != getGranularity(argument))
      return makeError(
          "the new value of '" + getRole(argument).getName().getValue() +
          "' has an entry per " + stringifyGranularity(*got) +
          ", the tensor per " + stringifyGranularity(getGranularity(argument)));
  }
  return llvm::Error::success();
}

llvm::Error GraphReader::checkResults() {
  size_t wanted = getUpdated().size();
  if (wanted > 0 && graph.getNumResults() == wanted)
    return llvm::Error::success();
  return makeError("graph '" + graph.getName() + "' returns " +
                   llvm::Twine(graph.getNumResults()) + " values; it has " +
                   llvm::Twine(wanted) +
                   " params, states and outputs to give a new value to");
}

/// Returns whether a reduction is the sum, the maximum or the minimum of one
/// tensor.
static bool isKnownReduction(linalg::ReduceOp op) {
  Block &body = *op.getBlock();
  Operation &join = body.front();
  return op.getInputs().size() == 1 &&
         isa<arith::AddFOp, arith::MaximumFOp, arith::MinimumFOp>(join) &&
         join.getOperand(0) != join.getOperand(1) &&
         llvm::all_of(join.getOperands(), llvm::IsaPred<BlockArgument>) &&
         body.getTerminator()->getOperand(0) == join.getResult(0);
}

/// Returns whether a reduction is over all elements or, without a named scope,
/// over rows or columns. The verifier checks the names of scopes.
static bool hasScope(linalg::ReduceOp op) {
  if (op.getNumReductionLoops() == op.getNumLoops())
    return true;
  return !op->hasAttr("tandem.scope") && op.getNumLoops() == 2;
}

/// Checks that an operation combines an element only with elements at the same
/// position in other tensors, or with sums.
llvm::Error GraphReader::checkOperation(Operation *op) {
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op)) {
    if (isKnownReduction(reduce) && hasScope(reduce))
      return llvm::Error::success();
    return makeError("'linalg.reduce' is not the sum (arith.addf), the "
                     "maximum (arith.maximumf) or the minimum "
                     "(arith.minimumf) of all elements of one tensor, over "
                     "the scope \"tensor\" or \"model\", or without a scope "
                     "of each row or column of a matrix");
  }
  auto extract = dyn_cast<tensor::ExtractOp>(op);
  if (extract && !extract.getIndices().empty())
    return makeError("'tensor.extract' picks one element of many; a graph is "
                     "element-wise");
  auto loop = dyn_cast<linalg::LinalgOp>(op);
  if (loop)
    if (llvm::Error error = checkOperands(loop))
      return error;
  bool hasPlaces = loop && loop.getNumLoops() == 2;
  return hasPlaces || isa<func::ReturnOp>(op) ? llvm::Error::success()
                                              : checkEntries(op);
}

/// Checks that an operation does not combine entries of rows with those of
/// columns.
llvm::Error GraphReader::checkEntries(Operation *op) {
  std::optional<Granularity> joined;
  for (Value operand : op->getOperands()) {
    if (!hasRows || getRank(operand) != 1)
      continue;
    std::optional<Granularity> next = getEntries(operand);
    if (joined && next && *joined != *next)
      return makeError("'" + describe(op->getName()) + "' joins an entry per " +
                       stringifyGranularity(*joined) + " with one per " +
                       stringifyGranularity(*next) +
                       "; broadcast both to matrices (linalg.broadcast) first");
    joined = joined ? joined : next;
  }
  return llvm::Error::success();
}

/// Returns whether a vector of entries of rows is indexed by the row, or one of
/// entries of columns by the column.
bool GraphReader::isByPlace(linalg::LinalgOp loop, OpOperand &operand) {
  AffineMap map = loop.getMatchingIndexingMap(&operand);
  if (!hasRows || loop.getNumLoops() != 2 || map.getNumResults() != 1)
    return false;
  auto dim = dyn_cast<AffineDimExpr>(map.getResult(0));
  return dim &&
         getEntries(operand.get()) ==
             (dim.getPosition() == 0 ? Granularity::row : Granularity::column);
}

llvm::Error GraphReader::checkOperands(linalg::LinalgOp loop) {
  Operation *op = loop;
  if (loop.getNumParallelLoops() != loop.getNumLoops())
    return makeError(
        "'" + describe(op->getName()) +
        "' reduces; a graph is element-wise, except for linalg.reduce");
  for (OpOperand &operand : op->getOpOperands()) {
    bool isRead = !loop.getMatchingBlockArgument(&operand).use_empty();
    bool isWritten = loop.isDpsInit(&operand);
    bool isTensor = isa<RankedTensorType>(operand.get().getType());
    if (!isTensor || loop.getMatchingIndexingMap(&operand).isIdentity())
      continue;
    bool isOne =
        getGranularity(getSource(operand.get())) == Granularity::tensor;
    if (isWritten || (isRead && !isOne && !isByPlace(loop, operand)))
      return makeError("operand #" + llvm::Twine(operand.getOperandNumber()) +
                       " of '" + describe(op->getName()) +
                       "' is not indexed by the identity" +
                       (hasRows ? " or as its rows or columns are" : "") +
                       "; a graph is element-wise");
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Update chains
//===----------------------------------------------------------------------===//

UpdateChains::UpdateChains(GraphReader &reader) : reader(reader) {
  for (auto [index, state] : llvm::enumerate(reader.getUpdated()))
    follow(state, reader.getNewValue(index));
}

const UpdateStep *UpdateChains::find(Value source) const {
  auto step = steps.find(source);
  return step == steps.end() ? nullptr : &step->second;
}

bool UpdateChains::isComplete(BlockArgument state) const {
  return complete.contains(state);
}

void UpdateChains::follow(BlockArgument state, Value newValue) {
  distances.clear();
  if (!getDistance(state, newValue))
    return;
  complete.insert(state);
  bool isBelowSum = false;
  for (Value value = newValue; value != state;) {
    UpdateStep step = describeStep(state, value.getDefiningOp());
    step.isInsideSum = isBelowSum && step.factor;
    isBelowSum = bool(step.addend);
    steps[value] = step;
    value = step.before;
  }
}

UpdateStep UpdateChains::describeStep(BlockArgument state, Operation *op) {
  UpdateStep step;
  step.state = state;
  if (isa<arith::MulFOp>(op)) {
    bool isLeft = isStateLeft(state, op);
    step.before = operand(op, isLeft ? 0 : 1);
    step.factor = operand(op, isLeft ? 1 : 0);
    return step;
  }
  Distance left = getDistance(state, operand(op, 0));
  Distance right =
      isa<arith::AddFOp>(op) ? getDistance(state, operand(op, 1)) : Distance();
  bool isLeft = left && (!right || *left <= *right);
  step.before = operand(op, isLeft ? 0 : 1);
  step.addend = operand(op, isLeft ? 1 : 0);
  step.isSubtracted = isa<arith::SubFOp>(op);
  return step;
}

bool UpdateChains::isStateLeft(BlockArgument state, Operation *product) {
  return reader.isUniform(operand(product, 1)) &&
         getDistance(state, operand(product, 0));
}

UpdateChains::Distance UpdateChains::getDistance(BlockArgument state,
                                                 Value source) {
  if (source == state)
    return 0;
  // A step in the chain of another state is a value of that state.
  if (!source.getDefiningOp() || steps.contains(source))
    return std::nullopt;
  auto known = distances.find(source);
  if (known != distances.end())
    return known->second;
  Distance distance = computeDistance(state, source.getDefiningOp());
  if (distance)
    ++*distance;
  return distances[source] = distance;
}

UpdateChains::Distance UpdateChains::computeDistance(BlockArgument state,
                                                     Operation *op) {
  if (isa<arith::SubFOp>(op))
    return getDistance(state, operand(op, 0));
  if (isa<arith::AddFOp>(op)) {
    Distance left = getDistance(state, operand(op, 0));
    Distance right = getDistance(state, operand(op, 1));
    return left && right ? std::min(*left, *right) : (left ? left : right);
  }
  if (isa<arith::MulFOp>(op)) {
    if (reader.isUniform(operand(op, 0)))
      return getDistance(state, operand(op, 1));
    if (reader.isUniform(operand(op, 1)))
      return getDistance(state, operand(op, 0));
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

llvm::Expected<Number> ScalarEvaluator::evaluate(Value source) {
  auto known = values.find(source);
  if (known != values.end())
    return known->second;
  llvm::Expected<Number> value = evaluateOperation(source.getDefiningOp());
  if (value)
    values.insert({source, *value});
  return value;
}

/// Evaluates a constant. Float literals are f32 numbers that are widened, and
/// all elements of a constant tensor must be equal.
llvm::Expected<Number> ScalarEvaluator::evaluateConstant(Operation *op) {
  Attribute attribute = cast<arith::ConstantOp>(op).getValue();
  if (auto dense = dyn_cast<DenseElementsAttr>(attribute)) {
    if (!dense.isSplat())
      return makeError("a constant of a graph must be one number for all "
                       "elements, got " +
                       describe(attribute));
    attribute = dense.getSplatValue<Attribute>();
  }
  Type type = cast<TypedAttr>(attribute).getType();
  llvm::Expected<Datum> datum = datumFromAttribute(type, attribute);
  if (!datum)
    return datum.takeError();
  Number number = datum->front().front();
  if (auto *real = std::get_if<SoftFloat>(&number))
    return real->convert(Format::F64);
  return number;
}

llvm::Expected<Number> ScalarEvaluator::evaluateOperation(Operation *op) {
  if (isa<arith::ConstantOp>(op))
    return evaluateConstant(op);
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return evaluate(reader.getSource(op->getOperand(0)));
  if (!isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
           arith::NegFOp, math::SqrtOp, math::FPowIOp, arith::AddIOp,
           arith::SubIOp, arith::MulIOp, arith::SIToFPOp>(op))
    return makeError("a scalar expression of a graph uses + - * /, sqrt, "
                     "integer powers and i64 arithmetic; '" +
                     describe(op->getName()) + "' is none of them");
  SmallVector<Lane, 2> lanes;
  for (Value operand : op->getOperands()) {
    llvm::Expected<Number> value = evaluate(reader.getSource(operand));
    if (!value)
      return value.takeError();
    lanes.push_back({*value});
  }
  if (isa<arith::SIToFPOp>(op)) {
    int64_t value = std::get<Integer>(lanes[0].front()).getSigned();
    return SoftFloat::fromInteger(Format::F64, value);
  }
  SmallVector<const Lane *> operands;
  for (const Lane &lane : lanes)
    operands.push_back(&lane);
  Evaluation evaluation(op, operands);
  if (llvm::Error error = findHandler(op)(evaluation))
    return error;
  return evaluation.results.front().front();
}
