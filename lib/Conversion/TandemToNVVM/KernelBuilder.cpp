//===- KernelBuilder.cpp - Kernels as NVVM functions ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the loops of a kernel over chunks and tensors.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "Totals.h"

using namespace mlir;
using namespace tandem;

void tandem::markKernel(LLVM::LLVMFuncOp function, int32_t threads) {
  Builder builder(function.getContext());
  function->setAttr("nvvm.kernel", builder.getUnitAttr());
  function->setAttr("nvvm.maxntid", builder.getDenseI32ArrayAttr({threads}));
}

void NVVMKernelBuilder::begin(StringRef name) {
  for (Operation &op : kernel.getBodyBlock()) {
    auto load = dyn_cast<LoadPlaneOp>(op);
    if (load && !LaunchBuilder::isLoadedOnce(load))
      loads.push_back(load);
    else if (auto store = dyn_cast<StorePlaneOp>(op))
      stores.push_back(store);
    else if (auto setFlag = dyn_cast<SetFlagOp>(op))
      flagSetters.push_back(setFlag);
  }
  thread = sreg<NVVM::ThreadIdXOp>();
  threads = sreg<NVVM::BlockDimXOp>();
  if (kernel.isPerTensor())
    return;
  buildReductions(name);
  isCollective =
      reductions || !kernel.getBodyBlock().getOps<ReduceOp>().empty();
}

void NVVMKernelBuilder::finishPrologue(LLVM::LLVMFuncOp prologue) {
  markKernel(prologue, 1);
}

void NVVMKernelBuilder::createOthers() { createTotals(kernel, builder); }

void NVVMKernelBuilder::finishEntry(LLVM::LLVMFuncOp entry) {
  markKernel(entry, blockSize);
  // With tables, ptxas would use a few registers more than two resident blocks
  // have, and one block cannot hide memory latency. Kernels of matrices keep
  // columns in registers and would spill.
  if (!kernel.isMatrix() && !kernel.getBodyBlock().getOps<LookupOp>().empty())
    entry->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                   builder.getI32IntegerAttr(2));
}

void NVVMKernelBuilder::prepare(LLVM::LLVMFuncOp entry) {
  blockIndex = sreg<NVVM::BlockIdXOp>();
  numBlocks = sreg<NVVM::GridDimXOp>();
  begin(entry.getSymName().str() + "_parts");
}

scf::ForOp NVVMKernelBuilder::createLoop(LLVM::LLVMFuncOp entry) {
  SequenceBuilder b(builder, loc);
  if (!kernel.isPerTensor()) {
    auto [first, end] = launch.getRangeUnlessSkipped(entry);
    return scf::ForOp::create(builder, loc, b.addi(first, blockIndex), end,
                              numBlocks);
  }
  blockIndex = sreg<NVVM::BlockIdXOp>();
  numBlocks = sreg<NVVM::GridDimXOp>();
  Value first = b.addi(b.muli(blockIndex, threads), thread);
  auto [begin, end] = launch.getRangeUnlessSkipped(entry);
  Value step = b.muli(numBlocks, threads);
  return scf::ForOp::create(builder, loc, b.addi(begin, first), end, step);
}

/// Collects the values of the kernel's body that a block reduces.
void NVVMKernelBuilder::buildReductions(StringRef name) {
  SmallVector<Reduction> items;
  columns.emplace(kernel, launch);
  for (Operation &op : kernel.getBodyBlock()) {
    auto partial = dyn_cast<PartialOp>(op);
    bool isColumn = partial && partial.isDownColumns();
    if (isColumn || (!partial && !isa<MetricOp>(op)))
      continue;
    reduced.push_back(&op);
    items.push_back(getReduction(&op));
  }
  SequenceBuilder b(builder, loc);
  if (!reduced.empty())
    reductions.emplace(b, kernel, name, launch, items, blockSize);
}

void NVVMKernelBuilder::buildTensor(const Chunk &tensor) {
  launch.mapShared(tensor, mapping);
  BodyBlock block{tensor, Value(), mapping};
  for (Operation &op : kernel.getBodyBlock().without_terminator())
    if (!isa<ReductionResultOp, SizeOp>(op))
      buildOperation(block, &op);
}

Value NVVMKernelBuilder::getEntry(BodyBlock &block, unsigned plane) {
  return toGlobal(block.chunk.planes[plane]);
}

Value NVVMKernelBuilder::buildLoad(BodyBlock &block, LoadPlaneOp op) {
  return LLVM::LoadOp::create(builder, loc, op.getType(),
                              getEntry(block, planeOf(op)));
}

void NVVMKernelBuilder::buildStore(BodyBlock &block, StorePlaneOp op) {
  LLVM::StoreOp::create(builder, loc, mapping.lookup(op.getValue()),
                        getEntry(block, planeOf(op)));
}

void NVVMKernelBuilder::buildChunk(LLVM::LLVMFuncOp entry, Chunk chunk,
                                   Value chunkIndex) {
  Value isAligned = prepareChunk(chunk);
  scf::ForOp steps = buildSteps(chunk, isAligned);
  storeFlags(entry, steps.getResults().take_front(flagSetters.size()));
  if (reductions)
    storeReduced(entry, chunkIndex, steps.getResults());
}

void NVVMKernelBuilder::storeReduced(LLVM::LLVMFuncOp entry, Value chunkIndex,
                                     ValueRange results) {
  SequenceBuilder b(builder, loc);
  Value slots = launch.getSlots(
      toGlobal(entry.getArgument(EntryArgument::workspace)), chunkIndex);
  Value steps = results[flagSetters.size()];
  SmallVector<Value> mine(results.drop_front(flagSetters.size() + 1));
  reductions->finish(b, mine, steps, [&](ArrayRef<Value> values) {
    for (auto [op, value] : llvm::zip(reduced, values))
      LLVM::StoreOp::create(builder, loc, value, launch.getSlot(slots, op));
  });
}

scf::ForOp NVVMKernelBuilder::buildSteps(const Chunk &chunk, Value isAligned) {
  SequenceBuilder b(builder, loc);
  Value lanes = launch.i64(width);
  SmallVector<Value> initial(flagSetters.size(),
                             b.integer(builder.getI1Type(), false));
  if (reductions) {
    initial.push_back(launch.i64(0));
    for (const auto &item : reductions->getItems())
      if (!item.isSum())
        initial.push_back(buildIdentity(b, item.kind, item.type));
  }
  // Steps are counted in 32 bits from the chunk's first element: a chunk has
  // fewer than 2^31 elements.
  Value first = b.resize(b.muli(thread, lanes), builder.getI32Type());
  Value count = b.resize(b.subi(chunk.end, chunk.begin), first.getType());
  Value stride = b.resize(b.muli(threads, lanes), first.getType());
  // Threads that meet in sums or shuffles must all take as many steps as the
  // first.
  return scf::ForOp::create(
      builder, loc, isCollective ? b.like(first, 0) : first, count, stride,
      initial, [&](OpBuilder &, Location, Value position, ValueRange state) {
        Value offset = isCollective ? b.addi(position, first) : position;
        Value index =
            b.addi(chunk.begin, b.resize(offset, builder.getI64Type()));
        buildStep(chunk, index, isAligned);
        scf::YieldOp::create(builder, loc, advanceState(chunk, state));
      });
}

SmallVector<Value> NVVMKernelBuilder::advanceState(const Chunk &chunk,
                                                   ValueRange state) {
  SequenceBuilder b(builder, loc);
  SmallVector<Value> next;
  for (auto [before, now] : llvm::zip(state, flagsByStep))
    next.push_back(b.ori(before, now));
  if (!reductions)
    return next;
  Value step = state[next.size()];
  reductions->addStep(b, summands, step);
  next.push_back(b.addi(step, launch.i64(1)));
  auto *extreme = extremes.begin();
  for (const auto &item : reductions->getItems())
    if (!item.isSum())
      next.push_back(buildJoin(b, item.kind, state[next.size()], *extreme++));
  return next;
}

void NVVMKernelBuilder::storeFlags(LLVM::LLVMFuncOp entry,
                                   ValueRange conditions) {
  for (auto [op, isSet] : llvm::zip(flagSetters, conditions)) {
    auto branch = scf::IfOp::create(builder, loc, isSet);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    SequenceBuilder b(builder, loc);
    LLVM::AtomicRMWOp::create(
        builder, loc, LLVM::AtomicBinOp::_or,
        toGlobal(entry.getArgument(EntryArgument::flags)),
        b.integer(builder.getI32Type(), uint64_t(1) << op.getFlag()),
        LLVM::AtomicOrdering::monotonic);
  }
}

Value NVVMKernelBuilder::toGlobal(Value pointer) {
  auto global = LLVM::LLVMPointerType::get(builder.getContext(), 1);
  return LLVM::AddrSpaceCastOp::create(builder, loc, global, pointer);
}
