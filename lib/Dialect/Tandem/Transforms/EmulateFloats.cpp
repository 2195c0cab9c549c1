//===- EmulateFloats.cpp - Compute small floats in f32 lanes --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that replaces arithmetic on small float formats
// by exact f32 arithmetic and rounding sequences.
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/IRMapping.h"
#include "tandem/Dialect/Arith/Utils/FloatEmulation.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "tandem/Dialect/Tandem/Analysis/RangeAnalysis.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>

namespace tandem {
#define GEN_PASS_DEF_EMULATEFLOATS
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// Returns whether an fma is the residual of a product. An f32 fma then gives
/// it exactly, or, if the product underflows f32, a number that rounds to the
/// same signed zero.
static bool isProductResidual(math::FmaOp op) {
  return matchTransform(op).has_value();
}

/// Returns whether e = b - z, z = s - a and s = a + b, the error of a Fast2Sum.
/// Its f32 value is a number of the small format, whichever of a and b is
/// larger: for |a| >= |b| it is the sum's error; otherwise z lies within a
/// factor of two of b, and such a difference is exact. If s or z overflows, e
/// is not a number.
static bool isSumError(Operation *op) {
  return isa<arith::SubFOp>(op) && matchTransform(op);
}

/// Returns the operations whose f32 results are proved to be numbers of their
/// format, unless they are not finite; rounding does not change these either.
static llvm::DenseSet<Operation *> findExactOperations(StepOp step) {
  SmallVector<Transform> transforms;
  step.walk([&](Operation *op) {
    if (std::optional<Transform> transform = matchTransform(op))
      transforms.push_back(*transform);
  });
  llvm::DenseSet<Operation *> exact;
  if (transforms.empty())
    return exact;
  Ranges ranges(step);
  for (const Transform &transform : transforms) {
    if (!hasLemmas(ranges.prove(transform), transform.getType()))
      continue;
    if (transform.difference)
      exact.insert(transform.difference);
    if (transform.kind == TransformKind::ordered_two_sum ||
        transform.kind == TransformKind::two_prod)
      exact.insert(transform.error);
  }
  return exact;
}

namespace {
/// Rebuilds a block with its small floats in f32 lanes.
class Emulator {
public:
  Emulator(const llvm::StringSet<> &formats, bool halfConversions,
           const llvm::DenseSet<Operation *> &exact, Pass::Statistic &roundings,
           Pass::Statistic &elided)
      : formats(formats), halfConversions(halfConversions), exact(exact),
        roundings(roundings), elided(elided) {}

  LogicalResult run(Block &block) {
    findCleanNaNs(block);
    SmallVector<Operation *> emulated;
    for (Operation &op : block)
      if (touches(&op)) {
        if (!hasLanes(&op))
          return op.emitError("'")
                 << op.getName()
                 << "' has no form in f32 lanes; lower it before "
                    "-tandem-emulate-floats";
        emulated.push_back(&op);
      }
    for (BlockArgument argument : block.getArguments())
      if (isEmulated(argument.getType())) {
        formatsOfArguments[argument] = argument.getType();
        argument.setType(Float32Type::get(argument.getContext()));
      }
    for (Operation *op : emulated)
      emulate(op);
    for (Operation *op : llvm::reverse(emulated))
      op->erase();
    return success();
  }

  /// Returns whether a rounding relies on the f32 arguments: that a NaN among
  /// them has zeros in the bits that bf16 drops.
  bool needsCleanArguments() const { return reliesOnArguments; }

private:
  bool isEmulated(Type type) const {
    if (!isa<FloatType>(type))
      return false;
    std::string name;
    llvm::raw_string_ostream(name) << type;
    return formats.contains(name);
  }
  bool touches(Operation *op) {
    return llvm::any_of(op->getOperandTypes(),
                        [&](Type type) { return isEmulated(type); }) ||
           llvm::any_of(op->getResultTypes(),
                        [&](Type type) { return isEmulated(type); });
  }
  /// Returns whether `emulate` can lower an operation.
  static bool hasLanes(Operation *op) {
    if (isa<LoadPlaneOp, StorePlaneOp, YieldOp>(op))
      return true;
    return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) &&
           op->getNumResults() == 1;
  }
  Value lane(Value value) { return mapping.lookupOrDefault(value); }
  /// Returns the type that a value had before its block's arguments became
  /// lanes.
  Type formatOf(Value value) const {
    Type format = formatsOfArguments.lookup(value);
    return format ? format : value.getType();
  }
  void findCleanNaNs(Block &block);
  bool hasCleanNaN(Operation *op) const;
  bool isExact(Operation *op);

  void emulate(Operation *op);
  Value build(SequenceBuilder &b, Operation *op);
  Value buildTruncation(SequenceBuilder &b, arith::TruncFOp op);
  Value buildFma(SequenceBuilder &b, math::FmaOp op);
  /// Builds the same operation on lanes. Its result's element type follows.
  Value buildOnLanes(SequenceBuilder &b, Operation *op);
  Value round(SequenceBuilder &b, Value lanes, Type format, bool cleanNaN);
  Value decode(SequenceBuilder &b, Value code, Type format);
  Value encode(SequenceBuilder &b, Value lanes, Type format);

  /// Returns whether the target converts the format from f32 and to it. A NaN
  /// then keeps its payload.
  bool isConverted(Type format) const {
    return halfConversions && format.isF16();
  }

  const llvm::StringSet<> &formats;
  bool halfConversions;
  const llvm::DenseSet<Operation *> &exact;
  Pass::Statistic &roundings;
  Pass::Statistic &elided;
  IRMapping mapping;
  /// Values whose NaNs have zeros in the bits that bf16 drops.
  llvm::DenseSet<Value> cleanNaNs;
  bool reliesOnArguments = false;
  llvm::DenseMap<Value, Type> formatsOfArguments;
  /// Codes that lanes were read from, and their formats.
  llvm::DenseMap<Value, std::pair<Value, Type>> codes;
};
} // namespace

/// Returns whether targets differ in how they convert a format. Conversions are
/// then operations that are lowered later.
static bool hasConversions(Type format) {
  return format.getIntOrFloatBitWidth() == 8;
}

Value Emulator::decode(SequenceBuilder &b, Value code, Type format) {
  if (isConverted(format))
    return b.convert(b.bitcast(code, format), b.builder.getF32Type());
  if (!hasConversions(format))
    return decodeLanes(b, code, FloatFormat::get(format));
  Value lanes = scaled::DecodeFloatOp::create(
      b.builder, b.loc, b.builder.getF32Type(), code, format);
  codes[lanes] = {code, format};
  return lanes;
}

Value Emulator::encode(SequenceBuilder &b, Value lanes, Type format) {
  if (isConverted(format))
    return b.bits(b.convert(lanes, format));
  if (!hasConversions(format))
    return encodeLanes(b, lanes, FloatFormat::get(format));
  auto [code, codeFormat] = codes.lookup(lanes);
  if (code && codeFormat == format)
    return code;
  return scaled::EncodeFloatOp::create(b.builder, b.loc, getBitsType(format),
                                       lanes, /*finite=*/Value(), format,
                                       /*exact=*/true);
}

Value Emulator::round(SequenceBuilder &b, Value lanes, Type format,
                      bool cleanNaN) {
  ++roundings;
  if (isConverted(format))
    return b.convert(b.convert(lanes, format), b.builder.getF32Type());
  if (!hasConversions(format))
    return roundLanes(b, lanes, FloatFormat::get(format), cleanNaN);
  Value code = scaled::EncodeFloatOp::create(
      b.builder, b.loc, getBitsType(format), lanes, /*finite=*/Value(), format,
      /*exact=*/false);
  return decode(b, code, format);
}

void Emulator::emulate(Operation *op) {
  OpBuilder builder(op);
  SequenceBuilder b(builder, op->getLoc());
  if (auto store = dyn_cast<StorePlaneOp>(op)) {
    Type format = formatOf(store.getValue());
    Value value = lane(store.getValue());
    Value code = isConverted(format) ? b.canonicalBits(b.convert(value, format))
                                     : encode(b, value, format);
    StorePlaneOp::create(builder, op->getLoc(), code, store.getTensor(),
                         store.getPlane());
    return;
  }
  if (auto yield = dyn_cast<YieldOp>(op)) {
    SmallVector<Value> values = llvm::map_to_vector(
        yield.getValues(), [&](Value value) { return lane(value); });
    YieldOp::create(builder, op->getLoc(), values);
    return;
  }
  Value result = build(b, op);
  mapping.map(op->getResult(0), result);
  if (cleanNaNs.contains(op->getResult(0)))
    cleanNaNs.insert(result);
  if (!isEmulated(op->getResult(0).getType()))
    op->getResult(0).replaceAllUsesWith(result);
}

/// Finds the values whose NaNs have zeros in the bits that bf16 drops: those in
/// lanes, arguments of f32, and the results of arithmetic on them, which
/// propagates NaNs.
void Emulator::findCleanNaNs(Block &block) {
  for (BlockArgument argument : block.getArguments())
    if (Type type = argument.getType();
        type.isF32() || (isEmulated(type) && !isConverted(type)))
      cleanNaNs.insert(argument);
  for (Operation &op : block)
    if (op.getNumResults() == 1 && hasCleanNaN(&op))
      cleanNaNs.insert(op.getResult(0));
}

bool Emulator::hasCleanNaN(Operation *op) const {
  Type type = op->getResult(0).getType();
  if (isa<arith::ExtFOp>(op))
    type = op->getOperand(0).getType();
  if (isEmulated(type))
    return !isConverted(type);
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
             arith::NegFOp, math::SqrtOp, math::AbsFOp, math::FmaOp,
             math::CopySignOp, arith::SelectOp>(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return !isa<FloatType>(operand.getType()) ||
                  cleanNaNs.contains(operand);
         });
}

Value Emulator::build(SequenceBuilder &b, Operation *op) {
  Type type = op->getResult(0).getType();
  Type f32 = b.builder.getF32Type();
  if (auto load = dyn_cast<LoadPlaneOp>(op)) {
    Value code = LoadPlaneOp::create(b.builder, b.loc, getBitsType(type),
                                     load.getTensor(), load.getPlane());
    return decode(b, code, type);
  }
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    llvm::APFloat value = cast<FloatAttr>(constant.getValue()).getValue();
    bool losesInfo = false;
    value.convert(llvm::APFloat::IEEEsingle(),
                  llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    if (value.isNaN())
      value = llvm::APFloat::getQNaN(value.getSemantics(), value.isNegative());
    return arith::ConstantOp::create(b.builder, b.loc,
                                     FloatAttr::get(f32, value));
  }
  if (auto bitcast = dyn_cast<arith::BitcastOp>(op)) {
    Type from = formatOf(bitcast.getIn());
    if (isEmulated(from))
      return encode(b, lane(bitcast.getIn()), from);
    return decode(b, bitcast.getIn(), type);
  }
  if (auto extension = dyn_cast<arith::ExtFOp>(op))
    return isEmulated(type) ? lane(extension.getIn())
                            : b.convert(lane(extension.getIn()), type);
  if (auto truncation = dyn_cast<arith::TruncFOp>(op))
    return buildTruncation(b, truncation);
  if (auto fma = dyn_cast<math::FmaOp>(op))
    return buildFma(b, fma);
  Value result = buildOnLanes(b, op);
  return isExact(op) ? result : round(b, result, type, /*cleanNaN=*/true);
}

/// Returns whether lanes hold an operation's result without a rounding.
bool Emulator::isExact(Operation *op) {
  if (!isEmulated(op->getResult(0).getType()))
    return true;
  if (exact.contains(op)) {
    ++elided;
    return true;
  }
  return isSumError(op) ||
         isa<arith::NegFOp, arith::SelectOp, math::AbsFOp, math::CopySignOp,
             arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
             arith::MinNumFOp>(op);
}

Value Emulator::buildTruncation(SequenceBuilder &b, arith::TruncFOp op) {
  Value source = op.getIn();
  Type type = op.getType();
  if (source.getType().isF64())
    return round(b, roundToOddF32(b, source), type, /*cleanNaN=*/false);
  if (isEmulated(formatOf(source)))
    return round(b, lane(source), type, !isConverted(formatOf(source)));
  // The source is f32 or a small format that the target has.
  bool isClean = !source.getType().isF32() || cleanNaNs.contains(source);
  reliesOnArguments |= isClean && type.isBF16();
  return round(b, b.convert(source, b.builder.getF32Type()), type, isClean);
}

Value Emulator::buildFma(SequenceBuilder &b, math::FmaOp op) {
  Value x = lane(op.getA()), y = lane(op.getB()), z = lane(op.getC());
  if (isExact(op))
    return b.fma(x, y, z);
  Value wide = isProductResidual(op) ? b.fma(x, y, z) : fmaToOddF32(b, x, y, z);
  return round(b, wide, op.getType(), /*cleanNaN=*/true);
}

Value Emulator::buildOnLanes(SequenceBuilder &b, Operation *op) {
  OperationState state(op->getLoc(), op->getName());
  for (Value operand : op->getOperands())
    state.addOperands(lane(operand));
  Type type = op->getResult(0).getType();
  state.addTypes(isEmulated(type) ? Type(b.builder.getF32Type()) : type);
  state.addAttributes(op->getAttrs());
  return b.builder.create(state)->getResult(0);
}

/// Replaces the NaNs of f32 uniform values by one without a payload. The NaN of
/// a hyperparameter or a literal may have one.
static void dropPayloads(StepOp step, ArrayRef<unsigned> uniforms) {
  auto yield = cast<YieldOp>(step.getPrologueBlock().getTerminator());
  OpBuilder builder(yield);
  SequenceBuilder b(builder, yield.getLoc());
  for (unsigned index : uniforms) {
    Value value = yield.getOperand(index);
    Value isNaN = b.compare(arith::CmpFPredicate::UNO, value, value);
    Value quiet = b.real(value.getType(), std::nan(""));
    yield.setOperand(index, b.select(isNaN, quiet, value));
  }
}

namespace {
struct EmulateFloatsPass
    : public tandem::impl::EmulateFloatsBase<EmulateFloatsPass> {
  using EmulateFloatsBase::EmulateFloatsBase;

  LogicalResult initialize(MLIRContext *context) override {
    for (const std::string &format : formats) {
      if (format != "bf16" && format != "f16" && format != "f8E4M3FN" &&
          format != "f8E5M2")
        return emitError(UnknownLoc::get(context), "cannot emulate '")
               << format << "'; expected bf16, f16, f8E4M3FN or f8E5M2";
      names.insert(format);
    }
    return success();
  }

  void runOnOperation() override {
    if (failed(emulate(getOperation())))
      signalPassFailure();
  }

  LogicalResult emulate(StepOp step) {
    llvm::DenseSet<Operation *> exact = findExactOperations(step);
    Operation *yield = step.getPrologueBlock().getTerminator();
    SmallVector<unsigned> plain;
    for (auto [index, type] : llvm::enumerate(yield->getOperandTypes()))
      if (type.isF32())
        plain.push_back(index);
    Emulator prologue(names, halfConversions, exact, numRoundings, numElided);
    bool needsCleanUniforms = false;
    for (LaunchOp launch : step.getLaunchOps()) {
      Emulator body(names, halfConversions, exact, numRoundings, numElided);
      if (failed(body.run(launch.getBodyBlock())))
        return failure();
      needsCleanUniforms |= body.needsCleanArguments();
    }
    if (failed(prologue.run(step.getPrologueBlock())))
      return failure();
    if (needsCleanUniforms)
      dropPayloads(step, plain);
    return success();
  }

  llvm::StringSet<> names;
};
} // namespace
