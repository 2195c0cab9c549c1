//===- InitAllTargets.h - Register targets ----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file registers the targets that Tandem provides.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_INITALLTARGETS_H
#define TANDEM_INITALLTARGETS_H

namespace tandem {

/// Registers the instruction sets of CPUs and the chips of GPUs that Tandem
/// compiles for. Later calls do nothing. The compiler calls it by itself.
void registerAllTargets();

} // namespace tandem

#endif // TANDEM_INITALLTARGETS_H
