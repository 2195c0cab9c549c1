//===- RequiredCounts.cpp - The arithmetic a kernel requires --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the count of a kernel body's rounding operations.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Target/PTXCheck.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tandem;

static std::optional<RoundingFormat> getFormat(Type type) {
  if (type.isBF16())
    return RoundingFormat::bf16;
  if (type.isF16())
    return RoundingFormat::f16;
  if (type.isF32())
    return RoundingFormat::f32;
  return type.isF64() ? std::optional(RoundingFormat::f64) : std::nullopt;
}

/// The instruction selector turns a + (-b) into a - b and a - (-b) into a + b,
/// which are the same number.
static bool isNegation(Value value) {
  return value.getDefiningOp<arith::NegFOp>() != nullptr;
}

static std::optional<RoundingOp> getRoundingOp(Operation *op) {
  using Result = std::optional<RoundingOp>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([](arith::AddFOp add) -> Result {
        return isNegation(add.getLhs()) || isNegation(add.getRhs())
                   ? RoundingOp::sub
                   : RoundingOp::add;
      })
      .Case([](arith::SubFOp sub) -> Result {
        return isNegation(sub.getRhs()) ? RoundingOp::add : RoundingOp::sub;
      })
      .Case([](arith::MulFOp) -> Result { return RoundingOp::mul; })
      .Case([](arith::DivFOp) -> Result { return RoundingOp::div; })
      .Case([](arith::TruncFOp) -> Result { return RoundingOp::round; })
      .Case([](math::FmaOp) -> Result { return RoundingOp::fma; })
      .Case([](math::SqrtOp) -> Result { return RoundingOp::sqrt; })
      .Default(std::nullopt);
}

namespace {
/// Sums and differences met so far. The optimizer computes x + (-y) once where
/// there is an x - y too, which is the same number.
class SumsSeen {
public:
  /// Whether an operation is a sum or difference that was there already.
  bool repeats(Operation &op) {
    if (!isa<arith::AddFOp, arith::SubFOp>(op))
      return false;
    Value lhs = op.getOperand(0), rhs = op.getOperand(1);
    bool isDifference = isa<arith::SubFOp>(op);
    if (!isDifference && isNegation(lhs))
      std::swap(lhs, rhs);
    if (auto negation = rhs.getDefiningOp<arith::NegFOp>()) {
      rhs = negation.getOperand();
      isDifference = !isDifference;
    }
    return !seen.insert({{lhs, rhs}, isDifference}).second;
  }

private:
  llvm::DenseSet<std::pair<std::pair<Value, Value>, unsigned>> seen;
};

/// Counts a body, telling what depends on the element from what does not.
class BodyCounter {
public:
  RequiredCounts count(KernelOp kernel) {
    for (Operation &op : kernel.getBodyBlock())
      visit(op);
    result.sums = kernel.getNumMetrics();
    for (auto op : kernel.getBodyBlock().getOps<PartialOp>())
      result.singleSums += op.getKind() == ReduceKind::sum;
    kernel.getPrologue().walk([&](math::FmaOp) { ++result.prologueFMAs; });
    return result;
  }

private:
  /// Whether an operation gives each element a value of its own.
  static bool isSource(Operation &op) {
    if (auto load = dyn_cast<LoadPlaneOp>(op))
      return load.getPlaneInfo().group == 1;
    return isa<RandomBitsOp>(op);
  }

  void visit(Operation &op) {
    bool isElement =
        isSource(op) || llvm::any_of(op.getOperands(), [&](Value operand) {
          return wide.contains(operand);
        });
    // A group's elements share the result of a reduction.
    if (isElement && !isa<ReduceOp>(op))
      wide.insert(op.result_begin(), op.result_end());
    std::optional<RoundingOp> rounding = getRoundingOp(&op);
    if (!rounding)
      return;
    bool isOptional = roundsChosenValue(op) || sums.repeats(op);
    RoundingCounts &counts = isOptional  ? result.optional
                             : isElement ? result.perElement
                                         : result.uniform;
    if (auto format = getFormat(op.getResult(0).getType()))
      ++counts.at(*rounding, *format);
    if (isThroughF32(op))
      ++result.optional.at(RoundingOp::round, RoundingFormat::f32);
  }

  /// Where a chip lacks the conversion of an f64 to bf16, the instruction
  /// selector rounds to odd in f32 first, which is the same number.
  static bool isThroughF32(Operation &op) {
    auto truncation = dyn_cast<arith::TruncFOp>(op);
    return truncation && truncation.getIn().getType().isF64() &&
           truncation.getType().isBF16();
  }

  /// The instruction selector rounds before it chooses or gives a sign, which
  /// is the same number, and drops a rounding that changes nothing.
  static bool roundsChosenValue(Operation &op) {
    auto truncation = dyn_cast<arith::TruncFOp>(op);
    Operation *source =
        truncation ? truncation.getIn().getDefiningOp() : nullptr;
    return isa_and_nonnull<arith::SelectOp, arith::NegFOp, math::AbsFOp,
                           math::CopySignOp, arith::MaximumFOp,
                           arith::MinimumFOp, arith::MaxNumFOp,
                           arith::MinNumFOp>(source);
  }

  RequiredCounts result;
  llvm::DenseSet<Value> wide;
  SumsSeen sums;
};
} // namespace

/// Whether a kernel holds values of a format that GPUs do not compute in.
static bool needsEmulation(KernelOp kernel) {
  auto isSmall = [](Type type) {
    return isa<FloatType>(type) && type.getIntOrFloatBitWidth() < 16;
  };
  return kernel
      ->walk([&](Operation *op) {
        return llvm::any_of(op->getOperandTypes(), isSmall) ||
                       llvm::any_of(op->getResultTypes(), isSmall)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

llvm::Expected<RequiredCounts> mlir::tandem::countRequired(KernelOp kernel) {
  if (!needsEmulation(kernel))
    return BodyCounter().count(kernel);
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
  module->push_back(kernel->clone());
  PassManager manager(kernel.getContext());
  EmulateFloatsOptions emulation;
  emulation.formats = {"f8E4M3FN", "f8E5M2"};
  manager.addPass(createEmulateFloats(emulation));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  if (failed(manager.run(*module)))
    return llvm::createStringError("cannot emulate the small floats of '" +
                                   kernel.getSymName() + "'");
  return BodyCounter().count(*module->getOps<KernelOp>().begin());
}
