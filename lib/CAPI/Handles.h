//===- Handles.h - What handles of the C API hold ---------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what the files of the C API share.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CAPI_HANDLES_H
#define TANDEM_LIB_CAPI_HANDLES_H

#include "tandem-c/Tandem.h"
#include "tandem/Target/Compiler.h"
#include <mutex>

struct TandemKernel {
  std::unique_ptr<tandem::CompiledKernel> kernel;
  /// Guards `tensors`.
  std::mutex mutex;
  /// The tensors, which are described when a caller first asks for them.
  std::optional<std::vector<tandem::KernelTensor>> tensors;
};

namespace tandem {
/// Returns a handle that owns the kernel. If compilation has failed, records
/// the error as the last one and returns null.
TandemKernel *
createHandle(llvm::Expected<std::unique_ptr<CompiledKernel>> kernel);

/// Returns `text`, or `fallback` if `text` is null.
std::string orElse(const char *text, const char *fallback);
} // namespace tandem

#endif // TANDEM_LIB_CAPI_HANDLES_H
