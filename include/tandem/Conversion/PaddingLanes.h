//===- PaddingLanes.h - Lanes beyond a tensor's end -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the analysis of the values in lanes of a vector that have
// no element.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_PADDINGLANES_H
#define TANDEM_CONVERSION_PADDINGLANES_H

#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Returns whether a flag's condition may hold in lanes beyond a tensor's end,
/// where planes are read as zeros. If it cannot, no mask is needed. The flag of
/// gradients that are not finite is such a case.
bool mayHoldInPadding(SetFlagOp setFlag);

/// Returns whether the value that an operation reduces, the bits of a
/// magnitude, is 0 in lanes beyond a tensor's end, where planes are read as
/// zeros. If so, a maximum needs no mask. A scalar that is not finite turns a
/// zero into NaN, but then the tensor's other lanes are not finite either, nor
/// are their groups.
bool isZeroInPadding(Operation *reduce, Value value);

} // namespace tandem

#endif // TANDEM_CONVERSION_PADDINGLANES_H
