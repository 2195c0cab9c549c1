//===- AddWeightOperand.cpp - Write what the next forward pass reads ------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that makes operands of matrix products, made
// from a graph's new params, further outputs of the graph.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"

namespace tandem {
#define GEN_PASS_DEF_ADDWEIGHTOPERAND
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

static RoleAttr getOperandRole(MLIRContext *context, StringRef name) {
  return RoleAttr::get(
      context, RoleKind::output, StringAttr::get(context, name), Moment::none,
      Domain::any, FloatAttr(), Granularity::element, Consumer::linear,
      Flow::activation, StringAttr(), Type());
}

/// Adds an operand for each param, and returns their number.
static unsigned addOperands(func::FuncOp function) {
  OpBuilder builder(function.getBody().front().getTerminator());
  auto params = getNewParams(function);
  SmallVector<Value> results;
  for (auto [param, value] : params) {
    StringRef own = getRole(param).getName();
    std::string name =
        params.size() == 1 ? "operand" : ("operand_" + own).str();
    addTensor(function, param.getType(),
              getOperandRole(function.getContext(), name));
    results.push_back(VisibleOp::create(builder, function.getLoc(),
                                        param.getType(), value, param));
  }
  addResults(function, results);
  return params.size();
}

namespace {
struct AddWeightOperandPass
    : public tandem::impl::AddWeightOperandBase<AddWeightOperandPass> {
  void runOnOperation() override {
    if (isGraph(getOperation()) && failed(add(getOperation())))
      signalPassFailure();
  }

  LogicalResult add(func::FuncOp function) {
    if (failed(verifyGraph(function)))
      return failure();
    unsigned count = addOperands(function);
    numOperands += count;
    if (count)
      return verifyGraph(function);
    return function.emitError("graph '")
           << function.getSymName()
           << "' has no param, so that there is no weight to write as an "
              "operand; leave the weight operand out";
  }
};
} // namespace
