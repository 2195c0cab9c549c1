//===- TandemOps.cpp - Operations of the tandem dialect -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the verifiers and methods of the tandem operations.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/FloatFormat.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Strategies
//===----------------------------------------------------------------------===//

LogicalResult StrategyOp::verifyRegions() {
  // (C1)
  for (Operation &op : getBody().front())
    if (!isa<AssignOp>(op))
      return op.emitOpError("does not belong in a strategy; it holds only "
                            "tandem.assign");
  return success();
}

/// Returns whether a rule is for states of one moment or name.
static bool isExplicit(AssignOp rule) {
  return rule.getMoment() || rule.getName();
}

/// Returns whether a rule applies to a role.
static bool matches(AssignOp rule, RoleAttr role) {
  // One pass restores the tensors that the other saves.
  RoleKind kind =
      role.getKind() == RoleKind::restored ? RoleKind::saved : role.getKind();
  return rule.getKind() == kind &&
         (isExplicit(rule) || role.getMoment() != Moment::average) &&
         (!rule.getMoment() || *rule.getMoment() == role.getMoment()) &&
         (!rule.getConsumer() || *rule.getConsumer() == role.getConsumer()) &&
         (!rule.getFlow() || *rule.getFlow() == role.getFlow()) &&
         (!rule.getPer() || *rule.getPer() == role.getPer()) &&
         (!rule.getName() || *rule.getName() == role.getName().getValue());
}

StorageAttrInterface StrategyOp::getStorage(RoleAttr role) {
  for (AssignOp rule : getBody().getOps<AssignOp>()) {
    if (!matches(rule, role))
      continue;
    // A rule for all states may round what one step adds to a slow one away.
    return role.getMoment() == Moment::slow && !isExplicit(rule)
               ? rule.getStorage().getAverageStorage(getCompute())
               : rule.getStorage();
  }
  // Without a rule, the graph says in which format the host takes and leaves
  // tensors.
  if (role.getFormat())
    return FloatStorageAttr::get(getContext(), role.getFormat(),
                                 RoundingMode::nearest);
  return {};
}

/// Returns whether a host can take or leave a tensor in a storage.
static bool isExchangeable(StorageAttrInterface storage) {
  auto floats = dyn_cast<FloatStorageAttr>(storage);
  return floats && floats.getRounding() == RoundingMode::nearest &&
         isa<BFloat16Type, Float16Type, Float32Type>(floats.getFormat());
}

LogicalResult AssignOp::verify() {
  // (C1)
  switch (getKind()) {
  case RoleKind::hyper:
  case RoleKind::step:
  case RoleKind::seed:
  case RoleKind::restored:
    return emitOpError("stores a param, grad, state, input, output or what is "
                       "saved, sent or received, not a ")
           << stringifyRoleKind(getKind());
  default:
    break;
  }
  // (C2)
  if (getMoment() && getKind() != RoleKind::state)
    return emitOpError("only a state has a moment");
  // (C3)
  bool isBetweenLayers =
      getKind() == RoleKind::input || getKind() == RoleKind::output;
  if (getConsumer() && !isBetweenLayers && getKind() != RoleKind::saved)
    return emitOpError(
        "only what is saved, an input or an output has a consumer");
  // (C4)
  if (getFlow() && !isBetweenLayers)
    return emitOpError("only an input or an output has a flow");
  // (C5)
  bool isExchanged =
      getKind() == RoleKind::sent || getKind() == RoleKind::received;
  if (isExchanged && !isExchangeable(getStorage()))
    return emitOpError("exchanges tensors with the host as bf16, f16 or f32 "
                       "to nearest, got ")
           << getStorage();
  return success();
}

//===----------------------------------------------------------------------===//
// External
//===----------------------------------------------------------------------===//

LogicalResult ExternalOp::verify() {
  // (C1)
  if (getInputs().empty() || getOutputs().empty() ||
      getSends().size() != getInputs().size() ||
      getReceives().size() != getOutputs().size())
    return emitOpError("sends ")
           << getSends() << " and receives " << getReceives() << ", but it has "
           << getInputs().size() << " operands and " << getOutputs().size()
           << " results; give each of them a name, and have at least one of "
              "each";
  // (C2)
  if (!isa<BFloat16Type, Float16Type, Float32Type>(getFormat()))
    return emitOpError("exchanges bf16, f16 or f32 with the host, not ")
           << getFormat();
  return success();
}

//===----------------------------------------------------------------------===//
// Save
//===----------------------------------------------------------------------===//

LogicalResult SaveOp::verify() {
  // (C1)
  int64_t rank = cast<RankedTensorType>(getValue().getType()).getRank();
  bool isVector =
      getPer() == Granularity::row || getPer() == Granularity::column;
  if (getPer() > Granularity::column || (isVector && rank != 1))
    return emitOpError("has an entry per ")
           << stringifyGranularity(getPer())
           << "; that is row or column, of a tensor with one dimension, got "
           << getValue().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// KeepOutputs
//===----------------------------------------------------------------------===//

LogicalResult
KeepOutputsOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  // (C1)
  if (symbolTable.lookupNearestSymbolFrom<func::FuncOp>(*this, getGraphAttr()))
    return success();
  return emitOpError("names ")
         << getGraphAttr() << ", which is not a function of this module";
}

//===----------------------------------------------------------------------===//
// Decode and encode
//===----------------------------------------------------------------------===//

/// Verifies (C1) of decode and encode.
static LogicalResult verifyLogical(Operation *op, StoredType stored,
                                   Type value) {
  if (stored.getLogical() == value)
    return success();
  return op->emitOpError("value must be ")
         << stored.getLogical() << " as stored, got " << value;
}

LogicalResult DecodeOp::verify() {
  return verifyLogical(*this, getStored().getType(), getResult().getType());
}
LogicalResult EncodeOp::verify() {
  return verifyLogical(*this, getStored().getType(), getValue().getType());
}

//===----------------------------------------------------------------------===//
// Elements and planes
//===----------------------------------------------------------------------===//

/// Verifies (C1) of load and store, and (C3) of visible.
static LogicalResult verifyValue(Operation *op, StoredType tensor, Type value) {
  Type element = getElementTypeOrSelf(value);
  auto kernel = op->getParentOfType<ProgramOpInterface>();
  if (element.isF32() || (kernel && element == tensor.getStorage().getValueType(
                                                   kernel.getCompute())))
    return success();
  return op->emitOpError("value must be f32 or what the storage decodes to "
                         "under the kernel's policy, got ")
         << value;
}

/// Verifies (C2) of store and (C3) of store_plane.
static LogicalResult verifyWritten(Operation *op, Value tensor) {
  auto kernel = op->getParentOfType<ProgramOpInterface>();
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!kernel || !argument || argument.getOwner() != &kernel.getBodyBlock() ||
      argument.getArgNumber() >= kernel.getNumTensors())
    return success();
  RoleAttr role = kernel.getTensorRole(argument.getArgNumber());
  if (role.isUpdated())
    return success();
  return op->emitOpError("writes ")
         << stringifyRoleKind(role.getKind()) << " " << role.getName()
         << "; a kernel writes params, states, outputs and what it saves";
}

LogicalResult LoadOp::verify() {
  return verifyValue(*this, getTensor().getType(), getType());
}
LogicalResult StoreOp::verify() {
  if (failed(verifyWritten(*this, getTensor())))
    return failure();
  return verifyValue(*this, getTensor().getType(), getValue().getType());
}

/// Returns the role of an argument of a graph or of a kernel's body, or null.
static RoleAttr findRole(Operation *op, Value tensor) {
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!argument)
    return {};
  if (auto function = op->getParentOfType<func::FuncOp>())
    return function.getArgAttrOfType<RoleAttr>(
        argument.getArgNumber(), TandemDialect::getRoleAttrName());
  auto kernel = op->getParentOfType<ProgramOpInterface>();
  bool isTensor = kernel && argument.getArgNumber() < kernel.getNumTensors();
  return isTensor ? kernel.getTensorRole(argument.getArgNumber()) : RoleAttr();
}

LogicalResult VisibleOp::verify() {
  // (C1)
  RoleAttr role = findRole(*this, getTensor());
  if (!role ||
      (role.getKind() != RoleKind::param && role.getKind() != RoleKind::state))
    return emitOpError("is of a param or a state, which a framework reads "
                       "after the step; name an argument of the graph");
  auto stored = dyn_cast<StoredType>(getTensor().getType());
  // (C2)
  if (stored && !hasVisibleFloats(stored.getStorage()))
    return emitOpError() << stored.getStorage()
                         << " has no plane of floats that a framework computes "
                            "with; wrap it in #tandem.working";
  // (C3)
  bool isTensor = isa<RankedTensorType>(getValue().getType());
  if (stored && !isTensor)
    if (failed(verifyValue(*this, stored, getValue().getType())))
      return failure();
  if (isTensor ? getType() == getValue().getType() : getType().isF32())
    return success();
  return emitOpError("gives ")
         << (isTensor ? getValue().getType()
                      : Type(Float32Type::get(getContext())))
         << ", got " << getType();
}

static LogicalResult verifyExists(Operation *op, StoredType tensor,
                                  uint64_t plane) {
  size_t count = tensor.getStorage().getPlanes().size();
  if (plane < count)
    return success();
  return op->emitOpError("plane ")
         << int64_t(plane) << " does not exist; " << tensor << " has " << count;
}

static LogicalResult verifyPlane(Operation *op, StoredType tensor,
                                 uint64_t plane, Type value) {
  // (C1)
  if (failed(verifyExists(op, tensor, plane)))
    return failure();
  SmallVector<Plane> planes = tensor.getStorage().getPlanes();
  // (C4)
  if (planes[plane].history)
    return op->emitOpError("plane ")
           << plane
           << " is a history; use tandem.load_history and tandem.push_history";
  // (C2)
  Type element = getElementTypeOrSelf(value);
  Type wanted = planes[plane].elementType;
  if (element == wanted || element == getBitsType(wanted))
    return success();
  return op->emitOpError("plane ")
         << plane << " holds " << wanted << ", got " << value;
}

static int64_t getElementsPerEntry(Operation *op, Value tensor,
                                   const Plane &plane) {
  auto program = op->getParentOfType<ProgramOpInterface>();
  return program.getElementsPerEntry(getTensorNumber(tensor), plane);
}
int64_t LoadPlaneOp::getElementsPerEntry() {
  return ::getElementsPerEntry(*this, getTensor(), getPlaneInfo());
}
int64_t StorePlaneOp::getElementsPerEntry() {
  return ::getElementsPerEntry(*this, getTensor(), getPlaneInfo());
}

LogicalResult LoadPlaneOp::verify() {
  if (failed(verifyPlane(*this, getTensor().getType(), getPlane(), getType())))
    return failure();
  // (C5)
  if (!getPlaneInfo().isTransposed)
    return success();
  return emitOpError("plane ")
         << int64_t(getPlane())
         << " is a transposed copy, which nothing reads; load plane 0";
}
LogicalResult StorePlaneOp::verify() {
  if (failed(verifyWritten(*this, getTensor())))
    return failure();
  return verifyPlane(*this, getTensor().getType(), getPlane(),
                     getValue().getType());
}

/// Verifies constraint (C1) of load_history and push_history: the plane is a
/// history.
static LogicalResult verifyHistory(Operation *op, StoredType tensor,
                                   uint64_t plane) {
  if (failed(verifyExists(op, tensor, plane)))
    return failure();
  if (tensor.getStorage().getPlanes()[plane].history)
    return success();
  return op->emitOpError("plane ")
         << plane << " of " << tensor
         << " is not a history; use tandem.load_plane and tandem.store_plane";
}

LogicalResult LoadHistoryOp::verify() {
  return verifyHistory(*this, getTensor().getType(), getPlane());
}
LogicalResult PushHistoryOp::verify() {
  // (C2)
  if (failed(verifyWritten(*this, getTensor())))
    return failure();
  return verifyHistory(*this, getTensor().getType(), getPlane());
}

LogicalResult SaturationOp::verify() {
  // (C1)
  StorageAttrInterface storage = getTensor().getType().getStorage();
  if (isa<ScaledStorageAttr, CodedStorageAttr, WorkingStorageAttr>(storage))
    return success();
  return emitOpError() << storage
                       << " has no codes that could saturate; use "
                          "#tandem.scaled or #tandem.coded";
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

void ReduceOp::build(OpBuilder &builder, OperationState &state, ReduceKind kind,
                     Value value, int64_t group) {
  build(builder, state, getElementTypeOrSelf(value), kind, value, group,
        Granularity::group, Granularity::element);
}
void ReduceOp::build(OpBuilder &builder, OperationState &state, ReduceKind kind,
                     Value value, Granularity scope, Granularity per) {
  build(builder, state, getElementTypeOrSelf(value), kind, value, /*group=*/0,
        scope, per);
}

/// Verifies (C3) and (C4) of reduce and (C1) of partial.
static LogicalResult verifyReduced(Operation *op, ReduceKind kind, Type value,
                                   Granularity scope) {
  bool isSum = kind == ReduceKind::sum;
  if (isSum && scope == Granularity::block)
    return op->emitOpError("sums are over rows, columns, a tensor or the "
                           "model; a block has its max and min");
  auto kernel = op->getParentOfType<ProgramOpInterface>();
  if (scope == Granularity::block && kernel && !kernel.getBlockSize())
    return op->emitOpError("is over a block of a kernel that has none; store "
                           "a tensor in blocks, such as group = 64x64");
  Type element = getElementTypeOrSelf(value);
  bool isFine = element.isF32() || (!isSum && element.isInteger(32));
  if (!isSum && element.isF32() &&
      (scope == Granularity::group || scope == Granularity::block ||
       isa<PartialOp>(op)))
    return op->emitOpError("compares i32 within a group, a block or a launch, "
                           "got ")
           << value << "; -tandem-split-phases makes i32 of f32";
  if (isFine)
    return success();
  return op->emitOpError() << (isSum ? "sums up f32" : "compares i32 or f32")
                           << ", got " << value;
}

/// Verifies (C1) of reduce.
static LogicalResult verifyGroup(ReduceOp op) {
  int64_t group = op.getGroup();
  if (group < 2 || group > 256 || !llvm::isPowerOf2_64(group))
    return op.emitOpError("a group is a power of two from 2 to 256, got ")
           << group;
  auto kernel = op->getParentOfType<ProgramOpInterface>();
  if (kernel && int64_t(kernel.getWidth()) > group)
    return op.emitOpError("a group of ")
           << group << " is smaller than the kernel's width of "
           << kernel.getWidth() << "; widen to at most the group";
  if (op.getKind() == ReduceKind::sum) // (C3)
    return op.emitOpError("sums are over a tensor or the model; a group has "
                          "its max and min");
  return success();
}

LogicalResult ReduceOp::verify() {
  // (C2)
  if (endsPhase() && getGroup())
    return emitOpError("over a ")
           << stringifyGranularity(getScope())
           << " has no group; leave out 'group(" << getGroup() << ")'";
  // (C5)
  bool isWhole =
      getScope() == Granularity::tensor || getScope() == Granularity::model;
  if (getPer() > Granularity::column)
    return emitOpError("counts elements, rows or columns, not ")
           << stringifyGranularity(getPer()) << "s";
  if (getPer() != Granularity::element && !isWhole)
    return emitOpError("over a ") << stringifyGranularity(getScope())
                                  << " is of elements; leave out 'per "
                                  << stringifyGranularity(getPer()) << "'";
  // (C6)
  if (endsPhase() && isa<LaunchOp>((*this)->getParentOp()))
    return emitOpError("over a ")
           << stringifyGranularity(getScope())
           << " exists only after a launch; in a tandem.launch it is a "
              "tandem.partial";
  if (!endsPhase() && failed(verifyGroup(*this)))
    return failure();
  return verifyReduced(*this, getKind(), getValue().getType(), getScope());
}

LogicalResult PartialOp::verify() {
  // (C2)
  if (getScope() == Granularity::group)
    return emitOpError("ends with the launch; a group's reduction is a "
                       "tandem.reduce");
  // (C3)
  bool isOfMatrix = cast<LaunchOp>((*this)->getParentOp()).isAlongRows();
  if (isOfMatrix != isWithinMatrix(getScope()))
    return emitOpError("over ")
           << stringifyGranularity(getScope())
           << (isOfMatrix ? " of a matrix's elements; reduce its rows first"
                          : " outside of a matrix's elements");
  return verifyReduced(*this, getKind(), getValue().getType(), getScope());
}

LogicalResult LoadReductionResultOp::verify() {
  // (C1)
  if (!isWithinMatrix(getScope()))
    return emitOpError("reads a row's, column's or block's result; that of a ")
           << stringifyGranularity(getScope())
           << " is a tandem.reduction_result";
  // (C2)
  Granularity per = cast<LaunchOp>((*this)->getParentOp()).getPer();
  if (per != Granularity::element && per != getScope())
    return emitOpError("over ")
           << stringifyGranularity(getScope()) << " in a launch per "
           << stringifyGranularity(per);
  return success();
}

LogicalResult SizeOp::verify() {
  // (C1)
  if (getPer() <= Granularity::column)
    return success();
  return emitOpError("counts elements, rows or columns, not ")
         << stringifyGranularity(getPer()) << "s";
}

LogicalResult LookupOp::verify() {
  ShapedType table = getTable().getType();
  // (C1)
  if (getIndices().empty() || getIndices().size() > 2 ||
      table.getShape() !=
          ArrayRef(SmallVector<int64_t>(getIndices().size(), 256)))
    return emitOpError("takes one index of 256 entries or two of 256 each, "
                       "got ")
           << getIndices().size() << " for " << table;
  // (C2)
  if (getElementTypeOrSelf(getType()) != table.getElementType())
    return emitOpError("gives what the table holds, ")
           << table.getElementType() << ", not " << getType();
  return success();
}

#define GET_OP_CLASSES
#include "tandem/Dialect/Tandem/IR/TandemOps.cpp.inc"
