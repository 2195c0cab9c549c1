//===- CountRoundings.cpp - Count the operations that round ---------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a pass over Tandem's kernels that counts the operations
// whose results are rounded, by format.
//
//===----------------------------------------------------------------------===//

#include "Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/MapVector.h"

namespace my {
#define GEN_PASS_DEF_COUNTROUNDINGS
#include "Passes.h.inc"
} // namespace my

using namespace mlir;

/// Returns whether the roundings of `op` are not explicit yet, because it
/// computes on real numbers or on expansions.
static bool hidesRoundings(Operation &op) {
  return isa_and_nonnull<tandem::mcf::MCFDialect>(op.getDialect()) ||
         isa<tandem::LoadOp, tandem::StoreOp, tandem::AccumulateOp,
             tandem::DecayOp, tandem::EmaOp>(op);
}

/// Returns whether `op` is an operation of arith or math with an exact result.
static bool isExact(Operation &op) {
  return isa<arith::ConstantOp, arith::BitcastOp, arith::ExtFOp, arith::NegFOp,
             arith::SelectOp, arith::RemFOp, arith::MaximumFOp,
             arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp,
             math::AbsFOp, math::CopySignOp, math::CeilOp, math::FloorOp,
             math::RoundOp, math::RoundEvenOp, math::TruncOp>(op);
}

/// Returns the format that `op` rounds to, or null.
static FloatType getRounding(Operation &op) {
  if (!isa<arith::ArithDialect, math::MathDialect>(op.getDialect()) ||
      op.getNumResults() != 1 || isExact(op))
    return {};
  return dyn_cast<FloatType>(getElementTypeOrSelf(op.getResult(0)));
}

namespace {
struct CountRoundings : my::impl::CountRoundingsBase<CountRoundings> {
  using CountRoundingsBase::CountRoundingsBase;

  void runOnOperation() override {
    tandem::KernelOp kernel = getOperation();
    llvm::MapVector<FloatType, int64_t> counts;
    WalkResult walk = kernel.getBody().walk([&](Operation *op) {
      if (hidesRoundings(*op))
        return reportHidden(kernel, *op);
      if (FloatType format = getRounding(*op))
        ++counts[format];
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return signalPassFailure();
    annotate(kernel, counts);
  }

private:
  WalkResult reportHidden(tandem::KernelOp kernel, Operation &op) {
    op.emitError("the roundings of '")
        << op.getName() << "' are not spelled out yet; run -tandem-to-kernel "
        << "on the graph of kernel '" << kernel.getSymName()
        << "' before -count-roundings";
    return WalkResult::interrupt();
  }

  void annotate(tandem::KernelOp kernel,
                llvm::MapVector<FloatType, int64_t> &counts) {
    Builder builder(kernel.getContext());
    SmallVector<NamedAttribute> entries;
    for (auto [format, count] : counts) {
      std::string name;
      llvm::raw_string_ostream(name) << format;
      entries.emplace_back(name, builder.getI64IntegerAttr(count));
      numRoundings += count;
    }
    kernel->setAttr("roundings", builder.getDictionaryAttr(entries));

    auto format = cast<FloatType>(kernel.getCompute().getFormat());
    if (remark)
      kernel.emitRemark("kernel '")
          << kernel.getSymName() << "' computes in " << format << ": "
          << counts.lookup(format) << " roundings to it for each element";
  }
};
} // namespace
