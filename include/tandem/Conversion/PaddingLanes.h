//===- PaddingLanes.h - Lanes beyond a tensor's end -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the analysis of what the lanes of a vector hold that have
// no element.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CONVERSION_PADDINGLANES_H
#define TANDEM_CONVERSION_PADDINGLANES_H

#include "tandem/Dialect/Tandem/IR/Tandem.h"
#include "tandem/Support/LLVM.h"

namespace tandem {

/// Whether a condition may hold in lanes beyond a tensor's end, where planes
/// are read as zeros. That a gradient's code is finite, say, needs no mask.
bool mayHoldInPadding(SetFlagOp setFlag);

/// Whether what an operation reduces, a magnitude's bits, is 0 in lanes beyond
/// a tensor's end, where planes are read as zeros, so that a maximum needs no
/// mask. A scalar that is not finite makes a zero NaN, but makes the other
/// lanes of the tensor not finite either, and with them their group.
bool isZeroInPadding(Operation *reduce, Value value);

} // namespace tandem

#endif // TANDEM_CONVERSION_PADDINGLANES_H
