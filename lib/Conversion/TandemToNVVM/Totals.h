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
#include "tandem/Dialect/Arith/Utils/SequenceBuilder.h"

namespace tandem {

/// Creates, after a phase that makes reductions, the kernel
/// `tandem_<name>_totals`: with the entry's arguments, whose range counts
/// tensors, a block makes the totals of each of its tensors from the parts that
/// the chunks have left. Where some are over the model, one block of
/// `tandem_<name>_model` makes them from the tensors' totals.
void createTotals(LaunchOp kernel, OpBuilder &builder);

/// Brings together what tiles have left of a row or a column, in place of the
/// first part. One thread does.
void joinParts(LaunchBuilder &launch, SequenceBuilder &b, const Chunk &chunk,
               PartialOp op, Value position);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_TOTALS_H
