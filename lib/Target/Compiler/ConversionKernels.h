//===- ConversionKernels.h - Kernels that no graph has ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the kernels that move values between storages, which are
// built for storages and not compiled from a graph.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_COMPILER_CONVERSIONKERNELS_H
#define TANDEM_LIB_TARGET_COMPILER_CONVERSIONKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"

namespace tandem {

/// The tensors that a kernel reads and writes: states "to0", "to1", ... and
/// gradients "from0", "from1", ..., in this order. All storages work under the
/// f32 policy.
struct ConversionTensors {
  SmallVector<StorageAttrInterface> targets, sources;
  /// Whether tensors are matrices, whose groups begin anew in each row.
  bool isMatrix = false;
  /// Whether targets are second moments, in which nothing positive becomes
  /// zero.
  bool hasFloor = false;
};

/// A kernel that decodes the source to f32 and encodes that in the target. If
/// it `adds`, it encodes the f32 sum of the target's old value and the
/// source's.
OwningOpRef<ModuleOp> buildConversion(MLIRContext *context,
                                      const ConversionTensors &tensors,
                                      bool adds);

/// A kernel that writes a sum of planes of one format as a sum of planes of
/// another: each plane is the rounding of what the planes before it leave. It
/// computes exact sums only, so that nothing is lost before the last plane.
/// Each plane is a tensor of its own.
OwningOpRef<ModuleOp> buildRenormalization(MLIRContext *context,
                                           PlaneSum source, PlaneSum target);

/// A kernel that encodes the sum of the sources, added up in f32 in their
/// order, and counts the codes that have become the largest number.
OwningOpRef<ModuleOp> buildSum(MLIRContext *context,
                               const ConversionTensors &tensors);

/// Builds a kernel that loads each source and does nothing with it. The pass
/// -tandem-check-gradients makes it look at what it loads.
OwningOpRef<ModuleOp> buildLoads(MLIRContext *context,
                                 const ConversionTensors &tensors);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_COMPILER_CONVERSIONKERNELS_H
