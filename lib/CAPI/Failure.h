//===- Failure.h - The last failure of a thread -----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how C API functions report failures.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CAPI_FAILURE_H
#define TANDEM_LIB_CAPI_FAILURE_H

#include "tandem-c/Error.h"
#include "llvm/Support/Error.h"

namespace tandem {
/// Sets the error that tandemGetLastError returns in this thread. An error that
/// is not a CompilerError gets `kind`.
void setLastError(llvm::Error error,
                  TandemErrorKind kind = TandemErrorInternal);
} // namespace tandem

#endif // TANDEM_LIB_CAPI_FAILURE_H
