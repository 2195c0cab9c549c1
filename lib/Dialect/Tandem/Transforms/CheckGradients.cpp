//===- CheckGradients.cpp - Report non-finite gradients -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the pass that makes kernels report gradients that are
// not finite.
//
//===----------------------------------------------------------------------===//

#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"
#include "tandem/Dialect/Tandem/Transforms/Passes.h"

namespace tandem {
#define GEN_PASS_DEF_CHECKGRADIENTS
#include "tandem/Dialect/Tandem/Transforms/Passes.h.inc"
} // namespace tandem

using namespace mlir;
using namespace tandem;

/// The launch's flag for gradients, TDM_FLAG_NON_FINITE of the runtime.
static constexpr int64_t nonFiniteFlag = 0;

static bool isGradient(KernelOp kernel, Value tensor) {
  unsigned index = cast<BlockArgument>(tensor).getArgNumber();
  return kernel.getTensorRole(index).getKind() == RoleKind::grad;
}

/// Returns the format of a gradient's elements, or null for tensors that are
/// not checked: others, scales, and codes that are not floats.
static Type getCheckedFormat(KernelOp kernel, LoadPlaneOp op) {
  Plane plane =
      op.getTensor().getType().getStorage().getPlanes()[op.getPlane()];
  bool isChecked = isGradient(kernel, op.getTensor()) &&
                   plane.group == Group() && isa<FloatType>(plane.elementType);
  return isChecked ? plane.elementType : Type();
}

/// Returns the bits of a load. A load of floats becomes one of bits.
static Value loadBits(LoadPlaneOp op) {
  if (!isa<FloatType>(op.getType()))
    return op.getResult();
  OpBuilder builder(op);
  SequenceBuilder b(builder, op.getLoc());
  auto load = LoadPlaneOp::create(builder, b.loc, getBitsType(op.getType()),
                                  op.getTensor(), op.getPlane());
  op.replaceAllUsesWith(b.bitcast(load, op.getType()));
  op.erase();
  return load;
}

/// Raises the flag unless the value of the bits is finite.
static void check(Value bits, FloatFormat format) {
  OpBuilder builder(bits.getContext());
  builder.setInsertionPointAfterValue(bits);
  SequenceBuilder b(builder, bits.getLoc());
  // Without the sign, codes compare as signed integers, which every
  // instruction set can do.
  Value magnitude = b.andi(bits, b.like(bits, format.magnitudeMask()));
  Value isNotFinite = b.compare(arith::CmpIPredicate::sgt, magnitude,
                                b.like(bits, format.maxFinite()));
  SetFlagOp::create(builder, b.loc, isNotFinite, nonFiniteFlag);
}

namespace {
struct CheckGradientsPass
    : public tandem::impl::CheckGradientsBase<CheckGradientsPass> {
  void runOnOperation() override {
    KernelOp kernel = getOperation();
    for (auto load :
         llvm::to_vector(kernel.getBodyBlock().getOps<LoadPlaneOp>()))
      if (Type format = getCheckedFormat(kernel, load)) {
        check(loadBits(load), FloatFormat::get(format));
        ++numChecked;
      }
  }
};
} // namespace
