//===- TakeOperands.h - Smaller computations --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the registration of a pass that only tandem-reduce has.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REDUCE_TAKEOPERANDS_H
#define TANDEM_REDUCE_TAKEOPERANDS_H

namespace tandem {

void registerTakeOperands();

} // namespace tandem

#endif // TANDEM_REDUCE_TAKEOPERANDS_H
