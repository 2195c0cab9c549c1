//===- RequiredCounts.cpp - The arithmetic a kernel requires --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the counting of the rounding operations in a kernel's
// body.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "tandem/Conversion/FloatCodesToNVVM/Chip.h"
#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Target/PTX/NVVMPipeline.h"
#include "tandem/Target/PTX/PTXCheck.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;

static std::optional<RoundingFormat> getFormat(Type type) {
  if (isa<Float8E4M3FNType>(type))
    return RoundingFormat::e4m3;
  if (isa<Float8E5M2Type>(type))
    return RoundingFormat::e5m2;
  if (type.isBF16())
    return RoundingFormat::bf16;
  if (type.isF16())
    return RoundingFormat::f16;
  if (type.isF32())
    return RoundingFormat::f32;
  return type.isF64() ? std::optional(RoundingFormat::f64) : std::nullopt;
}

static std::optional<RoundingOp> getRoundingOp(Operation *op) {
  using Result = std::optional<RoundingOp>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([](arith::AddFOp) -> Result { return RoundingOp::add; })
      .Case([](arith::SubFOp) -> Result { return RoundingOp::sub; })
      .Case([](arith::MulFOp) -> Result { return RoundingOp::mul; })
      .Case([](arith::DivFOp) -> Result { return RoundingOp::div; })
      .Case([](arith::TruncFOp) -> Result { return RoundingOp::round; })
      .Case([](math::FmaOp) -> Result { return RoundingOp::fma; })
      .Case([](math::SqrtOp) -> Result { return RoundingOp::sqrt; })
      .Case([](scaled::EncodeFloatOp) -> Result { return RoundingOp::round; })
      .Case([](scaled::DecodeFloatOp) -> Result { return RoundingOp::read; })
      .Default(std::nullopt);
}

/// Returns the format of a rounding operation.
static std::optional<RoundingFormat> getRoundingFormat(Operation *op) {
  if (auto encode = dyn_cast<scaled::EncodeFloatOp>(op))
    return getFormat(encode.getFormat());
  if (auto decode = dyn_cast<scaled::DecodeFloatOp>(op))
    return getFormat(decode.getFormat());
  return getFormat(op->getResult(0).getType());
}

namespace {
/// Counts the operations of a body, separately for those that depend on the
/// element and those that do not.
class BodyCounter {
public:
  RequiredCounts count(LaunchOp kernel) {
    for (Operation &op : kernel.getBodyBlock())
      visit(op);
    result.sums = kernel.getNumMetrics();
    for (auto op : kernel.getBodyBlock().getOps<PartialOp>())
      if (op.getKind() == ReduceKind::sum)
        countSum(op);
    result.columnLevels =
        llvm::Log2_64(getMaxTileRows(kernel, maxTileRowsOfGPU));
    kernel.getStep().getPrologue().walk(
        [&](math::FmaOp) { ++result.prologueFMAs; });
    return result;
  }

private:
  void countSum(PartialOp op) {
    if (op.getScope() == Granularity::column) {
      ++result.columnSums;
      return;
    }
    ++(op.getScope() == Granularity::row ? result.rowSums : result.singleSums);
  }

  /// Returns whether an operation gives each element a different value.
  static bool isSource(Operation &op) {
    if (auto load = dyn_cast<LoadPlaneOp>(op))
      return load.getElementsPerEntry() == 1;
    if (auto total = dyn_cast<LoadReductionResultOp>(op))
      return total.differsInRow();
    return isa<RandomBitsOp>(op);
  }

  /// Returns whether an operation depends on constants only, and records its
  /// results as constants. It may be folded at any time, even by MLIR, so that
  /// its rounding need not be executed.
  bool addIfConstant(Operation &op) {
    bool isConstant = op.hasTrait<OpTrait::ConstantLike>() ||
                      (op.getNumOperands() && isPure(&op) &&
                       llvm::all_of(op.getOperands(), [&](Value operand) {
                         return constants.contains(operand);
                       }));
    if (isConstant)
      constants.insert(op.result_begin(), op.result_end());
    return isConstant;
  }

  void visit(Operation &op) {
    bool isElement =
        isSource(op) || llvm::any_of(op.getOperands(), [&](Value operand) {
          return wide.contains(operand);
        });
    // The result of a reduction is the same for all elements of a group.
    if (isElement && !isa<ReduceOp>(op))
      wide.insert(op.result_begin(), op.result_end());
    bool isConstant = addIfConstant(op);
    std::optional<RoundingOp> rounding = getRoundingOp(&op);
    if (!rounding)
      return;
    bool isOptional =
        isConstant || roundsChosenValue(op) || isEncodedBefore(op);
    RoundingCounts &counts = isOptional  ? result.optional
                             : isElement ? result.perElement
                                         : result.uniform;
    if (auto format = getRoundingFormat(&op))
      ++counts.at(*rounding, *format);
    if (isThroughF32(op))
      ++result.optional.at(RoundingOp::round, RoundingFormat::f32);
  }

  /// Returns whether an operation converts f64 to bf16. On chips without this
  /// conversion the instruction selector first rounds to odd in f32, which
  /// gives the same number.
  static bool isThroughF32(Operation &op) {
    auto truncation = dyn_cast<arith::TruncFOp>(op);
    return truncation && truncation.getIn().getType().isF64() &&
           truncation.getType().isBF16();
  }

  /// Returns whether an operation rounds the result of a selection or of
  /// copysign. The instruction selector may round before it selects or copies a
  /// sign, which gives the same number, and drops a rounding that changes
  /// nothing. This case occurs in Lion with bf16; knowing it avoids a second
  /// compilation of its PTX.
  static bool roundsChosenValue(Operation &op) {
    auto truncation = dyn_cast<arith::TruncFOp>(op);
    Operation *source =
        truncation ? truncation.getIn().getDefiningOp() : nullptr;
    return isa_and_nonnull<arith::SelectOp, math::CopySignOp>(source);
  }

  /// Returns whether an encoding of the same value has been counted. Values
  /// beyond the largest number may be handled after the conversion, so that one
  /// conversion can serve several encodings.
  bool isEncodedBefore(Operation &op) {
    auto encode = dyn_cast<scaled::EncodeFloatOp>(op);
    return encode &&
           !encoded.insert({encode.getX(), encode.getFormat()}).second;
  }

  RequiredCounts result;
  llvm::DenseSet<Value> wide, constants;
  llvm::DenseSet<std::pair<Value, Type>> encoded;
};
} // namespace

/// Lowers 8-bit floats to what the chip has: f32, and conversions if it has
/// them.
static void addFloat8Lowering(OpPassManager &manager, Chip chip) {
  addSmallFloatLowering(manager);
  ConvertFloatCodesToArithOptions expansion;
  if (chip.hasFloat8Conversions())
    expansion.formats = {"f16"};
  manager.addNestedPass<StepOp>(createConvertFloatCodesToArith(expansion));
  // MLIR's canonicalization merges the roundings of an integer to f32 and then
  // to bf16 into one.
  manager.addNestedPass<StepOp>(createSimplify());
  manager.addNestedPass<StepOp>(createCSEPass());
}

llvm::Expected<std::vector<PartRequirement>>
tandem::countRequired(ModuleOp module, llvm::StringRef chipName) {
  std::optional<Chip> chip = Chip::parse(chipName);
  if (!chip)
    return llvm::createStringError("chip '" + chipName +
                                   "' is not written like sm_90");
  OwningOpRef<ModuleOp> copy = module.clone();
  PassManager manager(module.getContext());
  addFloat8Lowering(manager, *chip);
  if (failed(manager.run(*copy)))
    return llvm::createStringError("cannot emulate the kernels' small floats");
  std::vector<PartRequirement> parts;
  for (auto step : copy->getOps<StepOp>())
    for (LaunchOp launch : step.getLaunchOps())
      parts.push_back({launch.getFunctionName(), BodyCounter().count(launch),
                       launch.getFusedWithPrevious()});
  return parts;
}
