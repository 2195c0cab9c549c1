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
using namespace mlir::tandem;

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

/// Whether a rule applies to a role.
static bool matches(AssignOp rule, RoleAttr role) {
  // What one pass saves the other restores.
  RoleKind kind =
      role.getKind() == RoleKind::restored ? RoleKind::saved : role.getKind();
  return rule.getKind() == kind &&
         (!rule.getMoment() || *rule.getMoment() == role.getMoment()) &&
         (!rule.getConsumer() || *rule.getConsumer() == role.getConsumer()) &&
         (!rule.getFlow() || *rule.getFlow() == role.getFlow()) &&
         (!rule.getPer() || *rule.getPer() == role.getPer()) &&
         (!rule.getName() || *rule.getName() == role.getName().getValue());
}

StorageAttrInterface StrategyOp::getStorage(RoleAttr role) {
  for (AssignOp rule : getBody().getOps<AssignOp>())
    if (matches(rule, role))
      return rule.getStorage();
  return {};
}

LogicalResult AssignOp::verify() {
  // (C1)
  switch (getKind()) {
  case RoleKind::hyper:
  case RoleKind::step:
  case RoleKind::seed:
  case RoleKind::restored:
    return emitOpError("stores a param, grad, state, input, output or what is "
                       "saved, not a ")
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
  if (getPer() == Granularity::block || (isVector && rank != 1))
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
         << getGraphAttr() << ", which is no function of this module";
}

//===----------------------------------------------------------------------===//
// Decode and encode
//===----------------------------------------------------------------------===//

/// (C1) of decode and encode.
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
// Kernels
//===----------------------------------------------------------------------===//

StoredType KernelOp::getTensorType(unsigned index) {
  return cast<StoredType>(getBodyBlock().getArgument(index).getType());
}

unsigned KernelOp::getFirstPlane(unsigned tensor) {
  unsigned plane = 0;
  for (unsigned i = 0; i < tensor; ++i)
    plane += getTensorType(i).getStorage().getPlanes().size();
  return plane;
}

/// What a plane of a tensor has entries for.
static Granularity getGranularity(RoleAttr role, const Plane &plane) {
  if (role.getPer() != Granularity::element)
    return role.getPer();
  if (plane.group.isRow())
    return Granularity::row;
  return plane.group.isBlock() ? Granularity::block : Granularity::element;
}

int64_t KernelOp::getSharing(unsigned tensor, const Plane &plane) {
  if (plane.group.isTensor())
    return Group::all;
  RoleAttr role = getTensorRole(tensor);
  Granularity entries = getGranularity(role, plane);
  // A row's and a block's own entry.
  if (entries == getPer() && role.getPer() == Granularity::element &&
      entries != Granularity::element)
    return 1;
  bool runsAlongRows = getPer() == Granularity::element;
  // One row at a time has one entry.
  if (runsAlongRows && entries == Granularity::row)
    return Group::all;
  return runsAlongRows || entries == getPer() ? plane.group.columns : 0;
}

unsigned KernelOp::getNumMetrics() {
  unsigned count = 0;
  for (auto op : getBodyBlock().getOps<MetricOp>())
    count = std::max<unsigned>(count, op.getIndex() + 1);
  return count;
}

Block::BlockArgListType KernelOp::getUniforms() {
  return getBodyBlock().getArguments().drop_front(getNumTensors());
}

/// Whether `type` fits a 32-bit slot of the scalar row.
static bool isUniformType(Type type) {
  return mcf::isComponentFormat(type) || type.isSignlessInteger(32);
}

/// (C2): one prologue argument of the right type per scalar role.
static LogicalResult verifyScalars(KernelOp op) {
  Block &prologue = op.getPrologueBlock();
  if (prologue.getNumArguments() != op.getScalarRoles().size())
    return op.emitOpError("has ") << op.getScalarRoles().size()
                                  << " scalar roles, but its prologue has "
                                  << prologue.getNumArguments() << " arguments";
  for (auto [role, argument] :
       llvm::zip(op.getScalarRoles().getAsRange<RoleAttr>(),
                 prologue.getArguments())) {
    if (role.isTensor())
      return op.emitOpError("scalar role expected, got ") << role;
    bool isHyper = role.getKind() == RoleKind::hyper;
    if (isHyper ? !argument.getType().isF64()
                : !argument.getType().isSignlessInteger(64))
      return op.emitOpError("scalar '")
             << role.getName().getValue() << "' must be "
             << (isHyper ? "f64" : "i64") << " in the prologue, got "
             << argument.getType();
  }
  return success();
}

/// Whether a matrix has several results of a reduction.
static bool isWithinMatrix(Scope scope) {
  return scope == Scope::row || scope == Scope::column || scope == Scope::block;
}

/// (C9)
static LogicalResult verifyBlocks(KernelOp op) {
  int64_t size = op.getBlock();
  bool isSize = size >= 16 && size <= 256 && llvm::isPowerOf2_64(size);
  if (size && (!isSize || !op.getMatrix()))
    return op.emitOpError("a block is a power of two from 16 to 256, in a "
                          "matrix kernel, got ")
           << size;
  for (unsigned i = 0; i < op.getNumTensors(); ++i)
    for (const Plane &plane : op.getTensorType(i).getStorage().getPlanes())
      if (plane.group.isBlock() && plane.group.rows != size)
        return op.emitOpError("stores ")
               << op.getTensorRole(i).getName() << " in blocks of "
               << plane.group.rows << ", but its blocks are of " << size
               << "; the blocks of a kernel are of one size";
  return success();
}

/// (C10)
static LogicalResult verifyContinuation(KernelOp op) {
  bool isPossible = op.getMatrix() && op.getPer() == Granularity::element &&
                    op.getPart() != KernelPart::commit;
  if (op.getContinues() && !isPossible)
    return op.emitOpError("continues a launch, which only a phase over the "
                          "elements of a matrix does; leave out 'continues'");
  return success();
}

/// (C8)
static LogicalResult verifyMatrix(KernelOp op) {
  for (Operation &inner : op.getBodyBlock()) {
    auto reduce = dyn_cast<ReduceOp>(inner);
    auto partial = dyn_cast<PartialOp>(inner);
    auto size = dyn_cast<SizeOp>(inner);
    bool isAxis = isa<LoadTotalOp>(inner) ||
                  (reduce && (isWithinMatrix(reduce.getScope()) ||
                              reduce.getPer() != Granularity::element)) ||
                  (partial && isWithinMatrix(partial.getScope())) ||
                  (size && size.getPer() != Granularity::element);
    if (isAxis && !op.getMatrix())
      return inner.emitOpError("has rows and columns in a kernel that knows "
                               "none; mark the kernel 'matrix'");
    if (isa<MetricOp, DescentOp>(inner) && op.getMatrix())
      return inner.emitOpError("measures a matrix kernel, which has no "
                               "metrics; compile it without");
  }
  if (op.getPer() != Granularity::element && !op.getMatrix())
    return op.emitOpError("runs per ")
           << stringifyGranularity(op.getPer()) << " but is no matrix kernel";
  return success();
}

/// (C12)
static LogicalResult verifyOrder(KernelOp op) {
  llvm::DenseSet<Value> written, wholly;
  llvm::DenseSet<std::pair<Value, int64_t>> planes;
  for (Operation &inner : op.getBodyBlock()) {
    bool isLate = false;
    if (auto load = dyn_cast<LoadOp>(inner))
      isLate = written.contains(load.getTensor());
    if (auto load = dyn_cast<LoadPlaneOp>(inner))
      isLate = wholly.contains(load.getTensor()) ||
               planes.contains({load.getTensor(), load.getPlane()});
    if (isLate)
      return inner.emitOpError(
          "reads behind a write of the same, but all "
          "elements meet the old values; move it in front");
    if (auto store = dyn_cast<StoreOp>(inner)) {
      written.insert(store.getTensor());
      wholly.insert(store.getTensor());
    }
    if (auto store = dyn_cast<StorePlaneOp>(inner)) {
      written.insert(store.getTensor());
      planes.insert({store.getTensor(), store.getPlane()});
    }
  }
  return success();
}

/// (C1), first half: one stored body argument per tensor role.
static LogicalResult verifyTensors(KernelOp op) {
  Block &body = op.getBodyBlock();
  if (body.getNumArguments() < op.getNumTensors())
    return op.emitOpError("has ")
           << op.getNumTensors() << " tensor roles, but its body has only "
           << body.getNumArguments() << " arguments";
  for (auto [index, role] :
       llvm::enumerate(op.getTensorRoles().getAsRange<RoleAttr>())) {
    if (!role.isTensor())
      return op.emitOpError("tensor role expected, got ") << role;
    if (role.getPer() != Granularity::element && !op.getMatrix()) // (C8)
      return op.emitOpError("has ")
             << role.getName() << " per " << stringifyGranularity(role.getPer())
             << " but is no matrix kernel";
    auto stored = dyn_cast<StoredType>(body.getArgument(index).getType());
    if (!stored)
      return op.emitOpError("body argument ")
             << index << " must be a stored tensor, got "
             << body.getArgument(index).getType();
    // (C5)
    ComputeAttr compute = op.getCompute();
    if (!stored.getStorage().getValueType(compute))
      return op.emitOpError("stores ")
             << role.getName() << " as " << stored.getStorage()
             << ", which cannot be computed under the "
             << stringifyPolicy(compute.getPolicy()) << " policy of "
             << compute.getFormat();
    if (needsMatrix(stored.getStorage()) && // (C8)
        (role.getPer() != Granularity::element || !op.getMatrix()))
      return op.emitOpError("stores ")
             << role.getName() << " as " << stored.getStorage()
             << (hasTranspose(stored.getStorage())
                     ? ", which has a matrix's transpose"
                     : ", whose scales are those of a matrix's rows or blocks")
             << "; mark the kernel 'matrix' and the role per element";
    // (C11)
    if (hasTranspose(stored.getStorage()) && !role.isDestination())
      return op.emitOpError("stores ")
             << stringifyRoleKind(role.getKind()) << " " << role.getName()
             << " as " << stored.getStorage()
             << ", whose transposed copy is written for matrix products; only "
                "an output and what is saved have one";
  }
  return success();
}

/// (C6)
static LogicalResult verifyMetrics(KernelOp op) {
  llvm::SmallDenseSet<uint64_t> metrics;
  for (auto metric : op.getBodyBlock().getOps<MetricOp>()) {
    if (metric.getIndex() >= KernelOp::maxSums)
      return metric.emitOpError("adds to sum ")
             << metric.getIndex() << "; a kernel has at most "
             << KernelOp::maxSums << ", numbered from 0";
    if (!metrics.insert(metric.getIndex()).second)
      return metric.emitOpError("adds to sum ")
             << metric.getIndex()
             << ", as another does; add their values first";
  }
  return success();
}

/// (C7)
static LogicalResult verifyReductions(KernelOp op) {
  if (op.getReductions() > KernelOp::maxSums)
    return op.emitOpError("has reductions(")
           << int64_t(op.getReductions()) << "), and a kernel has at most "
           << KernelOp::maxSums;
  auto verifyIndex = [&](Operation *inner, uint64_t index) -> LogicalResult {
    if (index < op.getReductions())
      return success();
    return inner->emitOpError("names reduction ")
           << index << " of a kernel with reductions(" << op.getReductions()
           << ")";
  };
  for (Operation &inner : op.getBodyBlock())
    if (failed(llvm::TypeSwitch<Operation *, LogicalResult>(&inner)
                   .Case<PartialOp, TotalOp, LoadTotalOp>([&](auto sum) {
                     return verifyIndex(sum, sum.getIndex());
                   })
                   .Default(success())))
      return failure();
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  auto yield = dyn_cast<YieldOp>(getPrologueBlock().getTerminator());
  if (!yield || !isa<YieldOp>(getBodyBlock().getTerminator()))
    return emitOpError("prologue and body must end with tandem.yield");
  // (C1)
  if (failed(verifyTensors(*this)))
    return failure();
  if (!llvm::equal(ValueRange(getUniforms()).getTypes(),
                   yield.getOperandTypes()))
    return emitOpError("body arguments after the tensors must be what the "
                       "prologue yields");
  // (C2)
  if (failed(verifyScalars(*this)))
    return failure();
  // (C3)
  for (Type type : yield.getOperandTypes())
    if (!isUniformType(type))
      return emitOpError("a uniform value must be f32, bf16, f16, f8E4M3FN, "
                         "f8E5M2 or i32, got ")
             << type;
  if (failed(verifyMetrics(*this)) || failed(verifyReductions(*this)))
    return failure();
  if (failed(verifyMatrix(*this)) || failed(verifyBlocks(*this)) ||
      failed(verifyContinuation(*this)) || failed(verifyOrder(*this)))
    return failure();
  // (C4)
  if (!isWidth(getWidth()))
    return emitOpError("width must be a power of two up to ")
           << maxWidth << ", got " << getWidth();
  return success();
}

/// (C1) of load and store.
static LogicalResult verifyValue(Operation *op, StoredType tensor, Type value) {
  Type element = getElementTypeOrSelf(value);
  auto kernel = op->getParentOfType<KernelOp>();
  if (element.isF32() || (kernel && element == tensor.getStorage().getValueType(
                                                   kernel.getCompute())))
    return success();
  return op->emitOpError("value must be f32 or what the storage decodes to "
                         "under the kernel's policy, got ")
         << value;
}

/// (C2) of store, (C3) of store_plane.
static LogicalResult verifyWritten(Operation *op, Value tensor) {
  auto kernel = op->getParentOfType<KernelOp>();
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
           << plane << " is a history; use tandem.recall and tandem.remember";
  // (C2)
  Type element = getElementTypeOrSelf(value);
  Type wanted = planes[plane].elementType;
  if (element == wanted || element == getBitsType(wanted))
    return success();
  return op->emitOpError("plane ")
         << plane << " holds " << wanted << ", got " << value;
}

/// The sharing of a plane of a kernel's tensor.
static int64_t getSharing(Operation *op, Value tensor, const Plane &plane) {
  unsigned index = cast<BlockArgument>(tensor).getArgNumber();
  return op->getParentOfType<KernelOp>().getSharing(index, plane);
}
int64_t LoadPlaneOp::getSharing() {
  return ::getSharing(*this, getTensor(), getPlaneInfo());
}
int64_t StorePlaneOp::getSharing() {
  return ::getSharing(*this, getTensor(), getPlaneInfo());
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

/// (C1) of recall and remember.
static LogicalResult verifyHistory(Operation *op, StoredType tensor,
                                   uint64_t plane) {
  if (failed(verifyExists(op, tensor, plane)))
    return failure();
  if (tensor.getStorage().getPlanes()[plane].history)
    return success();
  return op->emitOpError("plane ")
         << plane << " of " << tensor
         << " is no history; use tandem.load_plane and tandem.store_plane";
}

LogicalResult RecallOp::verify() {
  return verifyHistory(*this, getTensor().getType(), getPlane());
}
LogicalResult RememberOp::verify() {
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
        Scope::group, Granularity::element);
}
void ReduceOp::build(OpBuilder &builder, OperationState &state, ReduceKind kind,
                     Value value, Scope scope, Granularity per) {
  build(builder, state, getElementTypeOrSelf(value), kind, value, /*group=*/0,
        scope, per);
}

/// (C3) and (C4) of reduce, (C1) of partial.
static LogicalResult verifyReduced(Operation *op, ReduceKind kind, Type value,
                                   Scope scope) {
  bool isSum = kind == ReduceKind::sum;
  if (isSum && scope == Scope::block)
    return op->emitOpError("sums are over rows, columns, a tensor or the "
                           "model; a block has its max and min");
  auto kernel = op->getParentOfType<KernelOp>();
  if (scope == Scope::block && kernel && !kernel.getBlock())
    return op->emitOpError("is over a block of a kernel that has none; give "
                           "the kernel 'block(size)'");
  Type element = getElementTypeOrSelf(value);
  bool isFine = element.isF32() || (!isSum && element.isInteger(32));
  if (!isSum && element.isF32() &&
      (scope == Scope::group || scope == Scope::block || isa<PartialOp>(op)))
    return op->emitOpError("compares i32 within a group or a block, and behind "
                           "-tandem-split-phases, got ")
           << value;
  if (isFine)
    return success();
  return op->emitOpError() << (isSum ? "sums up f32" : "compares i32 or f32")
                           << ", got " << value;
}

/// (C1) of reduce.
static LogicalResult verifyGroup(ReduceOp op) {
  int64_t group = op.getGroup();
  if (group < 2 || group > 256 || !llvm::isPowerOf2_64(group))
    return op.emitOpError("a group is a power of two from 2 to 256, got ")
           << group;
  auto kernel = op->getParentOfType<KernelOp>();
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
           << stringifyScope(getScope()) << " has no group; leave out 'group("
           << getGroup() << ")'";
  // (C5)
  bool isWhole = getScope() == Scope::tensor || getScope() == Scope::model;
  if (getPer() == Granularity::block)
    return emitOpError("counts elements, rows or columns, not blocks");
  if (getPer() != Granularity::element && !isWhole)
    return emitOpError("over a ")
           << stringifyScope(getScope()) << " is of elements; leave out 'per "
           << stringifyGranularity(getPer()) << "'";
  if (!endsPhase() && failed(verifyGroup(*this)))
    return failure();
  return verifyReduced(*this, getKind(), getValue().getType(), getScope());
}

LogicalResult PartialOp::verify() {
  // (C2)
  if (getScope() == Scope::group)
    return emitOpError("ends with the launch; a group's reduction is a "
                       "tandem.reduce");
  // (C3)
  auto kernel = getOperation()->getParentOfType<KernelOp>();
  bool isOfMatrix =
      kernel && kernel.getMatrix() && kernel.getPer() == Granularity::element;
  if (kernel && isOfMatrix != isWithinMatrix(getScope()))
    return emitOpError("over ")
           << stringifyScope(getScope())
           << (isOfMatrix ? " of a matrix's elements; reduce its rows first"
                          : " outside of a matrix's elements");
  return verifyReduced(*this, getKind(), getValue().getType(), getScope());
}

LogicalResult LoadTotalOp::verify() {
  // (C1)
  if (!isWithinMatrix(getScope()))
    return emitOpError("reads a row's, column's or block's result; that of a ")
           << stringifyScope(getScope()) << " is a tandem.total";
  // (C2)
  auto kernel = getOperation()->getParentOfType<KernelOp>();
  Granularity own = getScope() == Scope::row      ? Granularity::row
                    : getScope() == Scope::column ? Granularity::column
                                                  : Granularity::block;
  if (kernel && kernel.getPer() != Granularity::element &&
      kernel.getPer() != own)
    return emitOpError("over ")
           << stringifyScope(getScope()) << " in a part per "
           << stringifyGranularity(kernel.getPer());
  return success();
}

LogicalResult SizeOp::verify() {
  // (C1)
  if (getPer() != Granularity::block)
    return success();
  return emitOpError("counts elements, rows or columns, not blocks");
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
