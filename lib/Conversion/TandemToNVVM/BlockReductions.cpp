//===- BlockReductions.cpp - Reductions by a block's threads --------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements reductions over the threads of a block.
//
//===----------------------------------------------------------------------===//

#include "BlockReductions.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tandem;

static constexpr unsigned sharedSpace = 3;
static constexpr int64_t slotBytes = 8;

/// Declares an array of 8-byte slots in shared memory.
static Value declareShared(SequenceBuilder &b, LaunchOp kernel, StringRef name,
                           int64_t count) {
  auto type = LLVM::LLVMArrayType::get(b.builder.getF64Type(), count);
  LLVM::GlobalOp global;
  {
    OpBuilder::InsertionGuard guard(b.builder);
    b.builder.setInsertionPoint(kernel.getStep());
    global = LLVM::GlobalOp::create(
        b.builder, b.loc, type, /*isConstant=*/false, LLVM::Linkage::Internal,
        name, Attribute(), /*alignment=*/8, sharedSpace);
  }
  return LLVM::AddressOfOp::create(b.builder, b.loc, global);
}

BlockReductions::BlockReductions(SequenceBuilder &b, LaunchOp kernel,
                                 StringRef name, LaunchBuilder &launch,
                                 ArrayRef<Reduction> items, int64_t maxThreads)
    : launch(launch), items(items), maxWarps(maxThreads / warpSize) {
  Type i32 = b.builder.getI32Type();
  thread = NVVM::ThreadIdXOp::create(b.builder, b.loc, i32);
  lane = b.andi(thread, b.like(thread, warpSize - 1));
  warp = b.shr(thread, llvm::Log2_64(warpSize));
  Value threads = NVVM::BlockDimXOp::create(b.builder, b.loc, i32);
  numWarps = b.shr(threads, llvm::Log2_64(warpSize));
  int64_t perItem = maxWarps + TreeSum::maxLevels;
  Value shared = declareShared(b, kernel, name, items.size() * perItem);
  for (auto [index, item] : llvm::enumerate(items)) {
    Value slots =
        launch.advance(shared, launch.i64(index), slotBytes * perItem);
    warpSlots.push_back(slots);
    trees.emplace_back(launch,
                       launch.advance(slots, launch.i64(maxWarps), slotBytes),
                       item.type);
    (item.isSum() ? sums : extremes).push_back(index);
  }
}

void BlockReductions::buildForThread(SequenceBuilder &b, Value number,
                                     function_ref<void()> build) {
  Value isFirst =
      b.compare(arith::CmpIPredicate::eq, number, b.like(number, 0));
  auto branch = scf::IfOp::create(b.builder, b.loc, isFirst);
  OpBuilder::InsertionGuard guard(b.builder);
  b.builder.setInsertionPointToStart(branch.thenBlock());
  build();
}

/// Reduces the slots of all warps to the block's value in every warp.
Value BlockReductions::reduceWarps(SequenceBuilder &b, unsigned index) {
  const Reduction &item = items[index];
  Value slot = b.andi(lane, b.like(lane, maxWarps - 1));
  Value exists = b.compare(arith::CmpIPredicate::ult, slot, numWarps);
  Value place = launch.advance(
      warpSlots[index], b.resize(slot, b.builder.getI64Type()), slotBytes);
  Value value = b.select(exists, launch.load(place, item.type),
                         buildIdentity(b, item.kind, item.type));
  return reduceLanes(b, value, maxWarps, [&](Value x, Value y) {
    return buildJoin(b, item.kind, x, y);
  });
}

SmallVector<Value> BlockReductions::reduceBlock(SequenceBuilder &b,
                                                ArrayRef<unsigned> chosen,
                                                ArrayRef<Value> values) {
  SmallVector<Value> ofWarp, ofBlock;
  for (auto [index, value] : llvm::zip(chosen, values))
    ofWarp.push_back(reduceLanes(b, value, warpSize, [&](Value x, Value y) {
      return buildJoin(b, items[index].kind, x, y);
    }));
  Value warpIndex = b.resize(warp, b.builder.getI64Type());
  buildForThread(b, lane, [&] {
    for (auto [index, value] : llvm::zip(chosen, ofWarp))
      LLVM::StoreOp::create(
          b.builder, b.loc, value,
          launch.advance(warpSlots[index], warpIndex, slotBytes));
  });
  NVVM::Barrier0Op::create(b.builder, b.loc);
  for (unsigned index : chosen)
    ofBlock.push_back(reduceWarps(b, index));
  return ofBlock;
}

void BlockReductions::addStep(SequenceBuilder &b, ArrayRef<Value> values,
                              Value step) {
  if (sums.empty())
    return;
  SmallVector<Value> ofBlock = reduceBlock(b, sums, values);
  buildForThread(b, thread, [&] {
    for (auto [index, whole] : llvm::zip(sums, ofBlock))
      trees[index].addBlock(b, whole, step);
  });
  // The next step overwrites the slots.
  NVVM::Barrier0Op::create(b.builder, b.loc);
}

void BlockReductions::reduceStep(SequenceBuilder &b, ArrayRef<Value> summands,
                                 ArrayRef<Value> others,
                                 function_ref<void(ArrayRef<Value>)> build) {
  SmallVector<unsigned> chosen(sums);
  llvm::append_range(chosen, extremes);
  SmallVector<Value> values(summands), results(items.size());
  llvm::append_range(values, others);
  for (auto [index, value] : llvm::zip(chosen, reduceBlock(b, chosen, values)))
    results[index] = value;
  buildForThread(b, thread, [&] { build(results); });
  // The next step overwrites the slots.
  NVVM::Barrier0Op::create(b.builder, b.loc);
}

void BlockReductions::finish(SequenceBuilder &b, ArrayRef<Value> values,
                             Value steps,
                             function_ref<void(ArrayRef<Value>)> build) {
  SmallVector<Value> results(items.size());
  if (!extremes.empty()) {
    SmallVector<Value> ofBlock = reduceBlock(b, extremes, values);
    for (auto [index, value] : llvm::zip(extremes, ofBlock))
      results[index] = value;
    // The next chunk overwrites the slots.
    NVVM::Barrier0Op::create(b.builder, b.loc);
  }
  buildForThread(b, thread, [&] {
    for (unsigned index : sums)
      results[index] = trees[index].getTotal(b, steps);
    build(results);
  });
}
