//===- InitAllPasses.h - Register passes ------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file registers the passes and pipelines of Tandem's tools.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_INITALLPASSES_H
#define TANDEM_INITALLPASSES_H

namespace tandem {

/// Registers Tandem's passes and pipelines and the upstream passes that they
/// use.
void registerAllPasses();

} // namespace tandem

#endif // TANDEM_INITALLPASSES_H
