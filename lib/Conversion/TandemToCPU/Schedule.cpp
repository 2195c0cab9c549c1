//===- Schedule.cpp - Order of a body's operations ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the order in which a CPU kernel computes: a list
// schedule for a machine that issues one operation at a time.
//
//===----------------------------------------------------------------------===//

#include "Schedule.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace tandem;

namespace {
/// The latency of an operation's result, and the time for which it keeps others
/// from issuing, in half cycles. A value takes about four registers.
struct Cost {
  unsigned latency, issue;
};

struct Node {
  Operation *op;
  Cost cost;
  SmallVector<unsigned> operands, users;
  /// The time from the start of this operation to the end of the body.
  unsigned height = 0;
  unsigned numWaiting = 0, ready = 0;
  bool isPlaced = false;
};

class Scheduler {
public:
  explicit Scheduler(Block &body);
  SmallVector<Operation *> run();

private:
  void addEdge(Operation *from, unsigned to);
  void finish(unsigned node, unsigned time);
  /// Appends a node after those of its operands that are not placed yet.
  void place(unsigned node);

  SmallVector<Node> nodes;
  llvm::DenseMap<Operation *, unsigned> indices;
  SmallVector<unsigned> available;
  SmallVector<Operation *> order;
};
} // namespace

static Cost getCost(Operation *op) {
  if (op->getNumOperands() == 0 || op->getNumResults() == 0 ||
      isa<arith::BitcastOp, LoadPlaneOp, RandomBitsOp>(op) ||
      !isa<VectorType>(op->getResult(0).getType()))
    return {0, 0};
  if (isa<arith::DivFOp, math::SqrtOp, LookupOp>(op))
    return {40, 20};
  if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, math::FmaOp>(op))
    return {8, 4};
  return {3, 3};
}

Scheduler::Scheduler(Block &body) {
  for (Operation &op : body.without_terminator()) {
    indices[&op] = nodes.size();
    nodes.push_back({&op, getCost(&op)});
  }
  // Planes do not overlap, so that only accesses to the same plane stay in
  // order.
  llvm::DenseMap<std::pair<Value, uint64_t>, SmallVector<Operation *>> accesses;
  for (unsigned i = 0; i < nodes.size(); ++i) {
    Operation *op = nodes[i].op;
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp())
        addEdge(source, i);
    SmallVector<Operation *> *earlier = nullptr;
    if (auto load = dyn_cast<LoadPlaneOp>(op))
      earlier = &accesses[{load.getTensor(), load.getPlane()}];
    else if (auto store = dyn_cast<StorePlaneOp>(op))
      earlier = &accesses[{store.getTensor(), store.getPlane()}];
    else if (auto loaded = dyn_cast<LoadHistoryOp>(op))
      earlier = &accesses[{loaded.getTensor(), loaded.getPlane()}];
    else if (auto pushed = dyn_cast<PushHistoryOp>(op))
      earlier = &accesses[{pushed.getTensor(), pushed.getPlane()}];
    else if (auto metric = dyn_cast<MetricOp>(op))
      earlier = &accesses[{Value(), metric.getIndex()}];
    if (!earlier)
      continue;
    for (Operation *access : *earlier)
      addEdge(access, i);
    earlier->push_back(op);
  }
  for (Node &node : llvm::reverse(nodes)) {
    unsigned behind = 0;
    for (unsigned user : node.users)
      behind = std::max(behind, nodes[user].height);
    node.height = behind + node.cost.latency;
  }
}

void Scheduler::addEdge(Operation *from, unsigned to) {
  unsigned source = indices.lookup(from);
  nodes[source].users.push_back(to);
  nodes[to].operands.push_back(source);
  ++nodes[to].numWaiting;
}

void Scheduler::finish(unsigned node, unsigned time) {
  for (unsigned user : nodes[node].users) {
    nodes[user].ready = std::max(nodes[user].ready, time);
    if (--nodes[user].numWaiting == 0)
      available.push_back(user);
  }
}

void Scheduler::place(unsigned node) {
  if (std::exchange(nodes[node].isPlaced, true))
    return;
  for (unsigned operand : nodes[node].operands)
    place(operand);
  order.push_back(nodes[node].op);
}

SmallVector<Operation *> Scheduler::run() {
  for (unsigned i = 0; i < nodes.size(); ++i)
    if (!nodes[i].numWaiting)
      available.push_back(i);
  unsigned now = 0;
  while (!available.empty()) {
    // Choose the node of greatest height among those that can start now, or
    // else the one that can start first. A node without cost starts at once,
    // but is placed with its first user.
    auto isBetter = [&](unsigned a, unsigned b) {
      const Node &x = nodes[a], &y = nodes[b];
      bool xIsFree = !x.cost.issue, yIsFree = !y.cost.issue;
      unsigned xStart = std::max(x.ready, now), yStart = std::max(y.ready, now);
      return std::make_tuple(!xIsFree, xStart, ~x.height, a) <
             std::make_tuple(!yIsFree, yStart, ~y.height, b);
    };
    auto *best = llvm::min_element(available, isBetter);
    unsigned node = *best;
    available.erase(best);
    const Node &chosen = nodes[node];
    if (!chosen.cost.issue) {
      if (hasEffect<MemoryEffects::Write>(chosen.op) ||
          isa<RandomBitsOp>(chosen.op))
        place(node);
      finish(node, chosen.ready);
      continue;
    }
    place(node);
    now = std::max(now, chosen.ready);
    finish(node, now + chosen.cost.latency);
    now += chosen.cost.issue;
  }
  for (unsigned i = 0; i < nodes.size(); ++i)
    place(i);
  return std::move(order);
}

SmallVector<Operation *> tandem::schedule(Block &body) {
  return Scheduler(body).run();
}
