//===- ApplyStrategy.cpp - Give graph arguments their storage -------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that applies a strategy to the boundaries of
// graphs.
//
//===----------------------------------------------------------------------===//

#include "mlir/Parser/Parser.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Support/Library.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_APPLYSTRATEGY
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

/// Planes with an entry for each element; scales have one for each group.
static unsigned countElementPlanes(StorageAttrInterface storage) {
  return llvm::count_if(storage.getPlanes(), [](const Plane &plane) {
    return plane.group == Group();
  });
}

/// The storage a strategy gives a role, or a diagnostic.
static FailureOr<StorageAttrInterface>
findStorage(func::FuncOp function, StrategyOp strategy, RoleAttr role) {
  StorageAttrInterface storage = strategy.getStorage(role);
  if (!storage)
    return function.emitError("strategy '")
           << strategy.getSymName() << "' has no rule for the "
           << stringifyRoleKind(role.getKind()) << " " << role.getName()
           << "; add a tandem.assign that matches it";
  if (!storage.getValueType(strategy.getCompute()))
    return function.emitError("strategy '")
           << strategy.getSymName() << "' stores " << role.getName() << " as "
           << storage << ", which cannot be computed under the "
           << stringifyPolicy(strategy.getCompute().getPolicy())
           << " policy of " << strategy.getCompute().getFormat();
  if (role.getKind() == RoleKind::grad && countElementPlanes(storage) != 1)
    return function.emitError("strategy '")
           << strategy.getSymName() << "' stores the grad " << role.getName()
           << " in " << storage << "; a gradient has one plane beside scales";
  if (role.getPer() != Granularity::element && needsMatrix(storage))
    return function.emitError("strategy '")
           << strategy.getSymName() << "' stores " << role.getName() << " as "
           << storage << ", but it is a vector with an entry per "
           << stringifyGranularity(role.getPer())
           << ", which has no rows or blocks; use group = tensor or a number";
  return storage;
}

/// Puts storages on the arguments, with a decode beside each.
static FailureOr<unsigned> storeArguments(func::FuncOp function,
                                          StrategyOp strategy) {
  Block &body = function.getBody().front();
  OpBuilder builder(&body, body.begin());
  unsigned count = 0;
  for (BlockArgument argument : body.getArguments()) {
    RoleAttr role = getRole(argument);
    if (!role.isTensor())
      continue;
    if (isa<StoredType>(argument.getType()))
      return function.emitError("argument ")
             << role.getName() << " already has a storage";
    auto storage = findStorage(function, strategy, role);
    if (failed(storage))
      return failure();
    auto logical = cast<RankedTensorType>(argument.getType());
    argument.setType(StoredType::get(function.getContext(), logical, *storage));
    auto decode =
        DecodeOp::create(builder, function.getLoc(), logical, argument);
    argument.replaceAllUsesExcept(decode.getResult(), decode);
    ++count;
  }
  return count;
}

/// Encodes the results and updates the function's type.
static void storeResults(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  OpBuilder builder(terminator);
  for (auto [index, argument] :
       llvm::enumerate(getUpdatedArguments(function))) {
    Value encoded =
        EncodeOp::create(builder, function.getLoc(), argument.getType(),
                         terminator->getOperand(index));
    terminator->setOperand(index, encoded);
  }
  function.setType(
      builder.getFunctionType(function.getBody().front().getArgumentTypes(),
                              terminator->getOperandTypes()));
}

namespace {
struct ApplyStrategyPass
    : public tandem::impl::ApplyStrategyBase<ApplyStrategyPass> {
  using ApplyStrategyBase::ApplyStrategyBase;

  void runOnOperation() override {
    OwningOpRef<ModuleOp> file;
    StrategyOp op = find(file);
    if (!op)
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (isGraph(function) && failed(apply(function, op)))
        return signalPassFailure();
    // A strategy has done its work; kernels carry what it decided.
    for (auto used :
         llvm::make_early_inc_range(getOperation().getOps<StrategyOp>()))
      used.erase();
  }

  /// In this module, else in a file that `file` then owns.
  StrategyOp find(OwningOpRef<ModuleOp> &file) {
    if (strategy.empty()) {
      emitError(UnknownLoc::get(&getContext()),
                "no strategy given; built-in ones are ")
          << listNames(getBuiltinStrategies());
      return {};
    }
    if (auto op = getOperation().lookupSymbol<StrategyOp>(strategy))
      return op;
    SmallVector<std::string> directories(path.begin(), path.end());
    auto text = findInLibrary(strategy, directories, getBuiltinStrategies());
    if (!text) {
      emitError(UnknownLoc::get(&getContext()), "unknown strategy '")
          << strategy << "'; built-in ones are "
          << listNames(getBuiltinStrategies())
          << "; others are files <name>.mlir on the search path";
      return {};
    }
    file = parseSourceString<ModuleOp>(text->text, &getContext(), text->file);
    if (!file)
      return {};
    auto op = file->lookupSymbol<StrategyOp>(strategy);
    if (!op)
      emitError(FileLineColLoc::get(&getContext(), text->file, 1, 1),
                "the file of strategy '")
          << strategy << "' does not define tandem.strategy @\"" << strategy
          << "\"";
    return op;
  }

  LogicalResult apply(func::FuncOp function, StrategyOp op) {
    if (failed(verifyGraph(function)))
      return failure();
    auto count = storeArguments(function, op);
    if (failed(count))
      return failure();
    storeResults(function);
    function->setAttr(TandemDialect::getComputeAttrName(), op.getCompute());
    numStored += *count;
    return success();
  }
};
} // namespace
