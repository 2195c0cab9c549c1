//===- RecognizeUpdates.cpp - Recognize accumulate, ema and decay ---------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that names the steps by which a graph updates
// its params and states.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "tandem/Dialect/Tandem/Transforms/Graph.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "llvm/Support/DebugLog.h"

namespace tandem {
#define GEN_PASS_DEF_RECOGNIZEUPDATES
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

#define DEBUG_TYPE "tandem-recognize-updates"

using namespace mlir;
using namespace tandem;

namespace {

/// The lengths of the paths from values back to a state through additions and
/// products with uniform factors, or none if there is no such path.
class Distances {
public:
  explicit Distances(BlockArgument state) : state(state) {}

  std::optional<unsigned> get(Value value) {
    value = resolve(value);
    if (value == state)
      return 0;
    auto [entry, isNew] = known.try_emplace(value, std::nullopt);
    if (!isNew)
      return entry->second;
    std::optional<unsigned> distance = compute(value.getDefiningOp());
    known[value] = distance;
    return distance;
  }

  /// Clears the cache, which is keyed by address. Must be called after erasing
  /// operations.
  void forget() { known.clear(); }

private:
  std::optional<unsigned> compute(Operation *op) {
    if (!op)
      return std::nullopt;
    if (isa<arith::AddFOp>(op))
      return further(closer(get(op->getOperand(0)), get(op->getOperand(1))));
    if (isa<arith::SubFOp, AccumulateOp, EmaOp, DecayOp>(op))
      return further(get(op->getOperand(0)));
    if (isa<arith::MulFOp>(op)) {
      if (isUniform(op->getOperand(0)))
        return further(get(op->getOperand(1)));
      if (isUniform(op->getOperand(1)))
        return further(get(op->getOperand(0)));
    }
    return std::nullopt;
  }
  static std::optional<unsigned> further(std::optional<unsigned> distance) {
    return distance ? std::optional<unsigned>(*distance + 1) : std::nullopt;
  }
  static std::optional<unsigned> closer(std::optional<unsigned> a,
                                        std::optional<unsigned> b) {
    return a && b ? std::min(*a, *b) : (a ? a : b);
  }

  BlockArgument state;
  llvm::DenseMap<Value, std::optional<unsigned>> known;
};

/// Names the steps of one state's update, from the result back.
class UpdateNamer {
public:
  UpdateNamer(BlockArgument state, Pass::Statistic &accumulates,
              Pass::Statistic &emas, Pass::Statistic &decays)
      : distances(state), state(state), accumulates(accumulates), emas(emas),
        decays(decays) {}

  void run(Value result) {
    Value value = resolve(result);
    while (value != state) {
      Operation *op = value.getDefiningOp();
      Value next = op && distances.get(value) ? name(op) : Value();
      if (!next) {
        LDBG() << "the update of " << getRole(state).getName()
               << " has no step that gives " << value;
        return;
      }
      value = resolve(next);
    }
  }

private:
  /// Replaces one step and returns the state's value before it.
  Value name(Operation *op) {
    if (isa<AccumulateOp, EmaOp, DecayOp>(op))
      return op->getOperand(0);
    OpBuilder builder(op);
    if (isa<arith::AddFOp>(op)) {
      auto left = distances.get(op->getOperand(0));
      auto right = distances.get(op->getOperand(1));
      bool swap = right && (!left || *right < *left);
      return add(builder, op, op->getOperand(swap), op->getOperand(!swap));
    }
    if (isa<arith::SubFOp>(op)) {
      Value negated =
          arith::NegFOp::create(builder, op->getLoc(), op->getOperand(1));
      return add(builder, op, op->getOperand(0), negated);
    }
    auto [factor, before] = factorOf(op);
    ++decays;
    replace(op, DecayOp::create(builder, op->getLoc(), op->getResultTypes(),
                                before, factor));
    return before;
  }

  Value add(OpBuilder &builder, Operation *op, Value before, Value addend) {
    Operation *product = resolve(before).getDefiningOp();
    if (isa_and_nonnull<arith::MulFOp>(product) &&
        product->getBlock() == op->getBlock()) {
      auto [factor, inner] = factorOf(product);
      ++emas;
      replace(op, EmaOp::create(builder, op->getLoc(), op->getResultTypes(),
                                inner, factor, addend));
      return inner;
    }
    ++accumulates;
    replace(op, AccumulateOp::create(builder, op->getLoc(),
                                     op->getResultTypes(), before, addend));
    return before;
  }

  /// Returns the uniform factor of a product and its other operand.
  std::pair<Value, Value> factorOf(Operation *product) {
    bool first = isUniform(product->getOperand(0)) &&
                 distances.get(product->getOperand(1));
    return {product->getOperand(!first), product->getOperand(first)};
  }

  void replace(Operation *op, Operation *named) {
    LDBG() << getRole(state).getName() << ": " << *named << " replaces " << *op;
    op->replaceAllUsesWith(named);
    op->erase();
    distances.forget();
  }

  Distances distances;
  BlockArgument state;
  Pass::Statistic &accumulates, &emas, &decays;
};

struct RecognizeUpdatesPass
    : public tandem::impl::RecognizeUpdatesBase<RecognizeUpdatesPass> {
  void runOnOperation() override {
    if (isGraph(getOperation()) && failed(recognize(getOperation())))
      signalPassFailure();
  }

  LogicalResult recognize(func::FuncOp function) {
    if (failed(verifyGraph(function)))
      return failure();
    auto results = function.getBody().front().getTerminator();
    for (auto [index, state] : llvm::enumerate(getUpdatedArguments(function)))
      UpdateNamer(state, numAccumulates, numEmas, numDecays)
          .run(results->getOperand(index));
    return success();
  }
};

} // namespace
