//===- TandemProgramOps.cpp - Kernels, steps and launches -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the verifiers and methods of kernels, steps and
// launches.
//
//===----------------------------------------------------------------------===//

#include "tandem-runtime/tandem_launch.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;

#include "tandem/Dialect/Tandem/IR/ProgramInterface.cpp.inc"

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

unsigned tandem::detail::getNumMetrics(Block &body) {
  unsigned count = 0;
  for (auto op : body.getOps<MetricOp>())
    count = std::max<unsigned>(count, op.getIndex() + 1);
  return count;
}

bool tandem::detail::isMatrix(ArrayAttr tensorRoles, Block &body) {
  for (auto [role, type] :
       llvm::zip(tensorRoles.getAsRange<RoleAttr>(), body.getArgumentTypes())) {
    auto stored = dyn_cast<StoredType>(type);
    if (role.getPer() != Granularity::element ||
        (stored && (stored.getLogical().getRank() == 2 ||
                    needsMatrix(stored.getStorage()))))
      return true;
  }
  return false;
}

uint64_t tandem::detail::getBlockSize(Block &body) {
  for (Type type : body.getArgumentTypes())
    if (auto stored = dyn_cast<StoredType>(type))
      if (int64_t size = tandem::getBlockSize(stored.getStorage()))
        return size;
  return 0;
}

int64_t tandem::detail::getElementsPerEntry(RoleAttr role, const Plane &plane,
                                            Granularity per) {
  Granularity entries = role.getGranularity(plane);
  if (entries == Granularity::tensor)
    return Group::all;
  bool runsAlongRows =
      per == Granularity::element || per == Granularity::tensor;
  // A row of elements has one entry, or shares one with other rows.
  int64_t sharing = plane.group.columns / plane.packed;
  if (runsAlongRows)
    return entries == Granularity::row ? Group::all : sharing;
  if (entries != per)
    return 0;
  // Rows and blocks that are groups of elements have one entry each; in a
  // tensor per row or column, a group of rows or columns shares one.
  bool isOfElements = role.getPer() == Granularity::element;
  return isOfElements ? 1 : sharing;
}

/// Verifies (C7) of a kernel: its blocks have one size.
static LogicalResult verifyBlocks(ProgramOpInterface op) {
  int64_t size = op.getBlockSize();
  for (unsigned i = 0; i < op.getNumTensors(); ++i)
    for (const Plane &plane : op.getTensorType(i).getStorage().getPlanes())
      if (plane.group.isBlock() && plane.group.rows != size)
        return op->emitOpError("stores ")
               << op.getTensorRole(i).getName() << " in blocks of "
               << plane.group.rows << " rows, but another tensor in blocks of "
               << size << "; the blocks of a kernel are of one size";
  return success();
}

/// Returns whether an operation names an axis that only matrices have.
static bool hasAxis(Operation &op) {
  return llvm::TypeSwitch<Operation *, bool>(&op)
      .Case([](ReduceOp reduce) {
        return isWithinMatrix(reduce.getScope()) ||
               reduce.getPer() != Granularity::element;
      })
      .Case(
          [](PartialOp partial) { return isWithinMatrix(partial.getScope()); })
      .Case([](SizeOp size) { return size.getPer() != Granularity::element; })
      .Case([](LoadReductionResultOp) { return true; })
      .Default(false);
}

/// Verifies (C6) of a kernel: rows and columns belong to matrices.
static LogicalResult verifyMatrix(ProgramOpInterface op) {
  for (Operation &inner : op.getBodyBlock()) {
    if (hasAxis(inner) && !op.isMatrix())
      return inner.emitOpError("has rows and columns in a kernel of flat "
                               "tensors; give a tensor two dimensions");
    if (isa<MetricOp, MeasureUpdateOp>(inner) && op.isMatrix())
      return inner.emitOpError("measures a kernel of matrices, which has no "
                               "metrics; compile it without");
  }
  return success();
}

/// Verifies (C9) of a kernel: reads come before writes.
static LogicalResult verifyOrder(ProgramOpInterface op) {
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
      return inner.emitOpError("reads a tensor after it is written, but all "
                               "elements read the old values; move the read "
                               "before the write");
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

/// Verifies (C4), (C6) and (C8) of a kernel for the storage of one tensor.
static LogicalResult verifyStorage(ProgramOpInterface op, RoleAttr role,
                                   StorageAttrInterface storage) {
  ComputeAttr compute = op.getCompute();
  if (!getStoredValueType(role, storage, compute))
    return op->emitOpError("stores ") << role.getName() << " as " << storage
                                      << ", which cannot be computed under the "
                                      << stringifyPolicy(compute.getPolicy())
                                      << " policy of " << compute.getFormat();
  if (needsMatrix(storage) && role.getPer() != Granularity::element)
    return op->emitOpError("stores ")
           << role.getName() << " as " << storage
           << (hasTranspose(storage)
                   ? ", which has a matrix's transpose"
                   : ", whose scales are those of a matrix's rows or blocks")
           << "; give it an entry per element";
  if (hasTranspose(storage) && !role.isDestination())
    return op->emitOpError("stores ")
           << stringifyRoleKind(role.getKind()) << " " << role.getName()
           << " as " << storage
           << ", whose transposed copy is written for matrix products; only "
              "an output and what is saved have one";
  return success();
}

/// Verifies the first half of (C1): one stored body argument per tensor role.
static LogicalResult verifyTensors(ProgramOpInterface op) {
  Block &body = op.getBodyBlock();
  if (body.getNumArguments() < op.getNumTensors())
    return op->emitOpError("has ")
           << op.getNumTensors() << " tensor roles, but its body has only "
           << body.getNumArguments() << " arguments";
  for (auto [index, role] :
       llvm::enumerate(op.getTensorRoles().getAsRange<RoleAttr>())) {
    if (!role.isTensor())
      return op->emitOpError("tensor role expected, got ") << role;
    auto stored = dyn_cast<StoredType>(body.getArgument(index).getType());
    if (!stored)
      return op->emitOpError("body argument ")
             << index << " must be a stored tensor, got "
             << body.getArgument(index).getType();
    if (failed(verifyStorage(op, role, stored.getStorage())))
      return failure();
  }
  return success();
}

/// Verifies (C5) of a kernel: the indices of metrics.
static LogicalResult verifyMetrics(ProgramOpInterface op) {
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

/// Checks the constraints that the bodies of kernels and launches share.
static LogicalResult verifyBody(ProgramOpInterface op) {
  if (!isa<YieldOp>(op.getBodyBlock().back()))
    return op->emitOpError("its body must end with tandem.yield");
  return success(succeeded(verifyTensors(op)) && succeeded(verifyMetrics(op)) &&
                 succeeded(verifyMatrix(op)) && succeeded(verifyBlocks(op)) &&
                 succeeded(verifyOrder(op)));
}

//===----------------------------------------------------------------------===//
// Prologues
//===----------------------------------------------------------------------===//

/// Returns whether `type` fits a 32-bit slot of the scalar row.
static bool isUniformType(Type type) {
  return mcf::isComponentFormat(type) || type.isSignlessInteger(32);
}

/// Verifies (C2): one prologue argument of the right type per scalar role.
static LogicalResult verifyScalars(Operation *op, ArrayAttr roles,
                                   Block &prologue) {
  if (prologue.getNumArguments() != roles.size())
    return op->emitOpError("has ")
           << roles.size() << " scalar roles, but its prologue has "
           << prologue.getNumArguments() << " arguments";
  for (auto [role, argument] :
       llvm::zip(roles.getAsRange<RoleAttr>(), prologue.getArguments())) {
    if (role.isTensor())
      return op->emitOpError("scalar role expected, got ") << role;
    bool isHyper = role.getKind() == RoleKind::hyper;
    if (isHyper ? !argument.getType().isF64()
                : !argument.getType().isSignlessInteger(64))
      return op->emitOpError("scalar '")
             << role.getName().getValue() << "' must be "
             << (isHyper ? "f64" : "i64") << " in the prologue, got "
             << argument.getType();
  }
  return success();
}

/// Verifies (C2) and (C3).
static LogicalResult verifyPrologue(Operation *op, ArrayAttr roles,
                                    Block &prologue) {
  if (prologue.empty() || !isa<YieldOp>(prologue.back()))
    return op->emitOpError("its prologue must end with tandem.yield");
  if (failed(verifyScalars(op, roles, prologue)))
    return failure();
  for (Type type : prologue.back().getOperandTypes())
    if (!isUniformType(type))
      return op->emitOpError("a uniform value must be f32, bf16, f16, "
                             "f8E4M3FN, f8E5M2 or i32, got ")
             << type;
  return success();
}

/// Verifies the second half of (C1): the arguments after the tensors.
static LogicalResult verifyUniforms(ProgramOpInterface op) {
  if (llvm::equal(ValueRange(op.getUniforms()).getTypes(),
                  op.getPrologueBlock().back().getOperandTypes()))
    return success();
  return op->emitOpError("body arguments after the tensors must be what the "
                         "prologue yields");
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

LogicalResult KernelOp::verifyRegions() {
  return success(
      succeeded(verifyBody(*this)) &&
      succeeded(verifyPrologue(*this, getScalarRoles(), getPrologueBlock())) &&
      succeeded(verifyUniforms(*this)));
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

StepOp LaunchOp::getStep() { return cast<StepOp>((*this)->getParentOp()); }
ComputeAttr LaunchOp::getCompute() { return getStep().getCompute(); }
ArrayAttr LaunchOp::getTensorRoles() { return getStep().getTensorRoles(); }
ArrayAttr LaunchOp::getScalarRoles() { return getStep().getScalarRoles(); }
uint64_t LaunchOp::getReductions() { return getStep().getReductions(); }
Block &LaunchOp::getPrologueBlock() { return getStep().getPrologueBlock(); }

std::string LaunchOp::getFunctionName() {
  std::string name = getStep().getSymName().str();
  if (getRole() == LaunchRole::main)
    return name;
  if (getRole() == LaunchRole::epilogue)
    return (name + TDM_LAUNCH_EPILOGUE +
            (isPerTensor() ? "" : "_" + stringifyGranularity(getPer()) + "s"))
        .str();
  auto launches = getStep().getLaunchOps();
  auto number = std::distance(launches.begin(), llvm::find(launches, *this));
  return name + "_phase" + std::to_string(number);
}

/// Verifies (C3).
static LogicalResult verifyIndices(LaunchOp op) {
  auto verifyIndex = [&](Operation *inner, uint64_t index) -> LogicalResult {
    if (index < op.getReductions())
      return success();
    return inner->emitOpError("names reduction ")
           << index << " of a step with reductions(" << op.getReductions()
           << ")";
  };
  for (Operation &inner : op.getBodyBlock())
    if (failed(
            llvm::TypeSwitch<Operation *, LogicalResult>(&inner)
                .Case<PartialOp, ReductionResultOp, LoadReductionResultOp>(
                    [&](auto sum) { return verifyIndex(sum, sum.getIndex()); })
                .Default(success())))
      return failure();
  return success();
}

static StringRef describe(LaunchRole role) {
  switch (role) {
  case LaunchRole::main:
    return "a main launch";
  case LaunchRole::reduction:
    return "a reduction";
  case LaunchRole::epilogue:
    return "an epilogue";
  }
  llvm_unreachable("every role is listed");
}

/// Returns whether a launch of a role may run once for each of these units.
static bool canRunPer(LaunchRole role, Granularity per) {
  switch (role) {
  case LaunchRole::main:
    return per == Granularity::element;
  case LaunchRole::reduction:
    return per <= Granularity::column;
  case LaunchRole::epilogue:
    return isWithinMatrix(per) || per == Granularity::tensor;
  }
  llvm_unreachable("every role is listed");
}

/// Verifies (C4).
static LogicalResult verifyPer(LaunchOp op) {
  if (!canRunPer(op.getRole(), op.getPer()))
    return op.emitOpError(describe(op.getRole()))
           << " does not run per " << stringifyGranularity(op.getPer())
           << "; a main launch runs per element, a reduction per element, row "
              "or column, an epilogue per row, column, block or tensor";
  if (isWithinMatrix(op.getPer()) && !op.isMatrix())
    return op.emitOpError("runs per ")
           << stringifyGranularity(op.getPer())
           << " in a step of flat tensors; give a tensor two dimensions";
  return success();
}

/// Verifies (C5).
static LogicalResult verifyFusion(LaunchOp op) {
  if (!op.getFusedWithPrevious())
    return success();
  auto previous = dyn_cast_or_null<LaunchOp>(op->getPrevNode());
  if (previous && previous.isAlongRows() && op.isAlongRows())
    return success();
  return op.emitOpError("is fused with the launch before it, but only "
                        "launches over a matrix's elements are; leave out "
                        "'fused_with_previous'");
}

/// Verifies (C7).
static LogicalResult verifyExternals(LaunchOp op) {
  ArrayAttr names = op.getExternalsAttr();
  if (!names)
    return success();
  if (op.getRole() != LaunchRole::reduction)
    return op.emitOpError("has externals, which come after a reduction; ")
           << describe(op.getRole()) << " is followed by none";
  for (Attribute name : names)
    if (llvm::none_of(
            op.getTensorRoles().getAsRange<RoleAttr>(),
            [&](RoleAttr role) { return role.getExternal() == name; }))
      return op.emitOpError("is followed by the external step ")
             << name << ", to which no tensor of the step is sent";
  return success();
}

LogicalResult LaunchOp::verifyRegions() {
  // (C2)
  if (!isWidth(getWidth()))
    return emitOpError("width must be a power of two up to ")
           << maxWidth << ", got " << getWidth();
  return success(
      succeeded(verifyBody(*this)) && succeeded(verifyIndices(*this)) &&
      succeeded(verifyPer(*this)) && succeeded(verifyFusion(*this)) &&
      succeeded(verifyExternals(*this)));
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Returns the position of a role's launches in a step.
static unsigned getPosition(LaunchRole role) {
  return role == LaunchRole::reduction ? 0 : role == LaunchRole::main ? 1 : 2;
}

/// Verifies (C1).
static LogicalResult verifyLaunches(StepOp op) {
  unsigned last = 0, mains = 0;
  for (Operation &inner : op.getLaunches().front()) {
    auto launch = dyn_cast<LaunchOp>(inner);
    if (!launch)
      return inner.emitOpError("does not belong in a step, which holds "
                               "tandem.launch");
    unsigned position = getPosition(launch.getRole());
    if (position < last)
      return launch.emitOpError(describe(launch.getRole()))
             << " comes too late; a step has its reductions first, then the "
                "main launch, then the epilogues";
    last = position;
    mains += launch.getRole() == LaunchRole::main;
  }
  if (mains == 1)
    return success();
  return op.emitOpError("has ") << mains << " main launches; a step has one";
}

/// Verifies (C4).
static LogicalResult verifyReductions(StepOp op) {
  if (op.getReductions() > KernelOp::maxSums)
    return op.emitOpError("has reductions(")
           << int64_t(op.getReductions()) << "), and a kernel has at most "
           << KernelOp::maxSums;
  llvm::SmallDenseSet<uint64_t> known, made;
  for (LaunchOp launch : op.getLaunchOps()) {
    for (Operation &inner : launch.getBodyBlock()) {
      auto total = dyn_cast<ReductionResultOp>(inner);
      auto loaded = dyn_cast<LoadReductionResultOp>(inner);
      uint64_t read = total ? total.getIndex() : loaded ? loaded.getIndex() : 0;
      if ((total || loaded) && !known.contains(read))
        return inner.emitOpError("reads reduction ")
               << read << ", which no earlier launch makes";
      if (auto partial = dyn_cast<PartialOp>(inner))
        if (!made.insert(partial.getIndex()).second)
          return inner.emitOpError("makes reduction ")
                 << partial.getIndex() << ", as another operation does";
    }
    known.insert_range(made);
  }
  for (uint64_t i = 0; i < op.getReductions(); ++i)
    if (!made.contains(i))
      return op.emitOpError("has reductions(")
             << op.getReductions() << "), but no launch makes reduction " << i;
  return success();
}

LogicalResult StepOp::verifyRegions() {
  if (failed(verifyPrologue(*this, getScalarRoles(), getPrologueBlock())) ||
      failed(verifyLaunches(*this)))
    return failure();
  for (LaunchOp launch : getLaunchOps())
    if (failed(verifyUniforms(launch)))
      return failure();
  return verifyReductions(*this);
}
