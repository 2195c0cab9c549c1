//===- ConnectSaves.cpp - Add arguments for saved tensors -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that turns the values that a forward pass saves
// into destinations, and those that its backward pass restores into arguments.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace tandem {
#define GEN_PASS_DEF_CONNECTSAVES
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

namespace {
/// A tensor that a forward pass keeps.
struct Saved {
  Value value;
  /// The name in the first tandem.save of the value.
  StringAttr name;
  Granularity per;
  /// The last of the consumers that it is saved for.
  Consumer consumer;
  /// The restored value in the backward pass.
  Value restored;
  /// Whether it is kept for the linear layers that follow.
  bool isForOthers = false;
};

/// The tensors that one function saves.
class SavedTensors {
public:
  LogicalResult add(SaveOp op);
  /// Saves an output for the linear layers that take it.
  void addOutput(RoleAttr role, Value value);
  /// Returns the tensor that is saved under a name, or null.
  Saved *find(StringAttr name);
  MutableArrayRef<Saved> get() { return tensors; }
  /// Lists the names of the tensors: "'x', 'gate'".
  std::string listNames() const;

private:
  Saved *findSame(Value value);

  SmallVector<Saved> tensors;
  llvm::MapVector<StringAttr, unsigned> byName;
};
} // namespace

LogicalResult SavedTensors::add(SaveOp op) {
  auto [place, isNew] = byName.try_emplace(op.getNameAttr(), tensors.size());
  if (!isNew)
    return op.emitOpError("saves another tensor as ")
           << op.getNameAttr() << "; give each a name of its own";
  Saved *same = findSame(op.getValue());
  if (!same) {
    tensors.push_back({op.getValue(),
                       op.getNameAttr(),
                       op.getPer(),
                       op.getConsumer(),
                       {},
                       false});
    return success();
  }
  place->second = same - tensors.begin();
  same->consumer = std::max(same->consumer, op.getConsumer());
  if (same->per == op.getPer())
    return success();
  return op.emitOpError("has an entry per ")
         << stringifyGranularity(op.getPer()) << ", but " << same->name
         << ", which is the same tensor, per "
         << stringifyGranularity(same->per);
}

Saved *SavedTensors::findSame(Value value) {
  auto *same = llvm::find_if(tensors, [&](const Saved &known) {
    return resolve(known.value) == resolve(value) &&
           known.value.getType() == value.getType();
  });
  return same == tensors.end() ? nullptr : same;
}

void SavedTensors::addOutput(RoleAttr role, Value value) {
  if (Saved *same = findSame(value)) {
    same->consumer = std::max(same->consumer, Consumer::linear);
    return;
  }
  auto name =
      StringAttr::get(role.getContext(), role.getName().getValue() + ".kept");
  tensors.push_back({value, name, role.getPer(), Consumer::linear, {}, true});
}

Saved *SavedTensors::find(StringAttr name) {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &tensors[found->second];
}

std::string SavedTensors::listNames() const {
  return byName.empty()
             ? "none"
             : llvm::join(llvm::map_range(byName,
                                          [](const auto &entry) {
                                            return "'" + entry.first.str() +
                                                   "'";
                                          }),
                          ", ");
}

/// Returns the name of a saved tensor, with a suffix if an argument has it
/// already.
static StringAttr makeName(func::FuncOp function, StringAttr name) {
  bool isTaken =
      llvm::any_of(function.getArguments(), [&](BlockArgument argument) {
        return getRole(argument) && getRole(argument).getName() == name;
      });
  return isTaken ? StringAttr::get(name.getContext(), name.strref() + ".saved")
                 : name;
}

/// Appends an argument for a saved tensor.
static BlockArgument addArgument(func::FuncOp function, RoleKind kind,
                                 const Saved &saved) {
  Builder builder(function.getContext());
  auto role =
      RoleAttr::get(function.getContext(), kind, saved.name, Moment::none,
                    Domain::any, FloatAttr(), saved.per, saved.consumer,
                    Flow::activation, StringAttr(), Type());
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(index, saved.value.getType(),
                                builder.getDictionaryAttr(builder.getNamedAttr(
                                    TandemDialect::getRoleAttrName(), role)),
                                function.getLoc());
  return function.getArgument(index);
}

namespace {
struct ConnectSavesPass
    : public tandem::impl::ConnectSavesBase<ConnectSavesPass> {
  void runOnOperation() override {
    auto graphs =
        llvm::filter_to_vector(getOperation().getOps<func::FuncOp>(), isGraph);
    for (func::FuncOp function : graphs)
      if (failed(save(function)))
        return signalPassFailure();
    for (func::FuncOp function : graphs)
      if (failed(restore(function)))
        return signalPassFailure();
    for (KeepOutputsOp op :
         llvm::make_early_inc_range(getOperation().getOps<KeepOutputsOp>()))
      op.erase();
  }

  /// Turns the values that a function saves into destinations.
  LogicalResult save(func::FuncOp function) {
    SavedTensors &tensors = saved[function.getSymNameAttr()];
    SmallVector<SaveOp> ops(function.getBody().front().getOps<SaveOp>());
    for (SaveOp op : ops)
      if (failed(tensors.add(op)))
        return failure();
    for (KeepOutputsOp op : getOperation().getOps<KeepOutputsOp>())
      if (op.getGraphAttr().getAttr() == function.getSymNameAttr() &&
          failed(addOutputs(op, function, tensors)))
        return failure();
    for (Saved &tensor : tensors.get()) {
      tensor.name = makeName(function, tensor.name);
      addDestination(function, tensor);
    }
    numShared += ops.size() - tensors.get().size();
    for (SaveOp op : ops)
      op.erase();
    return success();
  }

  /// Saves the outputs that linear layers take.
  LogicalResult addOutputs(KeepOutputsOp op, func::FuncOp function,
                           SavedTensors &tensors) {
    Operation *terminator = function.getBody().front().getTerminator();
    bool hasAny = false;
    for (auto [argument, value] : llvm::zip_equal(getUpdatedArguments(function),
                                                  terminator->getOperands())) {
      RoleAttr role = getRole(argument);
      if (role.getKind() != RoleKind::output ||
          role.getConsumer() != Consumer::linear)
        continue;
      tensors.addOutput(role, value);
      hasAny = true;
    }
    if (hasAny)
      return success();
    return op.emitOpError("finds no output of ")
           << op.getGraphAttr()
           << " for a linear layer; give a role consumer = linear";
  }

  void addDestination(func::FuncOp function, const Saved &tensor) {
    addArgument(function, RoleKind::saved, tensor);
    (void)function.insertResult(function.getNumResults(),
                                tensor.value.getType(), {});
    Operation *terminator = function.getBody().front().getTerminator();
    terminator->insertOperands(terminator->getNumOperands(), tensor.value);
    ++numSaved;
  }

  /// Replaces each value that a function restores by a new argument.
  LogicalResult restore(func::FuncOp function) {
    SmallVector<RestoreOp> ops(function.getBody().front().getOps<RestoreOp>());
    auto forward = function->getAttrOfType<FlatSymbolRefAttr>(
        TandemDialect::getForwardAttrName());
    if (ops.empty() && !forward)
      return success();
    auto found = forward ? saved.find(forward.getAttr()) : saved.end();
    if (found == saved.end())
      return function.emitError("restores what a forward pass has saved; name "
                                "that graph, of the same module: ")
             << TandemDialect::getForwardAttrName() << " = @name";
    for (RestoreOp op : ops)
      if (failed(restore(op, function, found->second)))
        return failure();
    return checkRestored(function, forward, found->second);
  }

  LogicalResult restore(RestoreOp op, func::FuncOp function,
                        SavedTensors &tensors) {
    Saved *tensor = tensors.find(op.getNameAttr());
    if (!tensor)
      return op.emitOpError("finds no tensor that is saved as ")
             << op.getNameAttr() << "; saved are " << tensors.listNames();
    if (op.getType() != tensor->value.getType())
      return op.emitOpError("must be ")
             << tensor->value.getType() << " as it is saved, got "
             << op.getType();
    if (!tensor->restored)
      tensor->restored = addArgument(function, RoleKind::restored, *tensor);
    op.replaceAllUsesWith(tensor->restored);
    op.erase();
    return success();
  }

  /// Reports saved tensors that nothing restores.
  LogicalResult checkRestored(func::FuncOp function, FlatSymbolRefAttr forward,
                              SavedTensors &tensors) {
    for (Saved &tensor : tensors.get())
      if (!tensor.restored && !tensor.isForOthers)
        return function.emitError("does not restore ")
               << tensor.name << ", which " << forward
               << " saves; restore it, or do not save it";
    // Another function may restore the same tensors.
    for (Saved &tensor : tensors.get())
      tensor.restored = {};
    return success();
  }

  llvm::DenseMap<StringAttr, SavedTensors> saved;
};
} // namespace
