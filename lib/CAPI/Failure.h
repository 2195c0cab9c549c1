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

#include "llvm/Support/Error.h"

namespace tandem {
/// Keeps the message for tandemGetLastError in this thread.
void setLastError(llvm::Error error);
} // namespace tandem

#endif // TANDEM_LIB_CAPI_FAILURE_H
