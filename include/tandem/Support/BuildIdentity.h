//===- BuildIdentity.h - What tells builds of a library apart ---*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the identity of the libraries in this process: two builds
// of a library have different ones, also if they have the same version.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_BUILDIDENTITY_H
#define TANDEM_SUPPORT_BUILDIDENTITY_H

#include <string>

namespace tandem {

/// Returns a text that identifies the build of the library or program that
/// contains an address of code or constants: the build ID that the linker has
/// made from its content, or else its path, size and time of change. Empty if
/// neither can be found.
std::string getBuildIdentity(const void *address);

} // namespace tandem

#endif // TANDEM_SUPPORT_BUILDIDENTITY_H
