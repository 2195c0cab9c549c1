//===- TandemToCPU.cpp - Kernels as functions for CPUs --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of kernels to functions of the launch ABI
// for CPUs.
//
//===----------------------------------------------------------------------===//

#include "PairedLanes.h"
#include "Schedule.h"
#include "TreeSum.h"
#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Conversion/Passes.h"
#include "tandem/Support/SequenceBuilder.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_CONVERTTANDEMTOCPU
#include "tandem/Conversion/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

/// How far ahead planes are fetched, and the unit in which they are.
static constexpr int64_t prefetchBytes = 1024, lineBytes = 64;

namespace {
/// Builds the loop over chunks and, inside, over blocks of `width` elements.
class CPUKernelBuilder {
public:
  explicit CPUKernelBuilder(KernelOp kernel)
      : kernel(kernel), builder(kernel), launch(kernel, builder),
        loc(kernel.getLoc()), width(kernel.getWidth()),
        planes(launch.getPlanes()), lanes(kernel) {}

  void build();

private:
  void createScratch();
  /// Fetches what a later block will need: the arithmetic of one leaves the
  /// processor no room to see the loads of the next, and it keeps more streams
  /// than its own prefetchers follow.
  void prefetch(ArrayRef<Value> pointers);
  void buildBlock(const Chunk &chunk, Value index);
  void buildBody(const Chunk &chunk, Value index, ArrayRef<Value> pointers);
  /// The code of one of the body's operations.
  void buildOperation(const Chunk &chunk, Value index, ArrayRef<Value> pointers,
                      Operation *op, IRMapping &mapping);
  void createSums();
  void addToSum(const Chunk &chunk, Value index, MetricOp op, Value value);
  /// Writes the chunk's sums to its slots of the workspace.
  void storeSums(LLVM::LLVMFuncOp entry, const Chunk &chunk, Value chunkIndex);
  /// Copies the first `count` elements between planes and scratch.
  void copyTail(ArrayRef<Value> pointers, Value count, bool toScratch);

  KernelOp kernel;
  OpBuilder builder;
  LaunchBuilder launch;
  Location loc;
  int64_t width;
  SmallVector<LaunchBuilder::PlaneInfo> planes;
  PairedLanes lanes;
  /// One block of elements per plane, where a chunk's partial block is
  /// computed.
  SmallVector<Value> scratch;
  /// One sum per metric of the kernel.
  SmallVector<TreeSum> sums;
};
} // namespace

void CPUKernelBuilder::createScratch() {
  if (width == 1)
    return;
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  for (const auto &plane : planes)
    scratch.push_back(LLVM::AllocaOp::create(
        builder, loc, pointer, VectorType::get({width}, plane.bits),
        launch.i64(1), /*alignment=*/64));
}

void CPUKernelBuilder::build() {
  launch.createPrologue();
  LLVM::LLVMFuncOp entry = launch.createEntry();
  builder.setInsertionPointToStart(&entry.getBody().front());
  createScratch();
  createSums();
  auto chunks = scf::ForOp::create(builder, loc, entry.getArgument(5),
                                   entry.getArgument(6), launch.i64(1));
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPoint(chunks.getBody()->getTerminator());
  Chunk chunk = launch.readChunk(entry, chunks.getInductionVar());
  auto blocks = scf::ForOp::create(builder, loc, chunk.begin, chunk.end,
                                   launch.i64(width));
  builder.setInsertionPoint(blocks.getBody()->getTerminator());
  buildBlock(chunk, blocks.getInductionVar());
  builder.setInsertionPointAfter(blocks);
  storeSums(entry, chunk, chunks.getInductionVar());
}

void CPUKernelBuilder::createSums() {
  int64_t count = 0;
  for (auto op : kernel.getBodyBlock().getOps<MetricOp>())
    count = std::max<int64_t>(count, op.getIndex() + 1);
  SequenceBuilder b(builder, loc);
  for (int64_t i = 0; i < count; ++i)
    sums.emplace_back(b, launch);
}

void CPUKernelBuilder::addToSum(const Chunk &chunk, Value index, MetricOp op,
                                Value value) {
  SequenceBuilder b(builder, loc);
  Value offset = b.subi(index, chunk.begin);
  Value block = b.shr(offset, llvm::Log2_64(width));
  sums[op.getIndex()].addBlock(b, value, block, b.subi(chunk.end, index));
}

void CPUKernelBuilder::storeSums(LLVM::LLVMFuncOp entry, const Chunk &chunk,
                                 Value chunkIndex) {
  if (sums.empty())
    return;
  SequenceBuilder b(builder, loc);
  Value size = b.subi(chunk.end, chunk.begin);
  Value blocks =
      b.shr(b.addi(size, launch.i64(width - 1)), llvm::Log2_64(width));
  Value slots =
      launch.advance(entry.getArgument(3), chunkIndex, 8 * sums.size());
  for (auto [index, sum] : llvm::enumerate(sums))
    LLVM::StoreOp::create(builder, loc, sum.getTotal(b, blocks),
                          launch.advance(slots, launch.i64(index), 8));
}

/// A full block works on the planes, a partial one on a copy of its elements.
void CPUKernelBuilder::buildBlock(const Chunk &chunk, Value index) {
  SmallVector<Value> pointers;
  for (auto [pointer, plane] : llvm::zip(chunk.planes, planes))
    pointers.push_back(launch.advance(pointer, index, plane.bytes));
  if (width == 1)
    return buildBody(chunk, index, pointers);
  prefetch(pointers);
  SequenceBuilder b(builder, loc);
  Value count = b.subi(chunk.end, index);
  Value isPartial =
      b.compare(arith::CmpIPredicate::slt, count, launch.i64(width));
  auto conditionally = [&](auto build) {
    auto branch = scf::IfOp::create(builder, loc, isPartial);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    build();
  };
  conditionally([&] { copyTail(pointers, count, /*toScratch=*/true); });
  SmallVector<Value> chosen;
  for (auto [pointer, block] : llvm::zip(pointers, scratch))
    chosen.push_back(
        LLVM::SelectOp::create(builder, loc, isPartial, block, pointer));
  buildBody(chunk, index, chosen);
  conditionally([&] { copyTail(pointers, count, /*toScratch=*/false); });
}

void CPUKernelBuilder::prefetch(ArrayRef<Value> pointers) {
  for (auto [pointer, plane] : llvm::zip(pointers, planes))
    for (int64_t line = 0; line < width * plane.bytes; line += lineBytes) {
      LLVM::GEPArg offset(int32_t(prefetchBytes + line));
      Value address = LLVM::GEPOp::create(builder, loc, pointer.getType(),
                                          builder.getI8Type(), pointer,
                                          ArrayRef<LLVM::GEPArg>{offset});
      LLVM::Prefetch::create(builder, loc, address, /*rw=*/0, /*hint=*/3,
                             /*cache=*/1);
    }
}

void CPUKernelBuilder::copyTail(ArrayRef<Value> pointers, Value count,
                                bool toScratch) {
  SequenceBuilder b(builder, loc);
  for (auto [pointer, block, plane] : llvm::zip(pointers, scratch, planes)) {
    if (toScratch ? !plane.isRead : !plane.isWritten)
      continue;
    if (toScratch) {
      // Lanes beyond the end compute on zeros; nobody reads them.
      Value zeros = b.integer(VectorType::get({width}, plane.bits), 0);
      LLVM::StoreOp::create(builder, loc, zeros, block, /*alignment=*/64);
    }
    Value bytes = b.muli(count, launch.i64(plane.bytes));
    LLVM::MemcpyOp::create(builder, loc, toScratch ? block : pointer,
                           toScratch ? pointer : block, bytes,
                           /*isVolatile=*/false);
  }
}

void CPUKernelBuilder::buildBody(const Chunk &chunk, Value index,
                                 ArrayRef<Value> pointers) {
  IRMapping mapping;
  for (auto [uniform, value] : llvm::zip(kernel.getUniforms(), chunk.uniforms))
    mapping.map(Value(uniform), value);
  for (Operation *op : schedule(kernel.getBodyBlock()))
    buildOperation(chunk, index, pointers, op, mapping);
}

void CPUKernelBuilder::buildOperation(const Chunk &chunk, Value index,
                                      ArrayRef<Value> pointers, Operation *op,
                                      IRMapping &mapping) {
  SequenceBuilder b(builder, loc);
  auto define = [&](Value value) { mapping.map(op->getResult(0), value); };
  if (auto load = dyn_cast<LoadPlaneOp>(op)) {
    unsigned plane = launch.getPlaneIndex(load.getTensor(), load.getPlane());
    define(LLVM::LoadOp::create(builder, loc, load.getType(), pointers[plane],
                                planes[plane].bytes));
  } else if (auto store = dyn_cast<StorePlaneOp>(op)) {
    unsigned plane = launch.getPlaneIndex(store.getTensor(), store.getPlane());
    LLVM::StoreOp::create(builder, loc, mapping.lookup(store.getValue()),
                          pointers[plane], planes[plane].bytes);
  } else if (auto metric = dyn_cast<MetricOp>(op)) {
    Value value = lanes.inOrder(b, mapping.lookup(metric.getValue()));
    addToSum(chunk, index, metric, value);
  } else if (auto draw = dyn_cast<RandomBitsOp>(op)) {
    RandomSource source = chunk.getRandomSource(b, draw, index, mapping);
    define(lanes.extend(b, buildRandomBits(b, source, width)));
  } else if (lanes.isExtension(op)) {
    define(lanes.extend(b, mapping.lookup(op->getOperand(0))));
  } else if (lanes.isTruncation(op)) {
    define(lanes.truncate(b, mapping.lookup(op->getOperand(0))));
  } else {
    builder.clone(*op, mapping);
  }
}

namespace {
struct ConvertTandemToCPUPass
    : public tandem::impl::ConvertTandemToCPUBase<ConvertTandemToCPUPass> {
  void runOnOperation() override {
    for (auto kernel :
         llvm::make_early_inc_range(getOperation().getOps<KernelOp>())) {
      if (failed(verifyLowered(kernel)))
        return signalPassFailure();
      CPUKernelBuilder(kernel).build();
      kernel.erase();
      ++numKernels;
    }
  }
};
} // namespace
