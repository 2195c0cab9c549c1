//===- IntegerOperations.cpp - Operations on integers ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the interpreter's operations on integers and bits.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Reference/Interpreter/Operations.h"

using namespace mlir;
using namespace tandem::reference;

//===----------------------------------------------------------------------===//
// Wrapping arithmetic and bits
//===----------------------------------------------------------------------===//

/// Evaluates an operation that wraps around. Integer drops the bits above its
/// width.
template <typename Function>
static llvm::Error evaluateBits(Evaluation &e) {
  const Integer &a = e.getInteger(0), &b = e.getInteger(1);
  return e.give(Integer(a.width, Function()(a.bits, b.bits)));
}

namespace {
struct Maximum {
  template <typename T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};
struct Minimum {
  template <typename T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
} // namespace

template <typename Function>
static llvm::Error evaluateSigned(Evaluation &e) {
  const Integer &a = e.getInteger(0), &b = e.getInteger(1);
  return e.give(Integer(a.width, Function()(a.getSigned(), b.getSigned())));
}

template <typename Function>
static llvm::Error evaluateUnsignedDivision(Evaluation &e) {
  if (e.getInteger(1).bits == 0)
    return e.fail("divides by zero");
  return evaluateBits<Function>(e);
}

template <typename Function>
static llvm::Error evaluateSignedDivision(Evaluation &e) {
  const Integer &dividend = e.getInteger(0);
  int64_t divisor = e.getInteger(1).getSigned();
  if (divisor == 0)
    return e.fail("divides by zero");
  if (divisor == -1 && dividend.bits == uint64_t(1) << (dividend.width - 1))
    return e.fail("divides the least integer by -1, which overflows");
  return evaluateSigned<Function>(e);
}

enum class Shift { Left, Logical, Arithmetic };

template <Shift kind>
static llvm::Error evaluateShift(Evaluation &e) {
  const Integer &value = e.getInteger(0);
  uint64_t count = e.getInteger(1).bits;
  if (count >= value.width)
    return e.fail("shifts " + llvm::Twine(value.width) + " bits by " +
                  llvm::Twine(count) + ", which has no value");
  uint64_t result = kind == Shift::Left      ? value.bits << count
                    : kind == Shift::Logical ? value.bits >> count
                                             : value.getSigned() >> count;
  return e.give(Integer(value.width, result));
}

/// Evaluates the low and the high half of a product.
template <bool isSigned>
static llvm::Error evaluateExtendedProduct(Evaluation &e) {
  const Integer &a = e.getInteger(0), &b = e.getInteger(1);
  auto wide = [](const Integer &x) -> __int128 {
    return isSigned ? __int128(x.getSigned()) : __int128(x.bits);
  };
  auto product = static_cast<unsigned __int128>(wide(a)) *
                 static_cast<unsigned __int128>(wide(b));
  if (llvm::Error error = e.give(Integer(a.width, uint64_t(product))))
    return error;
  return e.give(Integer(a.width, uint64_t(product >> a.width)));
}

static llvm::Error evaluateExtendedSum(Evaluation &e) {
  const Integer &a = e.getInteger(0), &b = e.getInteger(1);
  Integer sum(a.width, a.bits + b.bits);
  if (llvm::Error error = e.give(sum))
    return error;
  return e.give(Integer(1, sum.bits < a.bits));
}

//===----------------------------------------------------------------------===//
// Comparison and selection
//===----------------------------------------------------------------------===//

static bool holds(arith::CmpIPredicate predicate, const Integer &a,
                  const Integer &b) {
  using P = arith::CmpIPredicate;
  switch (predicate) {
  case P::eq:
    return a.bits == b.bits;
  case P::ne:
    return a.bits != b.bits;
  case P::slt:
    return a.getSigned() < b.getSigned();
  case P::sle:
    return a.getSigned() <= b.getSigned();
  case P::sgt:
    return a.getSigned() > b.getSigned();
  case P::sge:
    return a.getSigned() >= b.getSigned();
  case P::ult:
    return a.bits < b.bits;
  case P::ule:
    return a.bits <= b.bits;
  case P::ugt:
    return a.bits > b.bits;
  case P::uge:
    return a.bits >= b.bits;
  }
  llvm_unreachable("every predicate is listed");
}

static llvm::Error evaluateCompare(Evaluation &e) {
  auto predicate = e.as<arith::CmpIOp>().getPredicate();
  return e.give(Integer(1, holds(predicate, e.getInteger(0), e.getInteger(1))));
}

static llvm::Error evaluateSelect(Evaluation &e) {
  return e.giveUnchanged(e.getLane(e.getInteger(0).bits ? 1 : 2));
}

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

/// Returns the width of the result's elements, which is 64 for an index.
static unsigned getResultWidth(const Evaluation &e) {
  Type type = e.getResultElement();
  return type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
}

template <bool isSigned>
static llvm::Error evaluateResize(Evaluation &e) {
  const Integer &value = e.getInteger(0);
  uint64_t bits = isSigned ? value.getSigned() : value.bits;
  return e.give(Integer(getResultWidth(e), bits));
}

/// Evaluates a bitcast. It preserves every bit, including those of a NaN.
static llvm::Error evaluateBitcast(Evaluation &e) {
  const Number &value = e.getLane(0).front();
  const auto *real = std::get_if<SoftFloat>(&value);
  uint64_t bits = real ? real->toBits() : std::get<Integer>(value).bits;
  if (std::optional<Format> format = getFormat(e.getResultElement()))
    return e.giveUnchanged(SoftFloat::fromBits(*format, bits));
  return e.give(Integer(getResultWidth(e), bits));
}

void tandem::reference::addIntegerOperations(OperationTable &table) {
  table["arith.addi"] = evaluateBits<std::plus<uint64_t>>;
  table["arith.subi"] = evaluateBits<std::minus<uint64_t>>;
  table["arith.muli"] = evaluateBits<std::multiplies<uint64_t>>;
  table["arith.andi"] = evaluateBits<std::bit_and<uint64_t>>;
  table["arith.ori"] = evaluateBits<std::bit_or<uint64_t>>;
  table["arith.xori"] = evaluateBits<std::bit_xor<uint64_t>>;
  table["arith.maxui"] = evaluateBits<Maximum>;
  table["arith.minui"] = evaluateBits<Minimum>;
  table["arith.maxsi"] = evaluateSigned<Maximum>;
  table["arith.minsi"] = evaluateSigned<Minimum>;
  table["arith.divui"] = evaluateUnsignedDivision<std::divides<uint64_t>>;
  table["arith.remui"] = evaluateUnsignedDivision<std::modulus<uint64_t>>;
  table["arith.divsi"] = evaluateSignedDivision<std::divides<int64_t>>;
  table["arith.remsi"] = evaluateSignedDivision<std::modulus<int64_t>>;
  table["arith.shli"] = evaluateShift<Shift::Left>;
  table["arith.shrui"] = evaluateShift<Shift::Logical>;
  table["arith.shrsi"] = evaluateShift<Shift::Arithmetic>;
  table["arith.mului_extended"] = evaluateExtendedProduct</*isSigned=*/false>;
  table["arith.mulsi_extended"] = evaluateExtendedProduct</*isSigned=*/true>;
  table["arith.addui_extended"] = evaluateExtendedSum;
  table["arith.cmpi"] = evaluateCompare;
  table["arith.select"] = evaluateSelect;
  table["arith.extui"] = evaluateResize</*isSigned=*/false>;
  table["arith.extsi"] = evaluateResize</*isSigned=*/true>;
  table["arith.trunci"] = evaluateResize</*isSigned=*/false>;
  table["arith.index_cast"] = evaluateResize</*isSigned=*/true>;
  table["arith.index_castui"] = evaluateResize</*isSigned=*/false>;
  table["arith.bitcast"] = evaluateBitcast;
}
