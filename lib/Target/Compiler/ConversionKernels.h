//===- ConversionKernels.h - Kernels that no graph has ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the kernels that move values between storages. They are
// built from the storages, not compiled from a graph.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_COMPILER_CONVERSIONKERNELS_H
#define TANDEM_LIB_TARGET_COMPILER_CONVERSIONKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "tandem/Dialect/Tandem/IR/Tandem.h"

namespace tandem {

/// The tensors that a kernel reads and writes: states "to0", "to1", ... and
/// gradients "from0", "from1", ..., in this order. All storages must support
/// the f32 policy.
struct ConversionTensors {
  SmallVector<StorageAttrInterface> targets, sources;
  /// Whether tensors are matrices, in which each row starts a new group.
  bool isMatrix = false;
  /// Whether targets are second moments, in which no positive value becomes
  /// zero.
  bool hasFloor = false;
};

/// Builds a kernel that decodes the source to f32 and encodes the result in the
/// target. If `adds` is set, it encodes the f32 sum of the target's old value
/// and the source's.
OwningOpRef<ModuleOp> buildConversion(MLIRContext *context,
                                      const ConversionTensors &tensors,
                                      bool adds);

/// Builds a kernel that writes a sum of planes of one format as a sum of planes
/// of another. Each plane is the rounding of what the planes before it leave
/// over. All sums are exact, so that nothing is lost before the last plane.
/// Each plane is a separate tensor.
OwningOpRef<ModuleOp> buildRenormalization(MLIRContext *context,
                                           PlaneSum source, PlaneSum target);

/// Builds a kernel that encodes the sum of the sources, which it adds up in f32
/// in their order, and counts the codes that saturate at the largest number.
OwningOpRef<ModuleOp> buildSum(MLIRContext *context,
                               const ConversionTensors &tensors);

/// Builds a kernel that loads each source and ignores the result. The pass
/// -tandem-check-gradients adds the checks of what it loads.
OwningOpRef<ModuleOp> buildLoads(MLIRContext *context,
                                 const ConversionTensors &tensors);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_COMPILER_CONVERSIONKERNELS_H
