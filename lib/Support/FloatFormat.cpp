//===- FloatFormat.cpp - Parameters of float formats ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parameters of float formats.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/FloatFormat.h"
#include "mlir/IR/TypeUtilities.h"
#include <cmath>

using namespace mlir;
using namespace tandem;

static constexpr StringLiteral roundingNames[] = {"nearest", "stochastic",
                                                  "toward_zero", "dither"};

StringRef tandem::stringifyRoundingMode(RoundingMode rounding) {
  return roundingNames[unsigned(rounding)];
}

std::optional<RoundingMode> tandem::symbolizeRoundingMode(StringRef name) {
  const auto *found = llvm::find(roundingNames, name);
  if (found == std::end(roundingNames))
    return std::nullopt;
  return RoundingMode(found - roundingNames);
}

FloatFormat FloatFormat::get(Type type) {
  const llvm::fltSemantics &semantics =
      cast<FloatType>(type).getFloatSemantics();
  unsigned precision = llvm::APFloat::semanticsPrecision(semantics);
  unsigned width = llvm::APFloat::semanticsSizeInBits(semantics);
  return {width - precision, precision - 1,
          1 - llvm::APFloat::semanticsMinExponent(semantics),
          llvm::APFloat::semanticsHasInf(semantics) ? Specials::ieee
                                                    : Specials::nan};
}

double FloatFormat::decode(uint64_t magnitude) const {
  uint64_t hidden = uint64_t(1) << mantissaBits;
  uint64_t field = magnitude >> mantissaBits;
  uint64_t significand = magnitude % hidden + (field ? hidden : 0);
  int exponent = std::max<int>(field, 1) - bias - int(mantissaBits);
  return std::ldexp(double(significand), exponent);
}

Type tandem::getBitsType(Type type) {
  Type element = getElementTypeOrSelf(type);
  Type bits =
      IntegerType::get(type.getContext(), element.getIntOrFloatBitWidth());
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.clone(bits);
  return bits;
}
