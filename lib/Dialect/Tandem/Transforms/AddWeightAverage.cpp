//===- AddWeightAverage.cpp - Average the weights of a graph --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that makes the averages of a graph's params
// over steps further states of the graph.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"

namespace tandem {
#define GEN_PASS_DEF_ADDWEIGHTAVERAGE
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {

/// Adds the averages of one graph.
class AverageBuilder {
public:
  explicit AverageBuilder(func::FuncOp function)
      : function(function),
        builder(function.getBody().front().getTerminator()) {}

  /// Adds an average for each param, and returns their number.
  unsigned run() {
    auto params = getNewParams(function);
    SmallVector<BlockArgument> averages;
    for (auto [param, value] : params) {
      StringRef name = getRole(param).getName();
      std::string state = params.size() == 1 ? "ema" : ("ema_" + name).str();
      averages.push_back(addTensor(
          function, param.getType(),
          getRoleFor(RoleKind::state, state, Moment::average, Domain::any)));
    }
    if (!params.empty())
      buildRate();
    SmallVector<Value> results;
    for (auto [pair, average] : llvm::zip(params, averages))
      results.push_back(buildAverage(average, pair.second));
    addResults(function, results);
    return params.size();
  }

private:
  RoleAttr getRoleFor(RoleKind kind, StringRef name, Moment moment,
                      Domain domain, FloatAttr defaultValue = {}) {
    return RoleAttr::get(
        function.getContext(), kind, builder.getStringAttr(name), moment,
        domain, defaultValue, Granularity::element, Consumer::nonlinear,
        Flow::activation, StringAttr(), Type());
  }

  Value getStep() {
    for (BlockArgument argument : function.getArguments())
      if (getRole(argument).getKind() == RoleKind::step)
        return argument;
    return addScalar(
        function, builder.getI64Type(),
        getRoleFor(RoleKind::step, "step", Moment::none, Domain::any));
  }

  /// Builds the share of the newest weights in an average of `step` of them, of
  /// which each counts `ema_decay` times as much as the next:
  /// (1 - ema_decay) / (1 - ema_decay^step), which is 1 in the first step.
  void buildRate() {
    Location loc = function.getLoc();
    Value step = getStep();
    Value decay =
        addScalar(function, builder.getF64Type(),
                  getRoleFor(RoleKind::hyper, "ema_decay", Moment::none,
                             Domain::unit, builder.getF64FloatAttr(0.999)));
    Value one =
        arith::ConstantOp::create(builder, loc, builder.getF64FloatAttr(1.0));
    Value newest = arith::SubFOp::create(builder, loc, one, decay);
    Value before = math::FPowIOp::create(builder, loc, decay, step);
    Value all = arith::SubFOp::create(builder, loc, one, before);
    Value share = arith::DivFOp::create(builder, loc, newest, all);
    rate = arith::TruncFOp::create(builder, loc, builder.getF32Type(), share);
  }

  /// Builds the new value of an average of `param`.
  Value buildAverage(Value average, Value param) {
    auto type = cast<RankedTensorType>(average.getType());
    AffineMap identity = builder.getMultiDimIdentityMap(type.getRank());
    SmallVector<utils::IteratorType> iterators(type.getRank(),
                                               utils::IteratorType::parallel);
    auto body = [this](OpBuilder &b, Location loc, ValueRange elements) {
      Value value = elements[0], old = elements[1];
      Value difference = arith::SubFOp::create(b, loc, value, old);
      Value change = arith::MulFOp::create(b, loc, rate, difference);
      Value sum = arith::AddFOp::create(b, loc, old, change);
      linalg::YieldOp::create(b, loc, sum);
    };
    auto loop = linalg::GenericOp::create(
        builder, function.getLoc(), TypeRange{type}, ValueRange{param},
        ValueRange{average}, {identity, identity}, iterators, body);
    return loop.getResult(0);
  }

  func::FuncOp function;
  OpBuilder builder;
  Value rate;
};

struct AddWeightAveragePass
    : public tandem::impl::AddWeightAverageBase<AddWeightAveragePass> {
  void runOnOperation() override {
    if (isGraph(getOperation()) && failed(add(getOperation())))
      signalPassFailure();
  }

  LogicalResult add(func::FuncOp function) {
    if (failed(verifyGraph(function)))
      return failure();
    unsigned count = AverageBuilder(function).run();
    numAverages += count;
    if (count)
      return verifyGraph(function);
    return function.emitError("graph '")
           << function.getSymName()
           << "' has no param, so that there are no weights to average; leave "
              "the weight average out";
  }
};

} // namespace
