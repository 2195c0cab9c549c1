//===- LowerStorage.cpp - Spell out decoding and encoding -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that lowers loads and stores of values to loads
// and stores of planes.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Dialect/Tandem/Transforms/Uniforms.h"

namespace tandem {
#define GEN_PASS_DEF_LOWERSTORAGE
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
/// Adds the inputs of a kernel's rounding by bits: the seed and the step as
/// uniform 32-bit values.
class RandomState {
public:
  explicit RandomState(KernelOp kernel) : kernel(kernel) {}

  /// Builds the bits of this element for a store to `tensor`.
  FailureOr<Value> draw(OpBuilder &builder, Location loc, Value tensor,
                        RoundingMode rounding) {
    if (!step && failed(initialize()))
      return failure();
    return Value(RandomBitsOp::create(builder, loc, builder.getI32Type(),
                                      tensor, seedLow, seedHigh, step,
                                      rounding == RoundingMode::dither));
  }

private:
  /// Returns the prologue's argument of a role, if the kernel has it.
  Value findScalar(RoleKind kind) {
    for (auto [index, role] :
         llvm::enumerate(kernel.getScalarRoles().getAsRange<RoleAttr>()))
      if (role.getKind() == kind)
        return kernel.getPrologueBlock().getArgument(index);
    return {};
  }

  /// Appends an i64 scalar argument of a role.
  Value addScalar(RoleKind kind, StringRef name) {
    MLIRContext *context = kernel.getContext();
    SmallVector<Attribute> roles(kernel.getScalarRoles().getValue());
    roles.push_back(RoleAttr::get(context, kind, StringAttr::get(context, name),
                                  Moment::none, Domain::any, FloatAttr(),
                                  Granularity::element, Consumer::nonlinear,
                                  Flow::activation, StringAttr(), Type()));
    kernel.setScalarRolesAttr(ArrayAttr::get(context, roles));
    return kernel.getPrologueBlock().addArgument(IntegerType::get(context, 64),
                                                 kernel.getLoc());
  }

  /// Yields the low 32 bits of `wide >> shift` to the body.
  Value yieldBits(Value wide, unsigned shift) {
    OpBuilder builder(kernel.getPrologueBlock().getTerminator());
    SequenceBuilder b(builder, kernel.getLoc());
    Value word = shift ? b.shr(wide, shift) : wide;
    return addUniform(kernel, b.resize(word, builder.getI32Type()));
  }

  LogicalResult initialize() {
    Value time = findScalar(RoleKind::step);
    if (!time)
      time = addScalar(RoleKind::step, "step");
    Value seed = findScalar(RoleKind::seed);
    if (!seed)
      seed = addScalar(RoleKind::seed, "seed");
    seedLow = yieldBits(seed, 0);
    seedHigh = yieldBits(seed, 32);
    step = yieldBits(time, 0);
    return success();
  }

  KernelOp kernel;
  Value seedLow, seedHigh, step;
};

struct LowerStoragePass
    : public tandem::impl::LowerStorageBase<LowerStoragePass> {
  void runOnOperation() override {
    // The same pass runs on one kernel after the other.
    loaded.clear();
    stored.clear();
    encoded.clear();
    measured.clear();
    if (failed(lower(getOperation())))
      signalPassFailure();
  }

  LogicalResult lower(KernelOp kernel) {
    RandomState random(kernel);
    for (Operation &op :
         llvm::make_early_inc_range(kernel.getBodyBlock().getOperations())) {
      if (auto load = dyn_cast<LoadOp>(op))
        lowerLoad(load);
      else if (auto store = dyn_cast<StorePlaneOp>(op))
        makeCanonical(store);
      else if (auto visible = dyn_cast<VisibleOp>(op)) {
        if (failed(lowerVisible(visible, random)))
          return failure();
      } else if (auto store = dyn_cast<StoreOp>(op))
        if (failed(lowerStore(store, random)))
          return failure();
    }
    for (auto op : llvm::make_early_inc_range(
             kernel.getBodyBlock().getOps<MeasureUpdateOp>()))
      if (failed(lowerMeasureUpdate(op)))
        return failure();
    for (auto op : llvm::make_early_inc_range(
             kernel.getBodyBlock().getOps<SaturationOp>()))
      if (failed(lowerSaturation(op)))
        return failure();
    createMetrics(kernel);
    return success();
  }

  void lowerLoad(LoadOp op) {
    OpBuilder builder(op);
    StorageAttrInterface storage = op.getTensor().getType().getStorage();
    SmallVector<Value> planes;
    for (auto [index, plane] : llvm::enumerate(storage.getPlanes())) {
      planes.push_back(Value());
      if (!plane.isRead)
        continue;
      ++numLoads;
      Type type =
          plane.isRaw ? getBitsType(plane.elementType) : plane.elementType;
      planes.back() = LoadPlaneOp::create(builder, op.getLoc(), type,
                                          op.getTensor(), index);
    }
    op.replaceAllUsesWith(
        storage.decode(builder, op.getLoc(), planes, op.getType()));
    loaded[op.getTensor()] = std::move(planes);
    op.erase();
  }

  /// Makes the NaNs of a store canonical, as all NaNs that leave a kernel are.
  void makeCanonical(StorePlaneOp op) {
    if (!isa<FloatType>(op.getValue().getType()))
      return;
    OpBuilder builder(op);
    SequenceBuilder b(builder, op.getLoc());
    op.getValueMutable().assign(b.canonicalBits(op.getValue()));
  }

  /// Returns whether a positive value must not become zero, as in a second
  /// moment. Under the component policy arithmetic itself may round to zero,
  /// and nothing is left for a store to see.
  static bool hasFloor(Operation *op, Value tensor) {
    auto kernel = op->getParentOfType<KernelOp>();
    unsigned number = getTensorNumber(tensor);
    RoleAttr role = kernel.getTensorRole(number);
    return role.getMoment() == Moment::second &&
           role.getDomain() == Domain::nonneg &&
           kernel.getCompute().getPolicy() == Policy::f32;
  }

  /// Builds the codes of a tensor's new value. A store and what is visible
  /// after it share them.
  FailureOr<SmallVector<Value>> encode(Operation *op, Value value, Value tensor,
                                       RandomState &random) {
    auto known = encoded.find({tensor, value});
    if (known != encoded.end())
      return known->second;
    OpBuilder builder(op);
    StorageAttrInterface storage =
        cast<StoredType>(tensor.getType()).getStorage();
    Value bits;
    if (drawsBits(storage.getRounding())) {
      auto drawn =
          random.draw(builder, op->getLoc(), tensor, storage.getRounding());
      if (failed(drawn))
        return failure();
      bits = *drawn;
    }
    EncodeInputs inputs{bits, loadPersistent(builder, op->getLoc(), tensor),
                        hasFloor(op, tensor)};
    return encoded[{tensor, value}] =
               storage.encode(builder, op->getLoc(), value, inputs);
  }

  LogicalResult lowerStore(StoreOp op, RandomState &random) {
    auto codes = encode(op, op.getValue(), op.getTensor(), random);
    if (failed(codes))
      return failure();
    OpBuilder builder(op);
    StorageAttrInterface storage = op.getTensor().getType().getStorage();
    for (auto [index, plane] : llvm::enumerate(storage.getPlanes())) {
      if (!plane.isWritten)
        continue;
      ++numStores;
      if (plane.history)
        PushHistoryOp::create(builder, op.getLoc(), (*codes)[index],
                              op.getTensor(), index);
      else
        StorePlaneOp::create(builder, op.getLoc(), (*codes)[index],
                             op.getTensor(), index);
    }
    stored[op.getTensor()] = std::move(*codes);
    op.erase();
    return success();
  }

  LogicalResult lowerVisible(VisibleOp op, RandomState &random) {
    auto codes = encode(op, op.getValue(), op.getTensor(), random);
    if (failed(codes))
      return failure();
    OpBuilder builder(op);
    SequenceBuilder b(builder, op.getLoc());
    auto storage = cast<StoredType>(op.getTensor().getType()).getStorage();
    unsigned plane = *storage.getVisiblePlane();
    Value visible =
        b.bitcast((*codes)[plane], storage.getPlanes()[plane].elementType);
    op.replaceAllUsesWith(b.convert(visible, builder.getF32Type()));
    op.erase();
    return success();
  }

  /// Loads the values that earlier steps have stored for the encoding.
  SmallVector<Value> loadPersistent(OpBuilder &builder, Location loc,
                                    Value tensor) {
    SmallVector<Value> entries;
    StorageAttrInterface storage =
        cast<StoredType>(tensor.getType()).getStorage();
    for (auto [index, plane] : llvm::enumerate(storage.getPlanes())) {
      entries.push_back(Value());
      if (!plane.isPersistent)
        continue;
      ++numLoads;
      if (plane.history)
        entries.back() = LoadHistoryOp::create(builder, loc, tensor, index);
      else
        entries.back() = LoadPlaneOp::create(
            builder, loc, getBitsType(plane.elementType), tensor, index);
    }
    return entries;
  }

  /// Builds the change of the stored value, the sum of its parts' differences.
  Value buildChange(SequenceBuilder &b, Value tensor) {
    auto storage = cast<StoredType>(tensor.getType()).getStorage();
    SmallVector<Value> planes;
    // A plane that no step writes, such as a given scale, keeps its value.
    for (auto [code, before, plane] :
         llvm::zip(stored[tensor], loaded[tensor], storage.getPlanes()))
      planes.push_back(code ? b.bitcast(code, plane.elementType) : before);
    SmallVector<Value> before =
        storage.getParts(b.builder, b.loc, loaded[tensor]);
    SmallVector<Value> after = storage.getParts(b.builder, b.loc, planes);
    Value change;
    for (auto [from, to] : llvm::zip(before, after)) {
      Value difference = b.sub(to, from);
      change = change ? b.add(change, difference) : difference;
    }
    return change;
  }

  LogicalResult lowerMeasureUpdate(MeasureUpdateOp op) {
    if (!loaded.contains(op.getTensor()) || !stored.contains(op.getTensor()))
      return op.emitOpError("measures the change between a tandem.load and a "
                            "tandem.store of its tensor, which has not both");
    OpBuilder builder(op);
    SequenceBuilder b(builder, op.getLoc());
    Value intended = op.getIntended();
    Value change = buildChange(b, op.getTensor());
    Value zero = b.real(intended.getType(), 0.0);
    Value one = b.real(intended.getType(), 1.0);
    Value isAsked = b.compare(arith::CmpFPredicate::UNE, intended, zero);
    Value isLost = b.compare(arith::CmpFPredicate::OEQ, change, zero);
    Value values[] = {b.mul(intended, change), b.mul(intended, intended),
                      b.select(b.andi(isAsked, isLost), one, zero),
                      b.select(isAsked, one, zero)};
    measured.resize(std::size(values));
    for (auto [sum, value] : llvm::zip(measured, values))
      sum = sum ? b.add(sum, value) : value;
    op.erase();
    return success();
  }

  LogicalResult lowerSaturation(SaturationOp op) {
    auto found = stored.find(op.getTensor());
    if (found == stored.end())
      return op.emitOpError("counts what a store before it has made, but there "
                            "is no tandem.store to its tensor");
    OpBuilder builder(op);
    SequenceBuilder b(builder, op.getLoc());
    Value isSaturated = op.getTensor().getType().getStorage().isSaturated(
        builder, op.getLoc(), found->second);
    Type f64 = builder.getF64Type();
    measured.push_back(
        b.select(isSaturated, b.real(f64, 1.0), b.real(f64, 0.0)));
    op.erase();
    return success();
  }

  /// Creates the metrics, each for all params of an element.
  void createMetrics(KernelOp kernel) {
    OpBuilder builder(kernel.getBodyBlock().getTerminator());
    for (auto [index, value] : llvm::enumerate(measured))
      MetricOp::create(builder, kernel.getLoc(), value, index);
  }

  /// The values of a tensor's planes when it was loaded, and their codes when
  /// it was stored.
  llvm::DenseMap<Value, SmallVector<Value>> loaded, stored;
  /// The codes of new values, by tensor and value.
  llvm::DenseMap<std::pair<Value, Value>, SmallVector<Value>> encoded;
  /// The values that an element adds to each metric.
  SmallVector<Value> measured;
};
} // namespace
