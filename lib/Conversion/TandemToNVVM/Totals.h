//===- Totals.h - Reductions over tensors and the model ---------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the generated kernels that end a phase on a GPU.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTONVVM_TOTALS_H
#define TANDEM_LIB_CONVERSION_TANDEMTONVVM_TOTALS_H

#include "tandem/Conversion/LaunchABI.h"

namespace mlir::tandem {

/// Creates, behind a phase that makes reductions, the kernel
/// `tandem_<name>_totals`: with the entry's arguments, whose range counts
/// tensors, a block makes the totals of each of its tensors from the parts that
/// the chunks have left. Where some are over the model, one block of
/// `tandem_<name>_model` makes them from the tensors' totals.
void createTotals(KernelOp kernel, OpBuilder &builder, int32_t blockSize);

} // namespace mlir::tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_TOTALS_H
