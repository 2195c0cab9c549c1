//===- Errors.h - Errors in Python ------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how errors of the compiler and of the runtime become
// exceptions with attributes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_ERRORS_H
#define TANDEM_PYTHON_ERRORS_H

#include "tandem-runtime/tandem_runtime.h"
#include <string>
#include <utility>
#include <vector>

/// Raises a ValueError with the attributes of the compiler's: its kind, and its
/// parts, each with the name of the part's kind.
[[noreturn]] void
throwError(const char *kind,
           const std::vector<std::pair<const char *, std::string>> &parts);

/// Raises the compiler's last error as a ValueError with the attributes parts,
/// kind, file, line, column and operation.
[[noreturn]] void throwCompilerError();

/// Returns what the C API has made, or raises the compiler's last error if it
/// is null or false.
template <typename Result>
Result orThrow(Result result) {
  if (!result)
    throwCompilerError();
  return result;
}

/// Raises the runtime's last error unless a call has succeeded: a MemoryError,
/// a RuntimeError of a device, or else a ValueError, with the attribute parts.
void check(tdm_status status);

/// The same where a package is read, and where its code is loaded: a ValueError
/// of the kind "io" or "target".
void checkFile(tdm_status status);
void checkTarget(tdm_status status);

#endif // TANDEM_PYTHON_ERRORS_H
