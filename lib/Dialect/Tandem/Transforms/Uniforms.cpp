//===- Uniforms.cpp - Uniform values of a kernel --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the passes' access to uniform values.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem/Transforms/Uniforms.h"

using namespace mlir;
using namespace tandem;

Value tandem::getUniformSource(KernelOp kernel, Value uniform,
                               SequenceBuilder &b) {
  unsigned index =
      cast<BlockArgument>(uniform).getArgNumber() - kernel.getNumTensors();
  Value yielded = kernel.getPrologueBlock().getTerminator()->getOperand(index);
  if (auto rounding = yielded.getDefiningOp<arith::TruncFOp>())
    return rounding.getIn();
  return b.convert(yielded, b.builder.getF64Type());
}

Value tandem::addUniform(KernelOp kernel, Value value) {
  auto yield = cast<YieldOp>(kernel.getPrologueBlock().getTerminator());
  yield.getValuesMutable().append(value);
  return kernel.getBodyBlock().addArgument(value.getType(), value.getLoc());
}
