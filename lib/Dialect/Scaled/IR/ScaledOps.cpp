//===- ScaledOps.cpp - Operations of the scaled dialect -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the verifiers of the scaled dialect.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Scaled/IR/Scaled.h"
#include "tandem/Support/FloatFormat.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace mlir;
using namespace tandem::scaled;

bool tandem::scaled::isScaleType(Type type) {
  return isa<Float32Type, BFloat16Type, Float16Type, Float8E8M0FNUType>(type);
}

ScaleRange tandem::scaled::getScaleRange(Type type, CodeAttrInterface code) {
  double smallest = std::ldexp(1.0, -126);
  double largest = std::ldexp(1.0, 127 - std::ilogb(code.getLargest()));
  // E8M0 has the exponents of f32.
  if (isa<Float8E8M0FNUType>(type))
    return {smallest, std::min(largest, std::ldexp(1.0, 127))};
  const llvm::fltSemantics &semantics =
      cast<FloatType>(type).getFloatSemantics();
  double least = llvm::APFloat::getSmallest(semantics).convertToDouble();
  double most = llvm::APFloat::getLargest(semantics).convertToDouble();
  return {std::max(smallest, least), std::min(largest, most)};
}

/// Returns a scalar type, or vectors of it if `like` is a vector.
static Type withShapeOf(Type like, Type element) {
  auto vector = dyn_cast<VectorType>(like);
  return vector ? vector.clone(element) : element;
}

LogicalResult ScaleOp::verify() {
  // (C1)
  if (isa<Float8E8M0FNUType>(getType()) && getRecipe() == Recipe::current)
    return emitOpError("an f8E8M0FNU scale is a power of two; use the recipe "
                       "pow2 or mx_floor");
  // (C2)
  if (getRecipe() == Recipe::given)
    return emitOpError(
        "makes a scale, but one by 'given' is there already; use "
        "scaled.given_scale");
  // (C3)
  if (getMargin() > maxMargin)
    return emitOpError("the margin is 0 to ")
           << maxMargin << ", got " << int64_t(getMargin());
  return success();
}

LogicalResult ExponentOp::verify() {
  // (C1)
  if (getCode().getRange())
    return success();
  return emitOpError() << getCode() << " has no range to fill";
}

/// Verifies (C2) of quantize and dequantize.
static LogicalResult verifyExponent(Operation *op, CodeAttrInterface code,
                                    Value exponent) {
  if (bool(exponent) == code.getRange().has_value())
    return success();
  return op->emitOpError() << code
                           << (exponent ? " takes no exponent"
                                        : " needs the group's exponent");
}

/// Verifies (C3) of quantize.
static LogicalResult verifyRandomBits(QuantizeOp op) {
  Value random = op.getRandom();
  if (bool(random) != tandem::drawsBits(op.getCode().getRounding()))
    return op.emitOpError()
           << op.getCode()
           << (random ? " draws no random bits" : " needs random bits");
  if (!random ||
      succeeded(verifyCompatibleShape(random.getType(), op.getX().getType())))
    return success();
  return op.emitOpError() << "the random bits of " << op.getX().getType()
                          << " have its shape, got " << random.getType();
}

/// Verifies that there is one code of the plane's type for each plane, in the
/// shape of the value.
static LogicalResult verifyCodes(Operation *op, CodeAttrInterface code,
                                 TypeRange types, Type value) {
  SmallVector<CodePlane> planes = code.getPlanes();
  if (types.size() != planes.size())
    return op->emitOpError() << code << " has " << planes.size()
                             << " codes a value, got " << types.size();
  for (auto [type, plane] : llvm::zip(types, planes))
    if (Type wanted = withShapeOf(value, plane.elementType); type != wanted)
      return op->emitOpError()
             << "a code of " << code << " is " << wanted << ", got " << type;
  return success();
}

// These verify (C1) of both.
LogicalResult QuantizeOp::verify() {
  if (failed(verifyCodes(*this, getCode(), getCodes().getTypes(),
                         getX().getType())))
    return failure();
  if (failed(verifyExponent(*this, getCode(), getExponent())))
    return failure();
  return verifyRandomBits(*this);
}
LogicalResult DequantizeOp::verify() {
  if (failed(verifyCodes(*this, getCode(), getCodes().getTypes(), getType())))
    return failure();
  return verifyExponent(*this, getCode(), getExponent());
}

/// Verifies (C1) and (C2) of encode_float and decode_float.
static LogicalResult verifyFloatCode(Operation *op, Type format, Type code) {
  if (!isa<Float8E4M3FNType, Float8E5M2Type, Float16Type>(format))
    return op->emitOpError()
           << "a float code is f8E4M3FN, f8E5M2 or f16, got " << format;
  unsigned width = getElementTypeOrSelf(code).getIntOrFloatBitWidth();
  if (width == format.getIntOrFloatBitWidth())
    return success();
  return op->emitOpError() << "a code of " << format << " has "
                           << format.getIntOrFloatBitWidth() << " bits, got "
                           << code;
}

LogicalResult EncodeFloatOp::verify() {
  // (C3)
  if (getExact() && getFinite())
    return emitOpError("an exact code does not saturate; drop 'exact' or "
                       "'where'");
  return verifyFloatCode(*this, getFormat(), getCode().getType());
}
LogicalResult DecodeFloatOp::verify() {
  return verifyFloatCode(*this, getFormat(), getCode().getType());
}

#define GET_OP_CLASSES
#include "tandem/Dialect/Scaled/IR/ScaledOps.cpp.inc"
