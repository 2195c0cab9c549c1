//===- SharedLibrary.h - Shared libraries of kernels ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the linking of kernels to shared libraries.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_CPU_SHAREDLIBRARY_H
#define TANDEM_LIB_TARGET_CPU_SHAREDLIBRARY_H

#include "llvm/Support/Error.h"
#include <string>

namespace tandem {

/// Links an ELF object file to a shared library, which needs nothing but
/// functions that copy or fill memory.
llvm::Expected<std::string> linkSharedLibrary(llvm::StringRef object);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_CPU_SHAREDLIBRARY_H
