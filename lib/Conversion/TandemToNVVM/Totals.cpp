//===- Totals.cpp - Reductions over tensors and the model -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the generation of the kernels that end a phase on a GPU.
//
//===----------------------------------------------------------------------===//

#include "Totals.h"
#include "KernelBuilder.h"

using namespace mlir;
using namespace tandem;

static constexpr int64_t totalBytes = 4;

/// Joins the parts in a tree: first neighbours, then pairs of pairs. A part
/// without a partner stays unchanged.
void tandem::joinParts(LaunchBuilder &launch, SequenceBuilder &b,
                       const Chunk &chunk, PartialOp op, Value position) {
  OpBuilder &builder = b.builder;
  Location loc = b.loc;
  bool isRow = op.getScope() == Granularity::row;
  Value count = isRow ? chunk.partsOfRow : chunk.partsOfColumn;
  Value extent = isRow ? chunk.rows : chunk.columns;
  Reduction item = getReduction(op);
  auto place = [&](Value part) {
    return launch.getAxisTotal(chunk, op.getIndex(),
                               b.addi(b.muli(part, extent), position));
  };
  scf::WhileOp::create(
      builder, loc, TypeRange{builder.getI64Type()}, ValueRange{launch.i64(1)},
      [&](OpBuilder &inner, Location, ValueRange state) {
        Value isLeft = b.compare(arith::CmpIPredicate::slt, state[0], count);
        scf::ConditionOp::create(inner, loc, isLeft, state);
      },
      [&](OpBuilder &inner, Location, ValueRange state) {
        Value next = b.addi(state[0], state[0]);
        Value end = b.subi(count, state[0]);
        scf::ForOp::create(
            inner, loc, launch.i64(0), end, next, ValueRange(),
            [&](OpBuilder &, Location, Value part, ValueRange) {
              Value left = place(part), right = place(b.addi(part, state[0]));
              Value second = launch.load(right, item.type);
              Value both =
                  buildJoin(b, item.kind, launch.load(left, item.type), second);
              LLVM::StoreOp::create(builder, loc, both, left);
              scf::YieldOp::create(builder, loc);
            });
        scf::YieldOp::create(inner, loc, next);
      });
}

namespace {
/// Builds the kernels that end a phase.
class TotalsBuilder {
public:
  TotalsBuilder(LaunchOp kernel, OpBuilder &builder)
      : kernel(kernel), builder(builder), launch(kernel, builder),
        loc(kernel.getLoc()) {}

  void build();

private:
  /// Creates a new kernel that reduces some partials, and moves the builder
  /// into it.
  LLVM::LLVMFuncOp enter(StringRef suffix, ArrayRef<PartialOp> reduced);
  void buildTotals(ArrayRef<PartialOp> reduced);
  void buildModel(ArrayRef<PartialOp> reduced);
  /// Builds a kernel that joins the tiles' parts of rows or columns, one thread
  /// for each row or column.
  void buildAxis(StringRef suffix, ArrayRef<PartialOp> reduced);
  /// Reduces over the threads of a block the values of all positions from
  /// `begin` to `end`.
  void reduceRange(Value begin, Value end,
                   function_ref<Value(Value, unsigned)> read,
                   function_ref<void(ArrayRef<Value>)> finish);
  Value total(const Chunk &tensor, PartialOp op) {
    return launch.advance(tensor.totals, launch.i64(op.getIndex()), totalBytes);
  }
  template <typename OpTy>
  Value sreg() {
    return readRegister<OpTy>(builder, loc);
  }

  LaunchOp kernel;
  OpBuilder &builder;
  LaunchBuilder launch;
  Location loc;
  std::optional<BlockReductions> reductions;
};
} // namespace

LLVM::LLVMFuncOp TotalsBuilder::enter(StringRef suffix,
                                      ArrayRef<PartialOp> reduced) {
  std::string name = kernel.getFunctionName() + suffix.str();
  LLVM::LLVMFuncOp entry = launch.createEntry(name);
  markKernel(entry, blockSize);
  builder.setInsertionPointToStart(&entry.getBody().front());
  SmallVector<Reduction> items;
  for (PartialOp op : reduced)
    items.push_back(getReduction(op));
  SequenceBuilder b(builder, loc);
  if (!items.empty())
    reductions.emplace(b, kernel, getEntryName(name) + "_parts", launch, items,
                       blockSize);
  return entry;
}

void TotalsBuilder::reduceRange(Value begin, Value end,
                                function_ref<Value(Value, unsigned)> read,
                                function_ref<void(ArrayRef<Value>)> finish) {
  SequenceBuilder b(builder, loc);
  ArrayRef<Reduction> items = reductions->getItems();
  Value thread = sreg<NVVM::ThreadIdXOp>(), threads = sreg<NVVM::BlockDimXOp>();
  SmallVector<Value> initial{launch.i64(0)};
  for (const auto &item : items)
    if (!item.isSum())
      initial.push_back(buildIdentity(b, item.kind, item.type));
  auto loop = scf::ForOp::create(
      builder, loc, begin, end, threads, initial,
      [&](OpBuilder &, Location, Value position, ValueRange state) {
        Value index = b.addi(position, thread);
        Value exists = b.compare(arith::CmpIPredicate::slt, index, end);
        // Threads without a position read at the first one, and ignore the
        // value.
        Value safe = b.select(exists, index, begin);
        SmallVector<Value> sums, next{b.addi(state[0], launch.i64(1))};
        for (auto [number, item] : llvm::enumerate(items)) {
          Value value = b.select(exists, read(safe, number),
                                 buildIdentity(b, item.kind, item.type));
          if (item.isSum())
            sums.push_back(value);
          else
            next.push_back(buildJoin(b, item.kind, state[next.size()], value));
        }
        reductions->addStep(b, sums, state[0]);
        scf::YieldOp::create(builder, loc, next);
      });
  SmallVector<Value> extremes(loop.getResults().drop_front());
  reductions->finish(b, extremes, loop.getResult(0), finish);
}

void TotalsBuilder::buildTotals(ArrayRef<PartialOp> reduced) {
  LLVM::LLVMFuncOp entry = enter(TDM_LAUNCH_TOTALS, reduced);
  SequenceBuilder b(builder, loc);
  auto [begin, end] = launch.getRangeUnlessSkipped(entry);
  Value numBlocks = sreg<NVVM::GridDimXOp>();
  begin = b.addi(begin, sreg<NVVM::BlockIdXOp>());
  auto tensors = scf::ForOp::create(builder, loc, begin, end, numBlocks);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPoint(tensors.getBody()->getTerminator());
  Chunk tensor = launch.readTensor(entry, tensors.getInductionVar());
  reduceRange(
      tensor.firstChunk, tensor.endChunk,
      [&](Value chunk, unsigned number) {
        PartialOp op = reduced[number];
        Value slots =
            launch.getSlots(entry.getArgument(EntryArgument::workspace), chunk);
        return launch.load(launch.getSlot(slots, op),
                           getElementTypeOrSelf(op.getValue().getType()));
      },
      [&](ArrayRef<Value> results) {
        for (auto [op, value] : llvm::zip(reduced, results))
          LLVM::StoreOp::create(builder, loc, value, total(tensor, op));
      });
}

void TotalsBuilder::buildModel(ArrayRef<PartialOp> reduced) {
  LLVM::LLVMFuncOp entry = enter(TDM_LAUNCH_MODEL, reduced);
  SequenceBuilder b(builder, loc);
  Value first, last;
  std::tie(first, last) = launch.getRangeUnlessSkipped(entry);
  auto getType = [](PartialOp op) {
    return getElementTypeOrSelf(op.getValue().getType());
  };
  reduceRange(
      first, last,
      [&](Value tensor, unsigned number) {
        PartialOp op = reduced[number];
        return launch.load(total(launch.readTensor(entry, tensor), op),
                           getType(op));
      },
      [&](ArrayRef<Value> results) {
        Value exists = b.compare(arith::CmpIPredicate::slt, first, last);
        auto branch = scf::IfOp::create(builder, loc, exists);
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointToStart(branch.thenBlock());
        Chunk tensor = launch.readTensor(entry, first);
        for (auto [op, value] : llvm::zip(reduced, results))
          LLVM::StoreOp::create(builder, loc, value, total(tensor, op));
      });
  // All threads copy the totals of the first tensor to the others.
  NVVM::Barrier0Op::create(builder, loc);
  Value thread = sreg<NVVM::ThreadIdXOp>(), threads = sreg<NVVM::BlockDimXOp>();
  Value second = b.addi(first, launch.i64(1));
  auto loop =
      scf::ForOp::create(builder, loc, b.addi(second, thread), last, threads);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPoint(loop.getBody()->getTerminator());
  Chunk source = launch.readTensor(entry, first);
  Chunk tensor = launch.readTensor(entry, loop.getInductionVar());
  for (PartialOp op : reduced) {
    Value place = total(tensor, op);
    Value value = launch.load(total(source, op), getType(op));
    LLVM::StoreOp::create(builder, loc, value, place);
  }
}

void TotalsBuilder::buildAxis(StringRef suffix, ArrayRef<PartialOp> reduced) {
  LLVM::LLVMFuncOp entry = enter(suffix, {});
  SequenceBuilder b(builder, loc);
  auto [begin, end] = launch.getRangeUnlessSkipped(entry);
  Value numBlocks = sreg<NVVM::GridDimXOp>();
  begin = b.addi(begin, sreg<NVVM::BlockIdXOp>());
  auto chunks = scf::ForOp::create(builder, loc, begin, end, numBlocks);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPoint(chunks.getBody()->getTerminator());
  Chunk chunk = launch.readChunk(entry, chunks.getInductionVar());
  Value threads = sreg<NVVM::BlockDimXOp>();
  Value first = b.addi(chunk.begin, sreg<NVVM::ThreadIdXOp>());
  auto entries = scf::ForOp::create(builder, loc, first, chunk.end, threads);
  builder.setInsertionPoint(entries.getBody()->getTerminator());
  for (PartialOp op : reduced)
    joinParts(launch, b, chunk, op, entries.getInductionVar());
}

void TotalsBuilder::build() {
  SmallVector<PartialOp> all, ofModel, ofRows, ofColumns;
  for (auto op : kernel.getBodyBlock().getOps<PartialOp>()) {
    // The totals of blocks are complete after the tiles.
    if (op.getScope() == Granularity::block)
      continue;
    if (op.getScope() == Granularity::row ||
        op.getScope() == Granularity::column) {
      (op.getScope() == Granularity::row ? ofRows : ofColumns).push_back(op);
      continue;
    }
    all.push_back(op);
    if (op.getScope() == Granularity::model)
      ofModel.push_back(op);
  }
  OpBuilder::InsertionGuard guard(builder);
  if (!all.empty()) {
    builder.setInsertionPoint(kernel.getStep());
    buildTotals(all);
  }
  if (!ofModel.empty()) {
    builder.setInsertionPoint(kernel.getStep());
    buildModel(ofModel);
  }
  for (auto [suffix, reduced] :
       {std::pair(TDM_LAUNCH_ROW_TOTALS, ArrayRef(ofRows)),
        {TDM_LAUNCH_COLUMN_TOTALS, ArrayRef(ofColumns)}})
    if (!reduced.empty()) {
      builder.setInsertionPoint(kernel.getStep());
      buildAxis(suffix, reduced);
    }
}

void tandem::createTotals(LaunchOp kernel, OpBuilder &builder) {
  TotalsBuilder(kernel, builder).build();
}
