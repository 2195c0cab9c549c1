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

/// Creates the kernels that complete the reductions of a phase, if it has any.
/// `tandem_<name>_totals` has the entry's arguments, with a range of tensors; a
/// block computes the totals of each of its tensors from the parts of the
/// chunks. If reductions span the model, one block of `tandem_<name>_model`
/// computes them from the tensors' totals. Reductions of rows and of columns
/// have a kernel each, with a thread for each row or column.
void createTotals(LaunchOp kernel, OpBuilder &builder);

/// Builds code for one thread that joins the tiles' parts of a row or a column.
/// The result replaces the first part.
void joinParts(LaunchBuilder &launch, SequenceBuilder &b, const Chunk &chunk,
               PartialOp op, Value position);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTONVVM_TOTALS_H
