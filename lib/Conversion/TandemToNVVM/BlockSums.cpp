//===- BlockSums.cpp - Sums by the threads of a block ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements sums over chunks by the threads of a block.
//
//===----------------------------------------------------------------------===//

#include "BlockSums.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tandem;

/// Address space of a block's shared memory.
static constexpr unsigned sharedSpace = 3;

/// Declares `count` f64 of shared memory; a pointer to them.
static Value declareShared(SequenceBuilder &b, KernelOp kernel, int64_t count) {
  auto type = LLVM::LLVMArrayType::get(b.builder.getF64Type(), count);
  LLVM::GlobalOp global;
  {
    OpBuilder::InsertionGuard guard(b.builder);
    b.builder.setInsertionPoint(kernel);
    global = LLVM::GlobalOp::create(
        b.builder, b.loc, type, /*isConstant=*/false, LLVM::Linkage::Internal,
        getEntryName(kernel.getSymName()) + "_sums", Attribute(),
        /*alignment=*/8, sharedSpace);
  }
  return LLVM::AddressOfOp::create(b.builder, b.loc, global);
}

BlockSums::BlockSums(SequenceBuilder &b, KernelOp kernel, LaunchBuilder &launch,
                     int64_t maxThreads)
    : launch(launch), maxWarps(maxThreads / warpSize) {
  Type i32 = b.builder.getI32Type();
  thread = NVVM::ThreadIdXOp::create(b.builder, b.loc, i32);
  lane = b.andi(thread, b.like(thread, warpSize - 1));
  warp = b.shr(thread, llvm::Log2_64(warpSize));
  Value threads = NVVM::BlockDimXOp::create(b.builder, b.loc, i32);
  numWarps = b.shr(threads, llvm::Log2_64(warpSize));
  int64_t count = kernel.getNumMetrics();
  int64_t perMetric = maxWarps + TreeSum::maxLevels;
  Value shared = declareShared(b, kernel, count * perMetric);
  for (int64_t i = 0; i < count; ++i) {
    Value slots = launch.advance(shared, launch.i64(i), 8 * perMetric);
    warpSlots.push_back(slots);
    sums.emplace_back(launch, launch.advance(slots, launch.i64(maxWarps), 8));
  }
}

void BlockSums::buildForThread(SequenceBuilder &b, Value number,
                               function_ref<void()> build) {
  Value isFirst =
      b.compare(arith::CmpIPredicate::eq, number, b.like(number, 0));
  auto branch = scf::IfOp::create(b.builder, b.loc, isFirst);
  OpBuilder::InsertionGuard guard(b.builder);
  b.builder.setInsertionPointToStart(branch.thenBlock());
  build();
}

/// Every lane sums the slots of as many warps as a block may have; the ones
/// that this block lacks are -0.0, which changes no sum.
Value BlockSums::sumWarps(SequenceBuilder &b, Value slots) {
  Type f64 = b.builder.getF64Type();
  Value slot = b.andi(lane, b.like(lane, maxWarps - 1));
  Value exists = b.compare(arith::CmpIPredicate::ult, slot, numWarps);
  Value place =
      launch.advance(slots, b.resize(slot, b.builder.getI64Type()), 8);
  Value sum = b.select(exists, launch.load(place, f64), b.real(f64, -0.0));
  return reduceLanes(b, sum, maxWarps,
                     [&](Value x, Value y) { return b.add(x, y); });
}

void BlockSums::addStep(SequenceBuilder &b, ArrayRef<Value> values, Value count,
                        Value step) {
  SmallVector<Value> ofWarp;
  for (Value value : values)
    ofWarp.push_back(
        reduceLanes(b, sumLanes(b, value, count), warpSize,
                    [&](Value x, Value y) { return b.add(x, y); }));
  Value warpIndex = b.resize(warp, b.builder.getI64Type());
  buildForThread(b, lane, [&] {
    for (auto [sum, slots] : llvm::zip(ofWarp, warpSlots))
      LLVM::StoreOp::create(b.builder, b.loc, sum,
                            launch.advance(slots, warpIndex, 8));
  });
  NVVM::Barrier0Op::create(b.builder, b.loc);
  SmallVector<Value> ofBlock;
  for (Value slots : warpSlots)
    ofBlock.push_back(sumWarps(b, slots));
  buildForThread(b, thread, [&] {
    for (auto [sum, whole] : llvm::zip(sums, ofBlock))
      sum.addBlock(b, whole, step);
  });
  // The next step writes the slots again.
  NVVM::Barrier0Op::create(b.builder, b.loc);
}

void BlockSums::store(SequenceBuilder &b, Value slots, Value steps) {
  buildForThread(b, thread, [&] {
    for (auto [index, sum] : llvm::enumerate(sums))
      LLVM::StoreOp::create(b.builder, b.loc, sum.getTotal(b, steps),
                            launch.advance(slots, launch.i64(index), 8));
  });
}
