//===- Reduction.h - Smaller graphs -----------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what tandem-reduce knows of graphs and kernels.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECT_TANDEM_TRANSFORMS_REDUCTION_H
#define TANDEM_DIALECT_TANDEM_TRANSFORMS_REDUCTION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::tandem {

/// Lets mlir-reduce's passes replace a value by one of its operands.
void registerReductionPatterns(DialectRegistry &registry);

} // namespace mlir::tandem

#endif // TANDEM_DIALECT_TANDEM_TRANSFORMS_REDUCTION_H
