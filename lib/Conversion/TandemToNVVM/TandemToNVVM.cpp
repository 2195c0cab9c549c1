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
#include "SharedMemory.h"
#include "Tables.h"
#include "WarpReduce.h"
#include "tandem/Conversion/TandemToNVVM/Passes.h"

namespace tandem {
#define GEN_PASS_DEF_CONVERTTANDEMTONVVM
#include "tandem/Conversion/TandemToNVVM/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// Checks that one warp holds all elements of a group, and of a block's row.
static LogicalResult verifyWarps(LaunchOp kernel) {
  for (Operation &op : kernel.getBodyBlock()) {
    int64_t size = 0;
    if (auto reduce = dyn_cast<ReduceOp>(op))
      size = reduce.getGroup();
    auto partial = dyn_cast<PartialOp>(op);
    if (partial && partial.getScope() == Granularity::block)
      size = kernel.getBlockSize();
    if (size > warpSize * int64_t(kernel.getWidth()))
      return op.emitError("reduces ")
             << size << " neighbours, more than a warp's " << warpSize
             << " threads have with " << int64_t(kernel.getWidth())
             << " each; run -tandem-widen with at least width="
             << size / warpSize;
  }
  return success();
}

static LogicalResult verify(LaunchOp kernel) {
  if (kernel.getWidth() < 2 && !kernel.isPerTensor())
    return kernel.emitError("a GPU kernel takes at least 2 elements a thread; "
                            "run -tandem-widen first");
  for (auto lookup : kernel.getBodyBlock().getOps<LookupOp>())
    if (lookup.getIndices().size() > 1)
      return lookup.emitError("'tandem.lookup' of two bytes is for CPUs, whose "
                              "caches hold the table; run "
                              "-tandem-tabulate=rows=false");
  return verifyWarps(kernel);
}

/// Builds the kernel that runs all phases of a launch on each band.
static void buildBands(ArrayRef<LaunchOp> phases) {
  LaunchOp first = phases.front();
  OpBuilder builder(first.getStep());
  Location loc = first.getLoc();
  LaunchBuilder launch(first, builder);
  LLVM::LLVMFuncOp entry =
      launch.createEntry(first.getFunctionName() + TDM_LAUNCH_BANDS);
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
  for (LaunchOp phase : phases)
    NVVMKernelBuilder(phase, builder)
        .buildBand(entry, bands.getInductionVar(), phase == phases.back());
}

namespace {
struct ConvertTandemToNVVMPass
    : public tandem::impl::ConvertTandemToNVVMBase<ConvertTandemToNVVMPass> {
  void runOnOperation() override {
    if (failed(verifyLowered(getOperation())))
      return signalPassFailure();
    for (StepOp step :
         llvm::make_early_inc_range(getOperation().getOps<StepOp>())) {
      for (LaunchOp launch : step.getLaunchOps())
        if (failed(verify(launch)))
          return signalPassFailure();
      convert(step);
      step.erase();
    }
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>())
      lowerLookups(function);
    if (failed(verifySharedMemory(getOperation())))
      return signalPassFailure();
  }

  void convert(StepOp step) {
    SmallVector<LaunchOp> launches = llvm::to_vector(step.getLaunchOps());
    for (ArrayRef<LaunchOp> left = launches; !left.empty();
         left = left.drop_front()) {
      buildBandsFrom(left);
      OpBuilder builder(step);
      NVVMKernelBuilder(left.front(), builder).build();
      ++numKernels;
    }
  }

  /// Builds the kernel for the first launch and those that are fused with it,
  /// if there are any.
  void buildBandsFrom(ArrayRef<LaunchOp> launches) {
    auto fused = launches.drop_front().take_while(
        [](LaunchOp launch) { return launch.getFusedWithPrevious(); });
    LaunchOp first = launches.front();
    if (fused.empty() || first.getFusedWithPrevious())
      return;
    buildBands(launches.take_front(fused.size() + 1));
    ++numBands;
  }
};
} // namespace
