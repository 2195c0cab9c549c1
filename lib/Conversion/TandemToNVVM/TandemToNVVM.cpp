//===- TandemToNVVM.cpp - Kernels as NVVM functions -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of kernels to NVVM kernels of the launch
// ABI.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"
#include "WarpReduce.h"
#include "tandem/Conversion/MemoryLimits.h"
#include "tandem/Conversion/Passes.h"

namespace mlir::tandem {
#define GEN_PASS_DEF_CONVERTTANDEMTONVVM
#include "tandem/Conversion/Passes.h.inc"
} // namespace mlir::tandem

using namespace mlir;
using namespace mlir::tandem;

/// What meets in a group or across a block is in the hands of one warp.
static LogicalResult verifyWarps(KernelOp kernel) {
  for (Operation &op : kernel.getBodyBlock()) {
    int64_t size = 0;
    if (auto reduce = dyn_cast<ReduceOp>(op))
      size = reduce.getGroup();
    auto partial = dyn_cast<PartialOp>(op);
    if (partial && partial.getScope() == Scope::block)
      size = kernel.getBlock();
    if (size > warpSize * int64_t(kernel.getWidth()))
      return op.emitError("reduces ")
             << size << " neighbours, more than a warp's " << warpSize
             << " threads have with " << int64_t(kernel.getWidth())
             << " each; run -tandem-widen with at least width="
             << size / warpSize;
  }
  return success();
}

static LogicalResult verify(KernelOp kernel) {
  if (kernel.getWidth() < 2 && !kernel.isPerTensor())
    return kernel.emitError("a GPU kernel takes at least 2 elements a thread; "
                            "run -tandem-widen first");
  auto lookups = kernel.getBodyBlock().getOps<LookupOp>();
  if (!lookups.empty())
    return (*lookups.begin())
        .emitError("'tandem.lookup' is for CPUs, whose caches hold tables; "
                   "leave out -tandem-tabulate");
  return success(succeeded(verifyLowered(kernel)) &&
                 succeeded(verifyWarps(kernel)));
}

/// Builds the kernel that takes each block through all phases of a launch,
/// band by band.
static void buildBands(ArrayRef<KernelOp> phases) {
  KernelOp first = phases.front();
  OpBuilder builder(first);
  Location loc = first.getLoc();
  LaunchBuilder launch(first, builder);
  LLVM::LLVMFuncOp entry =
      launch.createEntry((first.getSymName() + "_bands").str());
  markKernel(entry, blockSize);
  builder.setInsertionPointToStart(&entry.getBody().front());
  SequenceBuilder b(builder, loc);
  Value block = readRegister<NVVM::BlockIdXOp>(builder, loc);
  Value blocks = readRegister<NVVM::GridDimXOp>(builder, loc);
  auto [begin, end] = launch.getRangeUnlessSkipped(entry);
  auto bands =
      scf::ForOp::create(builder, loc, b.addi(begin, block), end, blocks);
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  builder.setInsertionPoint(bands.getBody()->getTerminator());
  for (KernelOp phase : phases)
    NVVMKernelBuilder(phase, builder)
        .buildBand(entry, bands.getInductionVar(), phase == phases.back());
}

namespace {
struct ConvertTandemToNVVMPass
    : public tandem::impl::ConvertTandemToNVVMBase<ConvertTandemToNVVMPass> {
  void runOnOperation() override {
    SmallVector<KernelOp> kernels(getOperation().getOps<KernelOp>());
    for (KernelOp kernel : kernels)
      if (failed(verify(kernel)))
        return signalPassFailure();
    if (failed(joinLaunches(kernels)))
      return signalPassFailure();
    for (KernelOp kernel : kernels) {
      OpBuilder builder(kernel);
      NVVMKernelBuilder(kernel, builder).build();
      kernel.erase();
      ++numKernels;
    }
    if (failed(verifySharedMemory(getOperation())))
      return signalPassFailure();
  }

  /// Builds what runs phases that continue each other.
  LogicalResult joinLaunches(ArrayRef<KernelOp> kernels) {
    while (!kernels.empty()) {
      KernelOp first = kernels.front();
      if (first.getContinues())
        return first.emitError("continues a launch, but is behind no phase; "
                               "leave out 'continues'");
      ArrayRef<KernelOp> behind = kernels.drop_front().drop_while(
          [](KernelOp kernel) { return bool(kernel.getContinues()); });
      ArrayRef<KernelOp> phases = kernels.drop_back(behind.size());
      kernels = behind;
      if (phases.size() == 1)
        continue;
      buildBands(phases);
      ++numBands;
    }
    return success();
  }
};
} // namespace
