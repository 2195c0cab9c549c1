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
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace mlir::tandem;

FloatFormat FloatFormat::get(Type type) {
  const llvm::fltSemantics &semantics =
      cast<FloatType>(type).getFloatSemantics();
  unsigned precision = llvm::APFloat::semanticsPrecision(semantics);
  unsigned width = llvm::APFloat::semanticsSizeInBits(semantics);
  return {width - precision, precision - 1,
          1 - llvm::APFloat::semanticsMinExponent(semantics),
          llvm::APFloat::semanticsHasInf(semantics)};
}

Type mlir::tandem::getBitsType(Type type) {
  Type element = getElementTypeOrSelf(type);
  Type bits =
      IntegerType::get(type.getContext(), element.getIntOrFloatBitWidth());
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.clone(bits);
  return bits;
}
