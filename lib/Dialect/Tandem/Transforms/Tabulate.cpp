//===- Tabulate.cpp - Look up functions of bytes --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that replaces what a kernel computes only from
// a byte by lookups in tables.
//
//===----------------------------------------------------------------------===//

#include "ByteFunctions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"
#include "llvm/Support/DebugLog.h"

namespace tandem {
#define GEN_PASS_DEF_TABULATE
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

#define DEBUG_TYPE "tandem-tabulate"

using namespace mlir;
using namespace tandem;

namespace {
/// The loads of bytes that a value depends on: one of a byte that a group
/// shares, and one of the element's own.
struct Sources {
  LoadPlaneOp row, column;

  /// Adds the loads of another value. Fails if there is a different one of a
  /// kind.
  LogicalResult join(const Sources &other);
};

class Tabulator {
public:
  Tabulator(Block &block, const TabulateOptions &options,
            Pass::Statistic &tables)
      : block(block), options(options), tables(tables) {}
  void run();

private:
  /// Records an operation's sources, unless it depends on anything else.
  void visit(Operation *op);
  /// Returns whether a value is an f32 that is computed only from bytes and is
  /// read by something else.
  bool isRoot(Operation *op) const;
  /// Returns the operations that lead to a value from bytes, in order.
  SmallVector<Operation *> getSlice(Operation *root) const;
  /// Returns the cost of an operation, in operations of one cycle on a vector
  /// or a warp.
  unsigned getCost(Operation *op) const;
  /// Creates a lookup for a value, or returns none if computing it is cheaper.
  LookupOp tabulate(Operation *root);

  Block &block;
  const TabulateOptions &options;
  Pass::Statistic &tables;
  llvm::DenseMap<Operation *, Sources> sources;
};
} // namespace

LogicalResult Sources::join(const Sources &other) {
  auto joinOne = [](LoadPlaneOp &mine, LoadPlaneOp theirs) {
    if (!mine)
      mine = theirs;
    return success(!theirs || mine == theirs);
  };
  return success(succeeded(joinOne(row, other.row)) &&
                 succeeded(joinOne(column, other.column)));
}

void Tabulator::visit(Operation *op) {
  if (auto load = dyn_cast<LoadPlaneOp>(op)) {
    bool isShared = !load.getPlaneInfo().isOfElements();
    if (load.getType().isInteger(8) && (options.rows || !isShared))
      sources[op] = isShared ? Sources{load, {}} : Sources{{}, load};
    return;
  }
  if (!canEvaluate(op))
    return;
  Sources joined;
  for (Value operand : op->getOperands()) {
    auto found = sources.find(operand.getDefiningOp());
    if (found == sources.end() || failed(joined.join(found->second)))
      return;
  }
  sources[op] = joined;
}

bool Tabulator::isRoot(Operation *op) const {
  auto found = sources.find(op);
  return found != sources.end() && found->second.column &&
         op->getResult(0).getType().isF32() &&
         llvm::any_of(op->getUsers(),
                      [&](Operation *user) { return !sources.contains(user); });
}

SmallVector<Operation *> Tabulator::getSlice(Operation *root) const {
  llvm::SetVector<Operation *> slice;
  slice.insert(root);
  for (unsigned i = 0; i < slice.size(); ++i)
    for (Value operand : slice[i]->getOperands())
      if (!isa<LoadPlaneOp>(slice[i]))
        slice.insert(operand.getDefiningOp());
  SmallVector<Operation *> ordered = slice.takeVector();
  llvm::sort(ordered,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ordered;
}

/// Returns all values of a byte that a group shares, or of an element's own.
static ByteFunction getBytes(bool isRow) {
  ByteFunction bytes{isRow, !isRow, {}};
  llvm::append_range(bytes.values, llvm::seq<uint32_t>(0, 256));
  return bytes;
}

static DenseElementsAttr evaluateSlice(ArrayRef<Operation *> slice,
                                       const Sources &sources) {
  DefaultFloatEnvironment environment;
  llvm::DenseMap<Operation *, ByteFunction> functions;
  for (Operation *op : slice) {
    if (isa<LoadPlaneOp>(op)) {
      functions[op] = getBytes(op == sources.row);
      continue;
    }
    SmallVector<const ByteFunction *> operands;
    for (Value operand : op->getOperands())
      operands.push_back(&functions.find(operand.getDefiningOp())->second);
    ByteFunction result = evaluate(op, operands);
    functions[op] = std::move(result);
  }
  SmallVector<int64_t> shape(sources.row ? 2 : 1, 256);
  auto type =
      RankedTensorType::get(shape, slice.back()->getResult(0).getType());
  ArrayRef<uint32_t> bits = functions[slice.back()].values;
  return DenseElementsAttr::getFromRawBuffer(
      type, ArrayRef(reinterpret_cast<const char *>(bits.data()),
                     bits.size() * sizeof(uint32_t)));
}

unsigned Tabulator::getCost(Operation *op) const {
  if (isa<arith::ConstantOp, arith::BitcastOp, LoadPlaneOp>(op))
    return 0;
  return isa<arith::DivFOp, math::SqrtOp>(op) ? options.divisionCost : 1;
}

LookupOp Tabulator::tabulate(Operation *root) {
  SmallVector<Operation *> slice = getSlice(root);
  Sources from = sources.lookup(root);
  unsigned cost = 0;
  for (Operation *op : slice)
    if (sources.lookup(op).column)
      cost += getCost(op);
  LDBG() << (cost > options.lookupCost ? "a table" : "no table") << " of "
         << (from.row ? 65536 : 256) << " values: " << cost
         << " cycles to compute, " << options.lookupCost << " to look up; "
         << *root;
  if (cost <= options.lookupCost)
    return {};
  SmallVector<Value> indices;
  if (from.row)
    indices.push_back(from.row);
  indices.push_back(from.column);
  OpBuilder builder(root);
  ++tables;
  return LookupOp::create(builder, root->getLoc(), root->getResult(0).getType(),
                          indices, evaluateSlice(slice, from));
}

void Tabulator::run() {
  for (Operation &op : block)
    visit(&op);
  SmallVector<Operation *> roots;
  for (Operation &op : block)
    if (isRoot(&op))
      roots.push_back(&op);
  // Slices may contain other roots: none is replaced before all are evaluated.
  SmallVector<LookupOp> lookups = llvm::map_to_vector(
      roots, [&](Operation *root) { return tabulate(root); });
  for (auto [root, lookup] : llvm::zip(roots, lookups))
    if (lookup)
      root->replaceAllUsesWith(lookup);
}

namespace {
struct TabulatePass : public tandem::impl::TabulateBase<TabulatePass> {
  using TabulateBase::TabulateBase;

  void runOnOperation() override {
    TabulateOptions options{rows, lookupCost, divisionCost};
    for (LaunchOp launch : getOperation().getLaunchOps())
      Tabulator(launch.getBodyBlock(), options, numTables).run();
  }
};
} // namespace
