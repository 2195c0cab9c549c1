//===- SequenceBuilder.cpp - Terse arith construction ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the arithmetic builder.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace tandem;

/// Returns `shape` with its element type replaced.
static Type withElement(Type shape, Type element) {
  if (auto shaped = dyn_cast<ShapedType>(shape))
    return shaped.clone(element);
  return element;
}

Value SequenceBuilder::fma(Value a, Value b, Value c) {
  return make<math::FmaOp>(a, b, c);
}
Value SequenceBuilder::polynomial(Value x, ArrayRef<double> coefficients) {
  Value sum = real(x.getType(), coefficients.back());
  for (double coefficient : llvm::reverse(coefficients.drop_back())) {
    Value next = real(x.getType(), coefficient);
    sum = fma(sum, x, next);
  }
  return sum;
}
Value SequenceBuilder::sqrt(Value a) { return make<math::SqrtOp>(a); }
Value SequenceBuilder::abs(Value a) { return make<math::AbsFOp>(a); }

Value SequenceBuilder::convert(Value value, Type element) {
  Type from = getElementTypeOrSelf(value.getType());
  if (from == element)
    return value;
  unsigned fromWidth = from.getIntOrFloatBitWidth();
  unsigned toWidth = element.getIntOrFloatBitWidth();
  Type type = withElement(value.getType(), element);
  if (fromWidth < toWidth)
    return make<arith::ExtFOp>(type, value);
  if (fromWidth > toWidth)
    return make<arith::TruncFOp>(type, value);
  return convert(convert(value, builder.getF32Type()), element);
}

Value SequenceBuilder::bitcast(Value value, Type element) {
  if (getElementTypeOrSelf(value.getType()) == element)
    return value;
  return make<arith::BitcastOp>(withElement(value.getType(), element), value);
}

Value SequenceBuilder::resize(Value value, Type element) {
  unsigned from = getElementTypeOrSelf(value.getType()).getIntOrFloatBitWidth();
  unsigned to = element.getIntOrFloatBitWidth();
  if (from == to)
    return value;
  Type type = withElement(value.getType(), element);
  if (from < to)
    return make<arith::ExtUIOp>(type, value);
  return make<arith::TruncIOp>(type, value);
}

Value SequenceBuilder::toReal(Value integer) {
  return make<arith::SIToFPOp>(
      withElement(integer.getType(), builder.getF32Type()), integer);
}

Value SequenceBuilder::bits(Value value) {
  return bitcast(value, getElementTypeOrSelf(getBitsType(value.getType())));
}

Value SequenceBuilder::spread(Value scalar, Value shape) {
  auto type = dyn_cast<VectorType>(shape.getType());
  return type ? make<vector::BroadcastOp>(type.clone(scalar.getType()), scalar)
              : scalar;
}

Value SequenceBuilder::integer(Type type, uint64_t constant) {
  Type element = getElementTypeOrSelf(type);
  auto attr = IntegerAttr::get(
      element, llvm::APInt(element.getIntOrFloatBitWidth(), constant,
                           /*isSigned=*/false, /*implicitTrunc=*/true));
  if (auto shaped = dyn_cast<ShapedType>(type))
    return make<arith::ConstantOp>(DenseElementsAttr::get(shaped, attr));
  return make<arith::ConstantOp>(attr);
}

Value SequenceBuilder::real(Type type, double constant) {
  auto attr = FloatAttr::get(getElementTypeOrSelf(type), constant);
  if (auto shaped = dyn_cast<ShapedType>(type))
    return make<arith::ConstantOp>(DenseElementsAttr::get(shaped, attr));
  return make<arith::ConstantOp>(attr);
}

Value SequenceBuilder::zero(Type type) {
  return make<arith::ConstantOp>(builder.getZeroAttr(type));
}

Value SequenceBuilder::fromBits(Type type, uint64_t bits) {
  auto element = cast<FloatType>(getElementTypeOrSelf(type));
  llvm::APFloat value(element.getFloatSemantics(),
                      llvm::APInt(element.getWidth(), bits));
  auto attr = FloatAttr::get(element, value);
  if (auto shaped = dyn_cast<ShapedType>(type))
    return make<arith::ConstantOp>(DenseElementsAttr::get(shaped, attr));
  return make<arith::ConstantOp>(attr);
}

/// Works on integers, since LLVM treats the payload of a float NaN as
/// unspecified.
Value SequenceBuilder::canonicalBits(Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  FloatFormat format = FloatFormat::get(element);
  Value code = bits(value);
  Value magnitude = andi(code, like(code, format.magnitudeMask()));
  uint64_t largest =
      format.hasInfinity() ? format.infinity() : format.maxFinite();
  Value isNaN =
      compare(arith::CmpIPredicate::ugt, magnitude, like(code, largest));
  return select(isNaN, like(code, format.canonicalNaN()), code);
}
