//===- ApplyPolicy.cpp - Compute a kernel's body under its policy ---------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that turns a kernel's real arithmetic into the
// arithmetic of its compute policy (docs/Numerics.md, policies).
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/IRMapping.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Dialect/Tandem/Transforms/Uniforms.h"

namespace tandem {
#define GEN_PASS_DEF_APPLYPOLICY
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// The f32 policy
//===----------------------------------------------------------------------===//

/// Replaces the named updates by the sums and products that they name.
static void applyF32Policy(KernelOp kernel) {
  kernel.getBodyBlock().walk([&](Operation *op) {
    OpBuilder builder(op);
    SequenceBuilder b(builder, op->getLoc());
    Value result;
    if (auto accumulate = dyn_cast<AccumulateOp>(op))
      result = b.add(accumulate.getState(), accumulate.getAddend());
    else if (auto ema = dyn_cast<EmaOp>(op))
      result = b.add(b.mul(ema.getFactor(), ema.getState()), ema.getAddend());
    else if (auto decay = dyn_cast<DecayOp>(op))
      result = b.mul(decay.getFactor(), decay.getState());
    else
      return;
    op->replaceAllUsesWith(ValueRange{result});
    op->erase();
  });
}

//===----------------------------------------------------------------------===//
// The component policy
//===----------------------------------------------------------------------===//

namespace {
/// Rebuilds a kernel's body so that every operation rounds to the component
/// format. A value is then a component, an expansion that belongs to a storage
/// (a param or state on its way to its own store), an f32 uniform, or an i1.
class ComponentPolicy {
public:
  ComponentPolicy(KernelOp kernel, Pass::Statistic &rounded,
                  Pass::Statistic &compensated)
      : kernel(kernel), format(kernel.getCompute().getFormat()),
        builder(kernel.getContext()), rounded(rounded),
        compensated(compensated) {}

  LogicalResult run();

private:
  LogicalResult convert(Operation *op);
  LogicalResult convertLoad(LoadOp op);
  LogicalResult convertStore(StoreOp op);
  LogicalResult convertVisible(VisibleOp op);
  /// Returns the type of a value that is stored in a tensor.
  Type getStored(Value tensor) {
    unsigned index = getTensorNumber(tensor);
    return getStoredValueType(kernel.getTensorRole(index),
                              kernel.getTensorType(index).getStorage(),
                              kernel.getCompute());
  }
  /// Returns a value as it is stored in a tensor, or null after a diagnostic.
  Value convertStored(Operation *op, Value value, Value tensor);
  LogicalResult convertUpdate(Operation *op, Value factor, Value addend);
  LogicalResult convertArithmetic(Operation *op);
  bool convertScalar(Operation *op);
  Value accumulate(StorageAttrInterface owner, Value whole, Value addend,
                   Location loc);

  SequenceBuilder arith(Operation *op) { return {builder, op->getLoc()}; }
  bool isUniformValue(Value value) {
    return value.getType().isF32() &&
           (isa<BlockArgument>(value) || scalars.contains(value));
  }
  /// Returns the component that is read where an expansion is not read whole.
  Value leading(Value value, Location loc);
  /// Returns a new value as a component. Uniforms are rounded, and an expansion
  /// gives its leading component.
  Value component(Value value, Location loc);
  /// Splits a uniform factor into components from f64, in the prologue.
  Value split(BlockArgument factor, unsigned length);

  KernelOp kernel;
  Type format;
  OpBuilder builder;
  IRMapping mapping;
  /// The stored tensor to which a whole value belongs.
  llvm::DenseMap<Value, Value> owners;
  llvm::DenseMap<std::pair<Value, unsigned>, Value> splits;
  /// The f32 values that are computed only from reductions and uniform values.
  llvm::DenseSet<Value> scalars;
  Pass::Statistic &rounded, &compensated;
};
} // namespace

LogicalResult ComponentPolicy::run() {
  Block &body = kernel.getBodyBlock();
  SmallVector<Operation *> old;
  for (Operation &op : body)
    old.push_back(&op);
  builder.setInsertionPoint(body.getTerminator());
  for (Operation *op : ArrayRef(old).drop_back())
    if (failed(convert(op)))
      return failure();
  for (Operation *op : llvm::reverse(ArrayRef(old).drop_back()))
    op->erase();
  return success();
}

LogicalResult ComponentPolicy::convert(Operation *op) {
  if (auto load = dyn_cast<LoadOp>(op))
    return convertLoad(load);
  if (auto store = dyn_cast<StoreOp>(op))
    return convertStore(store);
  if (auto visible = dyn_cast<VisibleOp>(op))
    return convertVisible(visible);
  if (auto accumulate = dyn_cast<AccumulateOp>(op))
    return convertUpdate(op, {}, accumulate.getAddend());
  if (auto ema = dyn_cast<EmaOp>(op))
    return convertUpdate(op, ema.getFactor(), ema.getAddend());
  if (auto decay = dyn_cast<DecayOp>(op))
    return convertUpdate(op, decay.getFactor(), {});
  if (isa<MeasureUpdateOp, SaturationOp, MetricOp, SetFlagOp>(op)) {
    builder.clone(*op, mapping);
    return success();
  }
  if (op->getNumResults() == 0)
    return op->emitError("cannot stand before -tandem-apply-policy");
  if (convertScalar(op))
    return success();
  return convertArithmetic(op);
}

/// Converts reductions, which add up in f32, and operations on values that are
/// the same for all elements, which stay f32 as hyperparameters do. Returns
/// whether this is such an operation.
bool ComponentPolicy::convertScalar(Operation *op) {
  bool isSource = isa<ReduceOp, SizeOp>(op);
  bool isScalar = isSource || llvm::all_of(op->getOperands(), [&](Value value) {
                    Value known = mapping.lookupOrDefault(value);
                    return isUniformValue(known) || scalars.contains(known);
                  });
  if (!isScalar)
    return false;
  auto reduce = dyn_cast<ReduceOp>(op);
  if (reduce && isa<FloatType>(reduce.getValue().getType())) {
    Value value =
        leading(mapping.lookupOrDefault(reduce.getValue()), op->getLoc());
    Value wide = arith(op).convert(value, builder.getF32Type());
    Value sum = ReduceOp::create(builder, op->getLoc(), reduce.getKind(), wide,
                                 reduce.getScope(), reduce.getPer());
    mapping.map(op->getResult(0), sum);
    scalars.insert(sum);
    return true;
  }
  Operation *copy = builder.clone(*op, mapping);
  scalars.insert(copy->result_begin(), copy->result_end());
  return true;
}

LogicalResult ComponentPolicy::convertLoad(LoadOp op) {
  Value whole = LoadOp::create(builder, op.getLoc(), getStored(op.getTensor()),
                               op.getTensor());
  owners[whole] = op.getTensor();
  mapping.map(op.getResult(), whole);
  return success();
}

Value ComponentPolicy::convertStored(Operation *op, Value value, Value tensor) {
  value = mapping.lookupOrDefault(value);
  Type wanted = getStored(tensor);
  if (wanted.isF32() && !format.isF32())
    return arith(op).convert(leading(value, op->getLoc()), wanted);
  if (!isa<mcf::ExpansionType>(wanted))
    value = component(value, op->getLoc());
  bool isOwn =
      !isa<mcf::ExpansionType>(wanted) || owners.lookup(value) == tensor;
  if (value.getType() == wanted && isOwn)
    return value;
  op->emitError("the new value of ")
      << kernel.getTensorRole(getTensorNumber(tensor)).getName()
      << " is not made of s + d, b * s + x and b * s with a uniform b, so "
      << cast<StoredType>(tensor.getType()).getStorage()
      << " could keep nothing; give it a plain storage";
  return {};
}

LogicalResult ComponentPolicy::convertStore(StoreOp op) {
  Value value = convertStored(op, op.getValue(), op.getTensor());
  if (!value)
    return failure();
  StoreOp::create(builder, op.getLoc(), value, op.getTensor());
  return success();
}

/// The visible number is one of the storage's floats, and f32 has all of them.
LogicalResult ComponentPolicy::convertVisible(VisibleOp op) {
  Value value = convertStored(op, op.getValue(), op.getTensor());
  if (!value)
    return failure();
  Value visible = VisibleOp::create(builder, op.getLoc(), builder.getF32Type(),
                                    value, op.getTensor());
  mapping.map(op.getResult(), visible);
  return success();
}

LogicalResult ComponentPolicy::convertUpdate(Operation *op, Value factor,
                                             Value addend) {
  Location loc = op->getLoc();
  Value whole = mapping.lookupOrDefault(op->getOperand(0));
  Value tensor = owners.lookup(whole);
  if (!tensor)
    return op->emitError(
        "updates a value that is not a param's or state's own");
  auto owner = cast<StoredType>(tensor.getType()).getStorage();
  if (isa<mcf::ExpansionType>(whole.getType()))
    ++compensated;
  if (factor) {
    auto uniform = dyn_cast<BlockArgument>(factor);
    if (!uniform)
      return op->emitError("the factor must be uniform: made only of "
                           "hyperparameters and literals");
    UniformFactor forms{
        [&] { return Value(uniform); },
        [&](unsigned length) { return split(uniform, length); }};
    whole = owner.decay(builder, loc, whole, forms);
    owners[whole] = tensor;
  }
  if (addend) {
    whole = accumulate(owner, whole, mapping.lookupOrDefault(addend), loc);
    owners[whole] = tensor;
  }
  mapping.map(op->getResult(0), whole);
  return success();
}

/// A plain sum with an f32 scalar rounds to f32 first, like any operation.
Value ComponentPolicy::accumulate(StorageAttrInterface owner, Value whole,
                                  Value addend, Location loc) {
  if (isUniformValue(addend) && whole.getType() == format) {
    SequenceBuilder b(builder, loc);
    return b.convert(b.add(b.convert(whole, builder.getF32Type()), addend),
                     format);
  }
  return owner.accumulate(builder, loc, whole, component(addend, loc));
}

/// Computes in f32 and then rounds if an operand is an f32 scalar. Otherwise it
/// computes in the component format, whose arithmetic rounds once by
/// definition.
LogicalResult ComponentPolicy::convertArithmetic(Operation *op) {
  bool hasUniform = false;
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(leading(mapping.lookupOrDefault(operand), op->getLoc()));
    hasUniform |= isUniformValue(operands.back());
  }
  SequenceBuilder b = arith(op);
  if (hasUniform)
    for (Value &operand : operands)
      if (operand.getType() == format)
        operand = b.convert(operand, b.builder.getF32Type());
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addAttributes(op->getAttrs());
  bool isFloat = op->getResult(0).getType().isF32();
  state.addTypes(isFloat && !hasUniform ? format : op->getResult(0).getType());
  Value result = builder.create(state)->getResult(0);
  if (isFloat)
    ++rounded;
  mapping.map(op->getResult(0),
              isFloat && hasUniform ? b.convert(result, format) : result);
  return success();
}

Value ComponentPolicy::leading(Value value, Location loc) {
  auto expansion = dyn_cast<mcf::ExpansionType>(value.getType());
  if (!expansion)
    return value;
  return mcf::ComponentsOp::create(builder, loc, expansion.getComponents(),
                                   value)
      .getResult(0);
}

Value ComponentPolicy::component(Value value, Location loc) {
  return SequenceBuilder(builder, loc).convert(leading(value, loc), format);
}

/// The components are b = fl(beta), db = fl(beta - b), ..., each rounded once
/// from f64, where the differences are exact.
Value ComponentPolicy::split(BlockArgument factor, unsigned length) {
  Value &known = splits[{factor, length}];
  if (known)
    return known;
  OpBuilder prologue(kernel.getPrologueBlock().getTerminator());
  SequenceBuilder b(prologue, factor.getLoc());
  Value rest = getUniformSource(kernel, factor, b);
  SmallVector<Value> components;
  for (unsigned i = 0; i < length; ++i) {
    if (i)
      rest = b.sub(rest, b.convert(components.back(), prologue.getF64Type()));
    components.push_back(b.convert(rest, format));
  }
  for (Value &component : components)
    component = addUniform(kernel, component);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&kernel.getBodyBlock());
  return known = mcf::PackOp::create(builder, factor.getLoc(),
                                     mcf::ExpansionType::get(format, length),
                                     components);
}

/// Returns whether an operation works on planes or components, as the result of
/// the component policy does.
static bool isComponentwise(Operation &op) {
  auto isComponent = [](Type type) {
    Type element = getElementTypeOrSelf(type);
    return isa<mcf::ExpansionType>(element) ||
           (mcf::isComponentFormat(element) && !element.isF32());
  };
  return isa<LoadPlaneOp, StorePlaneOp>(op) ||
         llvm::any_of(op.getOperandTypes(), isComponent) ||
         llvm::any_of(op.getResultTypes(), isComponent);
}

/// Returns whether a kernel was written with planes or components, which the
/// pass leaves unchanged. Named updates in such a kernel are an error.
static FailureOr<bool> hasComponents(KernelOp kernel) {
  Block &body = kernel.getBodyBlock();
  if (llvm::none_of(body, isComponentwise))
    return false;
  for (Operation &op : body)
    if (isa<AccumulateOp, EmaOp, DecayOp>(op))
      return op.emitError("means real numbers, but the kernel's body already "
                          "has planes or components; use mcf operations");
  return true;
}

namespace {
struct ApplyPolicyPass : public tandem::impl::ApplyPolicyBase<ApplyPolicyPass> {
  void runOnOperation() override {
    if (failed(apply(getOperation())))
      signalPassFailure();
  }

  LogicalResult apply(KernelOp kernel) {
    if (kernel.getCompute().getPolicy() == Policy::f32) {
      applyF32Policy(kernel);
      return success();
    }
    FailureOr<bool> isApplied = hasComponents(kernel);
    if (failed(isApplied) || *isApplied)
      return isApplied;
    return ComponentPolicy(kernel, numRounded, numCompensated).run();
  }
};
} // namespace
