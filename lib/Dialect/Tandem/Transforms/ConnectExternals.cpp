//===- ConnectExternals.cpp - Exchange tensors with the host --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that makes the operands of a graph's external
// steps tensors to write, and their results tensors to read.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"

namespace tandem {
#define GEN_PASS_DEF_CONNECTEXTERNALS
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
/// Connects the external steps of one graph.
class Connector {
public:
  explicit Connector(func::FuncOp function)
      : function(function),
        terminator(function.getBody().front().getTerminator()),
        builder(function.getContext()) {
    for (BlockArgument argument : function.getArguments())
      if (getRole(argument) && getRole(argument).isTensor())
        place = argument.getArgNumber() + 1;
  }

  void connect(ExternalOp op) {
    for (auto [name, input] : llvm::zip(op.getSends(), op.getInputs())) {
      addArgument(op, RoleKind::sent, cast<StringAttr>(name), input.getType());
      sent.push_back(input);
    }
    for (auto [name, output] : llvm::zip(op.getReceives(), op.getOutputs()))
      output.replaceAllUsesWith(addArgument(
          op, RoleKind::received, cast<StringAttr>(name), output.getType()));
    op.erase();
  }

  /// Returns the new values of what is sent, too.
  void finish() {
    terminator->insertOperands(terminator->getNumOperands(), sent);
    function.setType(
        builder.getFunctionType(function.getBody().front().getArgumentTypes(),
                                terminator->getOperandTypes()));
  }

private:
  /// Adds an argument after the last tensor, where it changes the random bits
  /// of no other.
  Value addArgument(ExternalOp op, RoleKind kind, StringAttr name, Type type) {
    auto role = RoleAttr::get(builder.getContext(), kind, name, Moment::none,
                              Domain::any, FloatAttr(), Granularity::element,
                              Consumer::nonlinear, Flow::activation,
                              op.getNameAttr(), op.getFormat());
    (void)function.insertArgument(
        place, type,
        builder.getDictionaryAttr(
            builder.getNamedAttr(TandemDialect::getRoleAttrName(), role)),
        op.getLoc());
    return function.getArgument(place++);
  }

  func::FuncOp function;
  Operation *terminator;
  Builder builder;
  SmallVector<Value> sent;
  unsigned place = 0;
};

struct ConnectExternalsPass
    : public tandem::impl::ConnectExternalsBase<ConnectExternalsPass> {
  void runOnOperation() override {
    auto steps = llvm::to_vector(getOperation().getOps<ExternalOp>());
    if (!steps.empty() && failed(connect(getOperation(), steps)))
      signalPassFailure();
  }

  LogicalResult connect(func::FuncOp function, ArrayRef<ExternalOp> steps) {
    if (failed(verifyGraph(function)))
      return failure();
    llvm::SmallDenseSet<StringAttr> names;
    for (ExternalOp op : steps)
      if (!names.insert(op.getNameAttr()).second)
        return op.emitOpError("has the name of another step of the graph; the "
                              "host tells them apart by their names");
    Connector connector(function);
    for (ExternalOp op : steps)
      connector.connect(op);
    connector.finish();
    numSteps += steps.size();
    return verifyGraph(function);
  }
};
} // namespace
