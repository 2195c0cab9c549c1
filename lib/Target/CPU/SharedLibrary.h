//===- SharedLibrary.h - Shared libraries of kernels ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the linking of kernels into shared libraries.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_CPU_SHAREDLIBRARY_H
#define TANDEM_LIB_TARGET_CPU_SHAREDLIBRARY_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace tandem {

/// Links an ELF object file into a shared library in a format that LLD knows as
/// `emulation`, and returns its bytes. The library depends only on functions
/// that copy or fill memory and on correctly rounded fma functions.
llvm::Expected<std::string> linkSharedLibrary(llvm::StringRef object,
                                              llvm::StringRef emulation);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_CPU_SHAREDLIBRARY_H
