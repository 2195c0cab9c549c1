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
#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Support/Chip.h"
#include "tandem/Target/PTXCheck.h"
#include "llvm/ADT/TypeSwitch.h"
#include <map>

using namespace mlir;
using namespace mlir::tandem;

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
      .Case([](scaled::EncodeFloatOp) -> Result { return RoundingOp::round; })
      .Case([](scaled::DecodeFloatOp) -> Result { return RoundingOp::read; })
      .Default(std::nullopt);
}

/// The format of a rounding operation.
static std::optional<RoundingFormat> getRoundingFormat(Operation *op) {
  if (auto encode = dyn_cast<scaled::EncodeFloatOp>(op))
    return getFormat(encode.getFormat());
  if (auto decode = dyn_cast<scaled::DecodeFloatOp>(op))
    return getFormat(decode.getFormat());
  return getFormat(op->getResult(0).getType());
}

namespace {
/// A value but for its sign, and the sign.
struct SignedValue {
  uint64_t number = 0;
  bool isNegative = false;

  uint64_t pack() const { return number << 1 | unsigned(isNegative); }
};

/// Numbers the values of a body, the same but for their sign alike: the
/// optimizer computes once what differs in the sign alone, and x + (-y) once
/// where there is an x - y too.
class SignedValues {
public:
  /// Whether an operation computes what was there already.
  bool repeats(Operation &op) {
    if (op.getNumResults() != 1)
      return false;
    auto [value, isNew] =
        isMemoryEffectFree(&op) ? find(op) : Found{SignedValue{next++}, true};
    known[op.getResult(0)] = value;
    return !isNew;
  }

private:
  using Found = std::pair<SignedValue, bool>;

  SignedValue get(Value value) {
    auto [place, isNew] = known.try_emplace(value);
    if (isNew)
      place->second = {next++};
    return place->second;
  }

  /// The value of an operation on some operands, and whether it is new.
  Found add(Operation &op, ArrayRef<uint64_t> operands, bool isNegative) {
    auto address = [](const void *pointer) { return uint64_t(pointer); };
    // A difference is a sum.
    OperationName name =
        isa<arith::SubFOp>(op)
            ? OperationName(arith::AddFOp::getOperationName(), op.getContext())
            : op.getName();
    std::vector<uint64_t> key = {
        address(name.getAsOpaquePointer()),
        address(op.getAttrDictionary().getAsOpaquePointer()),
        address(op.getResult(0).getType().getAsOpaquePointer())};
    key.insert(key.end(), operands.begin(), operands.end());
    auto [place, isNew] = numbers.try_emplace(key, next);
    next += isNew;
    return {{place->second, isNegative}, isNew};
  }

  Found findMagnitude(Operation &op, uint64_t number) {
    if (magnitudes.contains(number))
      return {{number}, false};
    Found found = add(op, {number}, false);
    magnitudes.insert(found.first.number);
    return found;
  }

  Found find(Operation &op) {
    SmallVector<SignedValue> operands;
    for (Value operand : op.getOperands())
      operands.push_back(get(operand));
    if (isa<arith::NegFOp>(op))
      return {{operands[0].number, !operands[0].isNegative}, false};
    if (isa<math::AbsFOp>(op))
      return findMagnitude(op, operands[0].number);
    bool isNegative = false;
    if (isa<arith::SubFOp>(op))
      operands[1].isNegative ^= true;
    // The sign of a product, or a quotient, is those of both.
    if (isa<arith::MulFOp, arith::DivFOp>(op)) {
      isNegative = operands[0].isNegative != operands[1].isNegative;
      operands[0].isNegative = operands[1].isNegative = false;
    }
    if (isa<math::CopySignOp>(op)) {
      isNegative = operands[1].isNegative;
      operands[0].isNegative = operands[1].isNegative = false;
    }
    if (isa<math::FmaOp>(op)) {
      operands[0].isNegative ^= operands[1].isNegative;
      operands[1].isNegative = false;
    }
    SmallVector<uint64_t> packed;
    for (SignedValue operand : operands)
      packed.push_back(operand.pack());
    if (op.hasTrait<OpTrait::IsCommutative>() || isa<arith::SubFOp>(op))
      llvm::sort(packed);
    return add(op, packed, isNegative);
  }

  llvm::DenseMap<Value, SignedValue> known;
  std::map<std::vector<uint64_t>, uint64_t> numbers;
  llvm::DenseSet<uint64_t> magnitudes;
  uint64_t next = 0;
};

/// Finds what the instruction selector computes once behind a choice: it makes
/// x * (c ? a : b) of c ? x * a : x * b.
class MergedByChoice {
public:
  explicit MergedByChoice(Block &body) {
    for (auto select : body.getOps<arith::SelectOp>())
      merge(select.getTrueValue(), select.getFalseValue());
  }

  bool contains(Operation &op) const { return merged.contains(&op); }

private:
  void merge(Value chosen, Value other) {
    Operation *a = chosen.getDefiningOp(), *b = other.getDefiningOp();
    if (!chosen.hasOneUse() || !other.hasOneUse())
      return;
    if (isNegation(chosen) && isNegation(other))
      return merge(a->getOperand(0), b->getOperand(0));
    bool isSame = a && b && a != b && a->getName() == b->getName() &&
                  a->getNumOperands() == 2 &&
                  getRoundingOp(a) == getRoundingOp(b) && getRoundingOp(a);
    if (!isSame)
      return;
    for (unsigned i : {0, 1})
      for (unsigned j : {0, 1})
        if ((i == j || a->hasTrait<OpTrait::IsCommutative>()) &&
            a->getOperand(i) == b->getOperand(j) && merged.insert(a).second)
          merge(a->getOperand(1 - i), b->getOperand(1 - j));
  }

  llvm::DenseSet<Operation *> merged;
};

/// Counts a body, telling what depends on the element from what does not.
class BodyCounter {
public:
  explicit BodyCounter(Block &body) : merged(body) {}

  RequiredCounts count(KernelOp kernel) {
    for (Operation &op : kernel.getBodyBlock())
      visit(op);
    result.sums = kernel.getNumMetrics();
    for (auto op : kernel.getBodyBlock().getOps<PartialOp>())
      if (op.getKind() == ReduceKind::sum)
        countSum(op);
    result.columnLevels =
        llvm::Log2_64(getMaxTileRows(kernel, maxTileRowsOfGPU));
    kernel.getPrologue().walk([&](math::FmaOp) { ++result.prologueFMAs; });
    return result;
  }

private:
  void countSum(PartialOp op) {
    if (op.getScope() == Scope::column) {
      ++result.columnSums;
      return;
    }
    ++(op.getScope() == Scope::row ? result.rowSums : result.singleSums);
    result.repeatedSums += !summed.insert(op.getValue()).second;
  }

  /// Whether an operation gives each element a value of its own.
  static bool isSource(Operation &op) {
    if (auto load = dyn_cast<LoadPlaneOp>(op))
      return load.getSharing() == 1;
    if (auto total = dyn_cast<LoadTotalOp>(op))
      return total.differsInRow();
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
    bool isRepeated = values.repeats(op);
    std::optional<RoundingOp> rounding = getRoundingOp(&op);
    if (!rounding)
      return;
    bool isOptional = roundsChosenValue(op) || isRepeated ||
                      merged.contains(op) || isEncodedBefore(op);
    RoundingCounts &counts = isOptional  ? result.optional
                             : isElement ? result.perElement
                                         : result.uniform;
    if (auto format = getRoundingFormat(&op))
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
  /// is the same number, and drops a rounding that changes nothing, such as
  /// that of an 8-bit number to f16.
  static bool roundsChosenValue(Operation &op) {
    auto truncation = dyn_cast<arith::TruncFOp>(op);
    Operation *source =
        truncation ? truncation.getIn().getDefiningOp() : nullptr;
    return isa_and_nonnull<scaled::DecodeFloatOp, arith::SelectOp,
                           arith::NegFOp, math::AbsFOp, math::CopySignOp,
                           arith::MaximumFOp, arith::MinimumFOp,
                           arith::MaxNumFOp, arith::MinNumFOp>(source);
  }

  /// What lies beyond the largest number may be told apart behind the
  /// conversion: then one serves several.
  bool isEncodedBefore(Operation &op) {
    auto encode = dyn_cast<scaled::EncodeFloatOp>(op);
    return encode &&
           !encoded.insert({encode.getX(), encode.getFormat()}).second;
  }

  RequiredCounts result;
  llvm::DenseSet<Value> wide, summed;
  SignedValues values;
  MergedByChoice merged;
  llvm::DenseSet<std::pair<Value, Type>> encoded;
};
} // namespace

/// Brings 8-bit floats to what the chip has: f32, and conversions if it has
/// them.
static void addFloat8Lowering(OpPassManager &manager, Chip chip) {
  EmulateFloatsOptions emulation;
  emulation.formats = {"f8E4M3FN", "f8E5M2"};
  manager.addPass(createEmulateFloats(emulation));
  ConvertFloatCodesToArithOptions expansion;
  if (chip.hasFloat8Conversions())
    expansion.formats = {"f16"};
  manager.addPass(createConvertFloatCodesToArith(expansion));
  // MLIR's own canonicalization makes one rounding of an integer's to f32 and
  // to bf16.
  manager.addPass(createSimplify());
  manager.addPass(createCSEPass());
}

llvm::Expected<std::vector<PartRequirement>>
mlir::tandem::countRequired(ModuleOp module, llvm::StringRef chipName) {
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
  for (auto kernel : copy->getOps<KernelOp>())
    parts.push_back({kernel.getSymName().str(),
                     BodyCounter(kernel.getBodyBlock()).count(kernel),
                     bool(kernel.getContinues())});
  return parts;
}
