//===- ByteFunctions.cpp - Functions of bytes -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements scalar operations on the values of all bytes: on
// integers by their bits, on floats by the host's f32 arithmetic, which equals
// the kernel's.
//
//===----------------------------------------------------------------------===//

#include "ByteFunctions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <functional>

using namespace mlir;
using namespace tandem;

namespace {
/// The bits of operands, and the function that gives the bits of a result.
using Bits = const uint32_t *;
using Function = std::function<uint32_t(Bits)>;
} // namespace

DefaultFloatEnvironment::DefaultFloatEnvironment() {
  std::fegetenv(&saved);
  std::fesetenv(FE_DFL_ENV);
}
DefaultFloatEnvironment::~DefaultFloatEnvironment() { std::fesetenv(&saved); }

static float toFloat(uint32_t bits) { return llvm::bit_cast<float>(bits); }
static uint32_t toBits(float value) { return llvm::bit_cast<uint32_t>(value); }

static unsigned getWidth(Value value) {
  return value.getType().getIntOrFloatBitWidth();
}

/// Sign-extends an integer.
static int32_t toSigned(uint32_t bits, unsigned width) {
  return llvm::SignExtend32(bits, width);
}

/// Returns the bits of the f32 that a float's bits stand for.
static uint32_t decodeFloat(uint32_t bits, FloatFormat format) {
  uint32_t magnitude = bits & format.magnitudeMask();
  uint32_t sign = bits & format.signMask() ? 0x80000000 : 0;
  if (magnitude <= format.maxFinite())
    return sign | toBits(static_cast<float>(format.decode(magnitude)));
  bool isInfinite = format.hasInfinity() && magnitude == format.infinity();
  return isInfinite ? sign | f32Infinity : f32QuietNaN;
}

//===----------------------------------------------------------------------===//
// Functions of operations
//===----------------------------------------------------------------------===//

static Function getIntegerFunction(Operation *op) {
  unsigned width = op->getNumOperands() ? getWidth(op->getOperand(0)) : 32;
  auto asSigned = [width](auto compute) -> Function {
    return [=](Bits x) {
      return compute(toSigned(x[0], width), toSigned(x[1], width));
    };
  };
  return llvm::TypeSwitch<Operation *, Function>(op)
      .Case([](arith::AddIOp) { return [](Bits x) { return x[0] + x[1]; }; })
      .Case([](arith::SubIOp) { return [](Bits x) { return x[0] - x[1]; }; })
      .Case([](arith::MulIOp) { return [](Bits x) { return x[0] * x[1]; }; })
      .Case([](arith::AndIOp) { return [](Bits x) { return x[0] & x[1]; }; })
      .Case([](arith::OrIOp) { return [](Bits x) { return x[0] | x[1]; }; })
      .Case([](arith::XOrIOp) { return [](Bits x) { return x[0] ^ x[1]; }; })
      .Case([](arith::ShLIOp) {
        return [](Bits x) { return x[1] < 32 ? x[0] << x[1] : 0; };
      })
      .Case([](arith::ShRUIOp) {
        return [](Bits x) { return x[1] < 32 ? x[0] >> x[1] : 0; };
      })
      .Case([&](arith::ShRSIOp) {
        return asSigned([](int32_t a, int32_t n) {
          return a >> std::min<uint32_t>(n, 31);
        });
      })
      .Case([](arith::MaxUIOp) {
        return [](Bits x) { return std::max(x[0], x[1]); };
      })
      .Case([](arith::MinUIOp) {
        return [](Bits x) { return std::min(x[0], x[1]); };
      })
      .Case([&](arith::MaxSIOp) {
        return asSigned([](int32_t a, int32_t b) { return std::max(a, b); });
      })
      .Case([&](arith::MinSIOp) {
        return asSigned([](int32_t a, int32_t b) { return std::min(a, b); });
      })
      .Case<arith::ExtUIOp, arith::TruncIOp, arith::BitcastOp>(
          [](Operation *) { return [](Bits x) { return x[0]; }; })
      .Case([width](arith::ExtSIOp) {
        return [=](Bits x) {
          return static_cast<uint32_t>(toSigned(x[0], width));
        };
      })
      .Case([](arith::SelectOp) {
        return [](Bits x) { return x[0] ? x[1] : x[2]; };
      })
      .Default(Function());
}

static Function getFloatFunction(Operation *op) {
  auto unary = [](auto compute) -> Function {
    return [=](Bits x) { return toBits(compute(toFloat(x[0]))); };
  };
  auto binary = [](auto compute) -> Function {
    return
        [=](Bits x) { return toBits(compute(toFloat(x[0]), toFloat(x[1]))); };
  };
  return llvm::TypeSwitch<Operation *, Function>(op)
      .Case([&](arith::AddFOp) { return binary(std::plus<float>()); })
      .Case([&](arith::SubFOp) { return binary(std::minus<float>()); })
      .Case([&](arith::MulFOp) { return binary(std::multiplies<float>()); })
      .Case([&](arith::DivFOp) { return binary(std::divides<float>()); })
      .Case([&](math::CopySignOp) {
        return binary([](float a, float b) { return std::copysign(a, b); });
      })
      .Case([&](math::SqrtOp) {
        return unary([](float a) { return std::sqrt(a); });
      })
      .Case([&](math::AbsFOp) {
        return unary([](float a) { return std::fabs(a); });
      })
      .Case([&](arith::NegFOp) { return unary(std::negate<float>()); })
      .Case([](math::FmaOp) {
        return [](Bits x) {
          return toBits(std::fma(toFloat(x[0]), toFloat(x[1]), toFloat(x[2])));
        };
      })
      .Default(Function());
}

/// Returns the function of a comparison or conversion, by the operands' width.
static Function getMixedFunction(Operation *op) {
  unsigned width = op->getNumOperands() ? getWidth(op->getOperand(0)) : 32;
  return llvm::TypeSwitch<Operation *, Function>(op)
      .Case([width](arith::CmpIOp op) {
        return [width, predicate = op.getPredicate()](Bits x) -> uint32_t {
          return arith::applyCmpPredicate(predicate, llvm::APInt(width, x[0]),
                                          llvm::APInt(width, x[1]));
        };
      })
      .Case([](arith::CmpFOp op) {
        return [predicate = op.getPredicate()](Bits x) -> uint32_t {
          return arith::applyCmpPredicate(predicate,
                                          llvm::APFloat(toFloat(x[0])),
                                          llvm::APFloat(toFloat(x[1])));
        };
      })
      .Case([width](arith::SIToFPOp) {
        return [width](Bits x) {
          return toBits(static_cast<float>(toSigned(x[0], width)));
        };
      })
      .Case([](arith::ExtFOp) {
        return [](Bits x) {
          llvm::APFloat half(llvm::APFloat::IEEEhalf(),
                             llvm::APInt(16, x[0] & 0xFFFF));
          return toBits(half.convertToFloat());
        };
      })
      .Case([](arith::UIToFPOp) {
        return [](Bits x) { return toBits(static_cast<float>(x[0])); };
      })
      .Case([](scaled::DecodeFloatOp op) {
        return [format = FloatFormat::get(op.getFormat())](Bits x) {
          return decodeFloat(x[0], format);
        };
      })
      .Default(Function());
}

static Function getConstantFunction(Operation *op) {
  auto constant = dyn_cast<arith::ConstantOp>(op);
  if (!constant)
    return {};
  uint32_t bits = 0;
  if (auto real = dyn_cast<FloatAttr>(constant.getValue()))
    bits = real.getValue().bitcastToAPInt().getZExtValue();
  else
    bits = cast<IntegerAttr>(constant.getValue()).getValue().getZExtValue();
  return [bits](Bits) { return bits; };
}

static Function getFunction(Operation *op) {
  for (auto *find : {getIntegerFunction, getFloatFunction, getMixedFunction,
                     getConstantFunction})
    if (Function function = find(op))
      return function;
  return {};
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

bool tandem::canEvaluate(Operation *op) {
  // An f16 is only created from its bits and widened.
  bool hasHalf = isa<arith::BitcastOp, arith::ExtFOp>(op);
  auto isNarrow = [&](Type type) {
    auto integer = dyn_cast<IntegerType>(type);
    return type.isF32() || (type.isF16() && hasHalf) ||
           (integer && integer.getWidth() <= 32);
  };
  return op->getNumResults() == 1 && op->getNumOperands() <= 3 &&
         llvm::all_of(op->getOperandTypes(), isNarrow) &&
         isNarrow(op->getResult(0).getType()) && getFunction(op);
}

ByteFunction tandem::evaluate(Operation *op,
                              ArrayRef<const ByteFunction *> operands) {
  ByteFunction result;
  for (const ByteFunction *operand : operands) {
    result.hasRow |= operand->hasRow;
    result.hasColumn |= operand->hasColumn;
  }
  Function function = getFunction(op);
  unsigned width = getWidth(op->getResult(0));
  uint32_t mask = llvm::maskTrailingOnes<uint32_t>(width);
  unsigned numRows = result.hasRow ? 256 : 1;
  unsigned numColumns = result.hasColumn ? 256 : 1;
  result.values.reserve(numRows * numColumns);
  uint32_t bits[3] = {};
  for (unsigned row = 0; row < numRows; ++row)
    for (unsigned column = 0; column < numColumns; ++column) {
      for (auto [i, operand] : llvm::enumerate(operands))
        bits[i] = operand->at(row, column);
      result.values.push_back(function(bits) & mask);
    }
  return result;
}
