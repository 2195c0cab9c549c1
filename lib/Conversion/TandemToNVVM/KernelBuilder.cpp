//===- KernelBuilder.cpp - Kernels as NVVM functions ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the launch of a kernel over chunks and tensors.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "Totals.h"
#include "llvm/ADT/TypeSwitch.h"

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

void NVVMKernelBuilder::build() {
  // The launches of a step have the same prologue.
  if (kernel.getRole() == LaunchRole::main)
    markKernel(launch.createPrologue(), 1);
  createTotals(kernel, builder);
  LLVM::LLVMFuncOp entry = launch.createEntry();
  markKernel(entry, blockSize);
  builder.setInsertionPointToStart(&entry.getBody().front());
  SequenceBuilder b(builder, loc);
  Value block = sreg<NVVM::BlockIdXOp>(), blocks = sreg<NVVM::GridDimXOp>();
  begin(entry.getSymName().str() + "_parts");
  if (kernel.isPerTensor())
    return buildEpilogue(entry);
  auto [first, end] = launch.getRangeUnlessSkipped(entry);
  auto chunks =
      scf::ForOp::create(builder, loc, b.addi(first, block), end, blocks);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPoint(chunks.getBody()->getTerminator());
  if (kernel.isAlongRows())
    buildTile(entry, launch.readTile(entry, chunks.getInductionVar()));
  else
    buildChunk(entry, chunks.getInductionVar());
}

/// The values of the kernel's body that a block reduces.
void NVVMKernelBuilder::buildReductions(StringRef name) {
  SmallVector<BlockReductions::Item> items;
  columns.emplace(kernel, launch);
  for (Operation &op : kernel.getBodyBlock()) {
    auto partial = dyn_cast<PartialOp>(op);
    bool isColumn = partial && partial.isDownColumns();
    if (isColumn || (!partial && !isa<MetricOp>(op)))
      continue;
    reduced.push_back(&op);
    items.push_back({partial ? partial.getKind() : ReduceKind::sum,
                     getElementTypeOrSelf(op.getOperand(0).getType())});
  }
  SequenceBuilder b(builder, loc);
  if (!reduced.empty())
    reductions.emplace(b, kernel, name, launch, items, blockSize);
}

void NVVMKernelBuilder::buildEpilogue(LLVM::LLVMFuncOp entry) {
  SequenceBuilder b(builder, loc);
  Value block = sreg<NVVM::BlockIdXOp>(), blocks = sreg<NVVM::GridDimXOp>();
  Value first = b.addi(b.muli(block, threads), thread);
  auto [begin, end] = launch.getRangeUnlessSkipped(entry);
  auto tensors = scf::ForOp::create(builder, loc, b.addi(begin, first), end,
                                    b.muli(blocks, threads));
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPoint(tensors.getBody()->getTerminator());
  Chunk chunk = launch.readTensor(entry, tensors.getInductionVar());
  auto branch = scf::IfOp::create(
      builder, loc,
      b.compare(arith::CmpIPredicate::ne, chunk.size, launch.i64(0)));
  builder.setInsertionPointToStart(branch.thenBlock());
  launch.mapShared(chunk, mapping);
  for (Operation &op : kernel.getBodyBlock().without_terminator()) {
    auto accessed = [&] { return toGlobal(chunk.planes[planeOf(&op)]); };
    if (isa<ReductionResultOp, SizeOp>(op))
      continue;
    if (auto load = dyn_cast<LoadPlaneOp>(op))
      mapping.map(load.getResult(),
                  LLVM::LoadOp::create(builder, loc, load.getType(), accessed())
                      .getResult());
    else if (auto store = dyn_cast<StorePlaneOp>(op))
      LLVM::StoreOp::create(builder, loc, mapping.lookup(store.getValue()),
                            accessed());
    else if (auto loaded = dyn_cast<LoadHistoryOp>(op))
      mapping.map(loaded.getResult(), launch.loadHistory(loaded, accessed()));
    else if (auto pushed = dyn_cast<PushHistoryOp>(op))
      launch.pushHistory(pushed, accessed(), mapping.lookup(pushed.getValue()));
    else
      builder.clone(op, mapping);
  }
}

void NVVMKernelBuilder::buildChunk(LLVM::LLVMFuncOp entry, Value chunkIndex) {
  Chunk chunk = launch.readChunk(entry, chunkIndex);
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
  Value offset = b.muli(thread, lanes);
  SmallVector<Value> initial(flagSetters.size(),
                             b.integer(builder.getI1Type(), false));
  if (reductions) {
    initial.push_back(launch.i64(0));
    for (const auto &item : reductions->getItems())
      if (!item.isSum())
        initial.push_back(BlockReductions::getIdentity(b, item));
  }
  // Threads that meet in sums or shuffles take as many steps as the first one.
  return scf::ForOp::create(
      builder, loc, isCollective ? chunk.begin : b.addi(chunk.begin, offset),
      chunk.end, b.muli(threads, lanes), initial,
      [&](OpBuilder &, Location, Value position, ValueRange state) {
        Value index = isCollective ? b.addi(position, offset) : position;
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
      next.push_back(
          BlockReductions::join(b, item, state[next.size()], *extreme++));
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

unsigned NVVMKernelBuilder::planeOf(Operation *access) {
  return llvm::TypeSwitch<Operation *, unsigned>(access)
      .Case<LoadPlaneOp, StorePlaneOp, LoadHistoryOp, PushHistoryOp>(
          [&](auto op) {
            return launch.getPlaneIndex(op.getTensor(), op.getPlane());
          });
}
