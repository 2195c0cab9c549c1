//===- Handles.h - What handles of the C API hold ---------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what files of the C API share.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_CAPI_HANDLES_H
#define TANDEM_LIB_CAPI_HANDLES_H

#include "tandem-c/Tandem.h"
#include "tandem/Target/Compiler.h"
#include <mutex>

struct TandemKernel {
  std::unique_ptr<tandem::CompiledKernel> kernel;
  /// Guards what follows.
  std::mutex mutex;
  /// The tensors, once a caller has asked for them.
  std::optional<std::vector<tandem::KernelTensor>> tensors;
};

namespace tandem {
/// A handle of what was compiled; null after a failure, which becomes the last
/// error.
TandemKernel *
createHandle(llvm::Expected<std::unique_ptr<CompiledKernel>> kernel);

/// The text, or what stands for none.
std::string orElse(const char *text, const char *fallback);
} // namespace tandem

#endif // TANDEM_LIB_CAPI_HANDLES_H
