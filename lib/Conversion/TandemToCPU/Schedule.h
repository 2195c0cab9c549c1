//===- Schedule.h - Order of a body's operations ----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the order in which a CPU kernel computes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CONVERSION_TANDEMTOCPU_SCHEDULE_H
#define TANDEM_LIB_CONVERSION_TANDEMTOCPU_SCHEDULE_H

#include "tandem/Dialect/Tandem/IR/Tandem.h"

namespace tandem {

/// Returns the operations of a body, except its terminator, in an order in
/// which few wait for the preceding one. An update is one long dependence chain
/// of short operations, and the processor's window is shorter than a block's
/// part of it. Among the operations whose operands are ready, the one with the
/// most dependent work comes first; operations off that chain fill the gaps.
SmallVector<Operation *> schedule(Block &body);

} // namespace tandem

#endif // TANDEM_LIB_CONVERSION_TANDEMTOCPU_SCHEDULE_H
