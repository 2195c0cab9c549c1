//===- RangeAnalysisTest.cpp - Ranges against values ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file compares the claims of the range analysis about random programs
// with the values that the reference arithmetic computes: no claim may be
// false.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem/Analysis/RangeAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/InitAllDialects.h"
#include "tandem/Reference/Interpreter/Operations.h"

#include "gtest/gtest.h"

#include <cmath>
#include <map>
#include <random>

using namespace mlir;
using namespace tandem;
using reference::Format;
using reference::Lane;
using reference::SoftFloat;

namespace {
//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Makes a function of random operations on one format.
class Generator {
public:
  Generator(MLIRContext *context, Format format, unsigned seed)
      : builder(context), random(seed) {
    for (Type candidate :
         {Type(BFloat16Type::get(context)), Type(Float16Type::get(context)),
          Type(Float32Type::get(context)), Type(Float8E5M2Type::get(context)),
          Type(Float8E4M3FNType::get(context))})
      if (reference::getFormat(candidate) == format)
        type = candidate;
  }

  OwningOpRef<ModuleOp> build() {
    Location loc = builder.getUnknownLoc();
    OwningOpRef<ModuleOp> module(ModuleOp::create(loc));
    builder.setInsertionPointToEnd(module->getBody());
    auto function = func::FuncOp::create(
        builder, loc, "f",
        builder.getFunctionType(SmallVector<Type>(4, type), {}));
    Block *block = function.addEntryBlock();
    builder.setInsertionPointToEnd(block);
    values.assign(block->args_begin(), block->args_end());
    SequenceBuilder b(builder, loc);
    for (double constant : {0.0, 1.0, -2.0, 0.375, 40.0})
      values.push_back(b.real(type, constant));
    for (int i = 0; i < 24; ++i)
      addStep(b);
    func::ReturnOp::create(builder, loc);
    return module;
  }

private:
  /// Returns a value, preferring recent ones.
  Value pick() {
    size_t i = random() % values.size(), j = random() % values.size();
    return values[std::max(i, j)];
  }
  void push(Value value) { values.push_back(value); }
  Value keep(Value value) {
    push(value);
    return value;
  }

  template <typename OpTy>
  void addBinary(SequenceBuilder &b) {
    push(OpTy::create(b.builder, b.loc, pick(), pick()));
  }

  void addFastTwoSum(SequenceBuilder &b, Value x, Value y) {
    Value sum = keep(b.add(x, y));
    push(b.sub(y, b.sub(sum, x)));
  }

  void addTwoSum(SequenceBuilder &b, Value x, Value y) {
    Value sum = keep(b.add(x, y)), second = b.sub(sum, x);
    Value first = b.sub(x, b.sub(sum, second));
    push(b.add(first, b.sub(y, second)));
  }

  /// Adds Collage's Grow of the last sum and its error.
  void addGrow(SequenceBuilder &b) {
    addFastTwoSum(b, pick(), pick());
    Value y = values.back(), x = values[values.size() - 2];
    addFastTwoSum(b, x, pick());
    Value v = values.back(), u = values[values.size() - 2];
    addFastTwoSum(b, u, b.add(y, v));
  }

  /// Adds an error, made large by doubling, to its sum.
  void addLargeError(SequenceBuilder &b) {
    addFastTwoSum(b, pick(), pick());
    Value error = values.back(), sum = values[values.size() - 2];
    for (unsigned i = 0, count = random() % 8; i < count; ++i)
      error = b.add(error, error);
    addFastTwoSum(b, sum, error);
  }

  /// Adds a product of an expansion, and the errors that follow it.
  void addProduct(SequenceBuilder &b) {
    if (random() % 2)
      addTwoSum(b, pick(), pick());
    else
      addFastTwoSum(b, pick(), pick());
    Value y = values.back(), x = values[values.size() - 2], factor = pick();
    Value product = keep(b.mul(x, factor));
    Value error = keep(b.fma(x, factor, b.neg(product)));
    addFastTwoSum(b, product, b.add(b.mul(y, factor), error));
  }

  /// Splits an f32 into a number of the format and the remainder.
  void addSplit(SequenceBuilder &b) {
    if (type.isF32())
      return addClamp(b);
    Type f32 = b.builder.getF32Type();
    Value wide = b.mul(b.convert(pick(), f32), b.convert(pick(), f32));
    Value high = keep(b.convert(wide, type));
    push(b.convert(b.sub(wide, b.convert(high, f32)), type));
  }

  void addClamp(SequenceBuilder &b) {
    Value x = pick(), limit = pick();
    auto predicate =
        random() % 2 ? arith::CmpFPredicate::OLT : arith::CmpFPredicate::OGT;
    push(b.select(b.compare(predicate, x, limit), limit, x));
  }

  void addUnary(SequenceBuilder &b) {
    Value x = pick();
    switch (random() % 4) {
    case 0:
      return push(b.sqrt(x));
    case 1:
      return push(b.abs(x));
    case 2:
      return push(b.neg(x));
    default:
      return push(b.mul(x, x));
    }
  }

  void addStep(SequenceBuilder &b) {
    switch (random() % 19) {
    case 0:
      return addBinary<arith::AddFOp>(b);
    case 1:
      return addBinary<arith::SubFOp>(b);
    case 2:
      return addBinary<arith::MulFOp>(b);
    case 3:
      return addBinary<arith::DivFOp>(b);
    case 4:
      return addBinary<arith::MaximumFOp>(b);
    case 5:
      return addBinary<arith::MinimumFOp>(b);
    case 6:
      return addBinary<arith::MaxNumFOp>(b);
    case 7:
      return addBinary<arith::MinNumFOp>(b);
    case 8:
      return addFastTwoSum(b, pick(), pick());
    case 9:
      return addTwoSum(b, pick(), pick());
    case 10:
      return addGrow(b);
    case 11:
      return addProduct(b);
    case 12:
      return addClamp(b);
    case 13:
      return push(b.fma(pick(), pick(), pick()));
    case 14:
      return addSplit(b);
    case 15:
      return addLargeError(b);
    default:
      return addUnary(b);
    }
  }

  OpBuilder builder;
  std::mt19937 random;
  Type type;
  SmallVector<Value> values;
};

//===----------------------------------------------------------------------===//
// Claims
//===----------------------------------------------------------------------===//

class Checker {
public:
  explicit Checker(func::FuncOp function)
      : function(function), ranges(function) {
    for (Operation &op : function.getBody().front())
      if (auto transform = matchTransform(&op))
        if (Proof proof = ranges.prove(*transform); proof != Proof::none) {
          proved.push_back(*transform);
          ++numProofs[proof];
        }
  }

  /// Returns the number of times that each proof was found.
  const std::map<Proof, size_t> &getNumProofs() const { return numProofs; }

  void run(ArrayRef<SoftFloat> arguments) {
    lanes.clear();
    for (auto [argument, value] : llvm::zip(function.getArguments(), arguments))
      lanes[argument] = {value};
    for (Operation &op : function.getBody().front().without_terminator())
      evaluate(&op);
    for (auto &[value, lane] : lanes)
      if (isa<FloatType>(value.getType()))
        checkValue(value);
    for (const Transform &transform : proved)
      checkTransform(transform);
  }

private:
  const SoftFloat &get(Value value) {
    return std::get<SoftFloat>(lanes[value].front());
  }

  void evaluate(Operation *op) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto number = cast<FloatAttr>(constant.getValue()).getValue();
      lanes[constant] = {
          SoftFloat(*reference::getFormat(constant.getType()), number)};
      return;
    }
    SmallVector<const Lane *> operands;
    for (Value operand : op->getOperands())
      operands.push_back(&lanes[operand]);
    reference::Evaluation evaluation(op, operands);
    auto handler = reference::findHandler(op);
    ASSERT_TRUE(handler) << reference::describe(*op);
    ASSERT_FALSE(bool(handler(evaluation)));
    lanes[op->getResult(0)] = evaluation.results[0];
  }

  void checkValue(Value value) {
    const SoftFloat &seen = get(value);
    const FloatRange &range = ranges.get(value);
    if (seen.isNaN()) {
      EXPECT_TRUE(range.mayBeNaN) << reference::describe(value);
      return;
    }
    double number = seen.toDouble();
    EXPECT_LE(range.low, number) << reference::describe(value);
    EXPECT_GE(range.high, number) << reference::describe(value);
    if (!seen.isFinite())
      return;
    if (number != 0) {
      EXPECT_GE(lowestBit(number), range.quantum)
          << number << " of " << reference::describe(value);
    }
    for (const Trail &trail : range.trails)
      checkTrail(value, trail);
  }

  /// Returns the exponent of the lowest bit of a nonzero number.
  static int lowestBit(double number) {
    int exponent;
    double fraction = std::frexp(std::abs(number), &exponent);
    while (fraction != std::floor(fraction)) {
      fraction *= 2;
      --exponent;
    }
    return exponent;
  }

  void checkTrail(Value value, const Trail &trail) {
    const SoftFloat &lead = get(trail.lead);
    double small = std::abs(get(value).toDouble());
    if (!lead.isFinite() || small == 0)
      return;
    auto type = cast<FloatType>(value.getType());
    double number = lead.toDouble();
    int exponent = number == 0 ? getMinExponent(type) : std::ilogb(number);
    int unit =
        std::max(exponent, getMinExponent(type)) - int(getPrecision(type)) + 1;
    if (!trail.isUlp && number == 0)
      return;
    if (!trail.isUlp)
      unit = lowestBit(number);
    EXPECT_LE(small, std::ldexp(1.0, unit + trail.exponent))
        << reference::describe(value) << " beside "
        << reference::describe(trail.lead);
  }

  /// Checks that rounding would not change a value whose rounding is elided.
  void checkTransform(const Transform &transform) {
    llvm::APFloat exact = get(transform.result).getAPFloat();
    auto status = llvm::APFloat::opOK;
    if (!get(transform.result).isFinite())
      return;
    if (transform.kind == TransformKind::two_prod) {
      exact.changeSign();
      llvm::APFloat factor = get(transform.a).getAPFloat();
      status = factor.fusedMultiplyAdd(get(transform.b).getAPFloat(), exact,
                                       SoftFloat::kNearest);
    } else {
      status =
          exact.subtract(get(transform.a).getAPFloat(), SoftFloat::kNearest);
    }
    EXPECT_EQ(status, llvm::APFloat::opOK)
        << reference::describe(*transform.error) << " for "
        << get(transform.a).toDouble() << " and "
        << get(transform.b).toDouble();
  }

  func::FuncOp function;
  Ranges ranges;
  SmallVector<Transform> proved;
  std::map<Proof, size_t> numProofs;
  llvm::DenseMap<Value, Lane> lanes;
};

/// Draws random bits; half of the numbers are near 1.
SoftFloat drawNumber(Format format, std::mt19937 &random) {
  unsigned mantissa = reference::getPrecision(format) - 1;
  uint64_t bits = random();
  if (random() % 2) {
    uint64_t one = SoftFloat::fromDouble(format, 1.0).toBits();
    uint64_t sign = uint64_t(1) << (reference::getBitWidth(format) - 1);
    bits =
        (one + (bits % (uint64_t(4) << mantissa)) - (uint64_t(2) << mantissa)) |
        (random() % 2 ? sign : 0);
  }
  return SoftFloat::fromBits(format, bits);
}

class RangeAnalysisTest : public ::testing::TestWithParam<Format> {
protected:
  RangeAnalysisTest() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  MLIRContext context;
};
} // namespace

TEST_P(RangeAnalysisTest, claimsHoldOfRandomPrograms) {
  std::mt19937 random(1);
  std::map<Proof, size_t> numProofs;
  for (unsigned seed = 0; seed < 400; ++seed) {
    OwningOpRef<ModuleOp> module =
        Generator(&context, GetParam(), seed).build();
    Checker checker(*module->getOps<func::FuncOp>().begin());
    for (auto [proof, count] : checker.getNumProofs())
      numProofs[proof] += count;
    for (unsigned run = 0; run < 60 && !HasFailure(); ++run) {
      SmallVector<SoftFloat> arguments;
      for (unsigned i = 0; i < 4; ++i)
        arguments.push_back(drawNumber(GetParam(), random));
      checker.run(arguments);
    }
    ASSERT_FALSE(HasFailure()) << "in program " << seed;
  }
  // Programs without claims would test nothing.
  for (Proof proof :
       {Proof::order, Proof::multiple, Proof::trail, Proof::exponents})
    EXPECT_GE(numProofs[proof], 5u) << stringifyProof(proof).str();
}

INSTANTIATE_TEST_SUITE_P(Formats, RangeAnalysisTest,
                         ::testing::Values(Format::BF16, Format::F16,
                                           Format::F32, Format::F8E5M2,
                                           Format::F8E4M3FN),
                         [](const auto &info) {
                           return reference::getName(info.param).str();
                         });
