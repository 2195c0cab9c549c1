//===- Errors.h - Errors in Python ------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the conversion of the compiler's and the runtime's errors
// to exceptions with attributes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_ERRORS_H
#define TANDEM_PYTHON_ERRORS_H

#include "tandem-runtime/tandem_runtime.h"
#include <string>
#include <utility>
#include <vector>

/// Raises a ValueError with the attributes of a compiler error: its kind, and
/// its parts, each a pair of the kind's name and the text.
[[noreturn]] void
throwError(const char *kind,
           const std::vector<std::pair<const char *, std::string>> &parts);

/// Raises the compiler's last error as a ValueError with the attributes parts,
/// kind, file, line, column and operation.
[[noreturn]] void throwCompilerError();

/// Returns a result of the C API, or raises the compiler's last error if the
/// result is null or false.
template <typename Result>
Result orThrow(Result result) {
  if (!result)
    throwCompilerError();
  return result;
}

/// Raises the runtime's last error unless \p status is TDM_OK: a MemoryError, a
/// RuntimeError for errors of a device, or else a ValueError, with the
/// attribute parts.
void check(tdm_status status);

/// Do the same after reading a package and after loading its code: errors are
/// ValueErrors of the kind "io" or "target".
void checkFile(tdm_status status);
void checkTarget(tdm_status status);

#endif // TANDEM_PYTHON_ERRORS_H
