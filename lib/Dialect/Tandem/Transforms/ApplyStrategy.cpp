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

#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "tandem/Dialect/Tandem/Transforms/Strategies.h"
#include "tandem/Support/CompilerError.h"
#include "llvm/Support/DebugLog.h"

namespace tandem {
#define GEN_PASS_DEF_APPLYSTRATEGY
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

#define DEBUG_TYPE "tandem-apply-strategy"

using namespace mlir;
using namespace tandem;

static Named nameOf(StrategyOp strategy) {
  return {TDM_MESSAGE_STRATEGY, strategy.getSymName()};
}

static Named nameOf(RoleAttr role) {
  return {TDM_MESSAGE_ROLE, role.getName().getValue()};
}

/// Begins a diagnostic: "strategy 'NAME' stores "ROLE" as STORAGE".
static InFlightDiagnostic emitStoreError(func::FuncOp function,
                                         StrategyOp strategy, RoleAttr role,
                                         StorageAttrInterface storage,
                                         StringRef stores = " stores \"") {
  std::string text;
  llvm::raw_string_ostream(text) << storage;
  return function.emitError("strategy '")
         << nameOf(strategy) << "'" << Twine(stores) << nameOf(role) << "\" as "
         << Named{TDM_MESSAGE_STORAGE, text};
}

/// Returns the storage of an average of weights that no rule of a strategy
/// matches, which is that of the first param, or null.
static StorageAttrInterface findAverageStorage(func::FuncOp function,
                                               StrategyOp strategy) {
  for (BlockArgument argument : function.getArguments()) {
    RoleAttr role = getRole(argument);
    if (role.getKind() != RoleKind::param)
      continue;
    StorageAttrInterface storage = strategy.getStorage(role);
    return storage ? storage.getAverageStorage(strategy.getCompute())
                   : StorageAttrInterface();
  }
  return {};
}

/// Returns the storage that a strategy gives a role, or emits an error.
static FailureOr<StorageAttrInterface>
findStorage(func::FuncOp function, StrategyOp strategy, RoleAttr role) {
  StorageAttrInterface storage = strategy.getStorage(role);
  if (!storage && role.getMoment() == Moment::average)
    storage = findAverageStorage(function, strategy);
  if (!storage)
    return function.emitError("strategy '")
           << nameOf(strategy) << "' has no rule for the "
           << stringifyRoleKind(role.getKind()) << " \"" << nameOf(role)
           << "\"; add a tandem.assign that matches it";
  if (!getStoredValueType(role, storage, strategy.getCompute()))
    return emitStoreError(function, strategy, role, storage)
           << ", which cannot be computed under the "
           << stringifyPolicy(strategy.getCompute().getPolicy())
           << " policy of " << strategy.getCompute().getFormat();
  if (role.getPer() != Granularity::element && needsMatrix(storage))
    return emitStoreError(function, strategy, role, storage)
           << ", but it is a vector with an entry per "
           << stringifyGranularity(role.getPer())
           << (hasTranspose(storage)
                   ? ", which has no transpose; leave out transposed = "
                     "true"
                   : ", which has no rows or blocks; use group = tensor or a "
                     "number");
  if (hasTranspose(storage) && !role.isOfLayer())
    return emitStoreError(
               function, strategy, role, storage,
               (" stores the " + stringifyRoleKind(role.getKind()) + " \"")
                   .str())
           << ", but matrix products take transposed copies only of a "
              "layer's tensors; leave out transposed = true";
  return storage;
}

/// Makes the role of what is exchanged with the host say the format in which it
/// is stored.
static void setFormat(func::FuncOp function, BlockArgument argument,
                      StorageAttrInterface storage) {
  RoleAttr role = getRole(argument);
  if (role.getFormat())
    function.setArgAttr(
        argument.getArgNumber(), TandemDialect::getRoleAttrName(),
        RoleAttr::get(role.getContext(), role.getKind(), role.getName(),
                      role.getMoment(), role.getDomain(),
                      role.getDefaultValue(), role.getPer(), role.getConsumer(),
                      role.getFlow(), role.getExternal(),
                      cast<FloatStorageAttr>(storage).getFormat()));
}

/// Puts storages on the arguments, and decodes each of them.
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
      return function.emitError("argument \"")
             << nameOf(role) << "\" already has a storage";
    auto storage = findStorage(function, strategy, role);
    if (failed(storage))
      return failure();
    LDBG() << stringifyRoleKind(role.getKind()) << " " << role.getName()
           << " is stored as " << *storage;
    auto logical = cast<RankedTensorType>(argument.getType());
    argument.setType(StoredType::get(function.getContext(), logical, *storage));
    setFormat(function, argument, *storage);
    auto decode =
        DecodeOp::create(builder, function.getLoc(), logical, argument);
    argument.replaceUsesWithIf(decode.getResult(), [](OpOperand &use) {
      auto visible = dyn_cast<VisibleOp>(use.getOwner());
      bool isNamed = visible && &use == &visible.getTensorMutable();
      return !isNamed && !isa<DecodeOp>(use.getOwner());
    });
    ++count;
  }
  return count;
}

/// Returns whether a tensor has all that another one would have. It may also
/// have a transposed copy.
static bool isStoredAs(Type holder, Type wanted) {
  auto stored = cast<StoredType>(holder);
  return holder == wanted ||
         StoredType::get(holder.getContext(), stored.getLogical(),
                         withoutTranspose(stored.getStorage())) == wanted;
}

/// Returns the input or output that holds what a saved tensor would, in the
/// same storage, or null.
static BlockArgument findHolder(func::FuncOp function, BlockArgument saved,
                                Value value) {
  auto isAlike = [&](BlockArgument other, RoleKind kind) {
    return getRole(other).getKind() == kind &&
           getRole(other).getPer() == getRole(saved).getPer() &&
           isStoredAs(other.getType(), saved.getType());
  };
  value = resolve(value);
  auto input = dyn_cast<BlockArgument>(value);
  if (input && input.getOwner() == saved.getOwner() &&
      isAlike(input, RoleKind::input))
    return input;
  Operation *terminator = function.getBody().front().getTerminator();
  for (auto [argument, result] :
       llvm::zip(getUpdatedArguments(function), terminator->getOperands()))
    if (isAlike(argument, RoleKind::output) && resolve(result) == value)
      return argument;
  return {};
}

/// Drops the transposed copies of tensors that a function only reads.
static void dropTransposes(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    auto stored = dyn_cast<StoredType>(argument.getType());
    if (stored && !getRole(argument).isDestination())
      argument.setType(StoredType::get(function.getContext(),
                                       stored.getLogical(),
                                       withoutTranspose(stored.getStorage())));
  }
}

static bool hasArgument(func::FuncOp function, StringAttr name) {
  return llvm::any_of(function.getArguments(), [&](BlockArgument argument) {
    return getRole(argument).getName() == name;
  });
}

/// Returns the backward passes of a function.
static SmallVector<func::FuncOp> getBackward(func::FuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  return llvm::filter_to_vector(
      module.getOps<func::FuncOp>(), [&](func::FuncOp other) {
        auto forward = other->getAttrOfType<FlatSymbolRefAttr>(
            TandemDialect::getForwardAttrName());
        return forward && forward.getAttr() == function.getSymNameAttr();
      });
}

/// Renames a tensor that a backward pass restores.
static void rename(func::FuncOp function, StringAttr from, StringAttr to) {
  for (BlockArgument argument : function.getArguments()) {
    RoleAttr role = getRole(argument);
    if (role.getKind() == RoleKind::restored && role.getName() == from)
      function.setArgAttr(
          argument.getArgNumber(), TandemDialect::getRoleAttrName(),
          RoleAttr::get(role.getContext(), role.getKind(), to, role.getMoment(),
                        role.getDomain(), role.getDefaultValue(), role.getPer(),
                        role.getConsumer(), role.getFlow(), role.getExternal(),
                        role.getFormat()));
  }
}

/// Drops the saved tensors that an input or output already holds, from which
/// the backward pass then restores them. Returns the number of such tensors.
static unsigned shareTensors(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<func::FuncOp> backward = getBackward(function);
  SmallVector<NamedAttribute> kept;
  SmallVector<BlockArgument> updated = getUpdatedArguments(function);
  for (unsigned index = updated.size(); index-- > 0;) {
    RoleAttr role = getRole(updated[index]);
    BlockArgument holder =
        findHolder(function, updated[index], terminator->getOperand(index));
    if (role.getKind() != RoleKind::saved || !holder)
      continue;
    StringAttr name = getRole(holder).getName();
    if (llvm::any_of(backward, [&](func::FuncOp other) {
          return hasArgument(other, name) && name != role.getName();
        })) {
      LDBG() << role.getName() << " is written, though " << name
             << " holds it: a backward pass has an argument of this name";
      continue;
    }
    LDBG() << role.getName() << " is not written: " << name << " holds it";
    for (func::FuncOp other : backward)
      rename(other, role.getName(), name);
    for (Operation *user :
         llvm::make_early_inc_range(updated[index].getUsers()))
      user->erase();
    terminator->eraseOperand(index);
    (void)function.eraseResult(index);
    (void)function.eraseArgument(updated[index].getArgNumber());
    kept.emplace_back(name, role);
  }
  if (!kept.empty())
    function->setAttr(TandemDialect::getKeptAttrName(),
                      DictionaryAttr::get(function.getContext(), kept));
  return kept.size();
}

/// Refuses two planes of the same name, since arrays are passed by name.
static LogicalResult checkPlaneNames(func::FuncOp function) {
  llvm::StringMap<RoleAttr> owners;
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<StoredType>(argument.getType());
    if (!type)
      continue;
    RoleAttr role = getRole(argument);
    for (const Plane &plane : type.getStorage().getPlanes()) {
      std::string name = (role.getName().getValue() + plane.suffix).str();
      auto [place, isNew] = owners.try_emplace(name, role);
      if (!isNew)
        return function.emitError("plane '")
               << name << "' is one of both " << place->second.getName()
               << " and " << role.getName()
               << "; give one of them another name";
    }
  }
  return success();
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
    FailureOr<StrategyOp> op = findStrategy(getOperation(), strategy);
    if (failed(op))
      return signalPassFailure();
    auto graphs =
        llvm::filter_to_vector(getOperation().getOps<func::FuncOp>(), isGraph);
    for (func::FuncOp function : graphs)
      if (failed(apply(function, *op)))
        return signalPassFailure();
    for (func::FuncOp function : graphs) {
      numShared += shareTensors(function);
      dropTransposes(function);
      storeResults(function);
    }
    // The strategies are not needed any more: kernels contain their decisions.
    for (auto used :
         llvm::make_early_inc_range(getOperation().getOps<StrategyOp>()))
      used.erase();
  }

  LogicalResult apply(func::FuncOp function, StrategyOp op) {
    if (failed(verifyGraph(function)))
      return failure();
    auto count = storeArguments(function, op);
    if (failed(count))
      return failure();
    if (failed(checkPlaneNames(function)))
      return failure();
    function->setAttr(TandemDialect::getComputeAttrName(), op.getCompute());
    numStored += *count;
    return success();
  }
};
} // namespace
