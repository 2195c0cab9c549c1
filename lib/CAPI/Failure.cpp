//===- Failure.cpp - The last failure of a thread -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements how C API functions report failures.
//
//===----------------------------------------------------------------------===//

#include "Failure.h"
#include "tandem/Support/CompilerError.h"

using namespace tandem;

namespace {
/// The last error of a thread, and its message as one string.
struct LastError {
  CompilerError error{TandemErrorNone};
  std::string message;
};
} // namespace

static thread_local LastError lastError;

void tandem::setLastError(llvm::Error error, TandemErrorKind kind) {
  lastError.error = CompilerError::from(std::move(error), kind);
  lastError.message = lastError.error.message();
}

const char *tandemGetLastError(void) { return lastError.message.c_str(); }

TandemError tandemGetLastErrorInfo(void) {
  const CompilerError &error = lastError.error;
  return {error.kind, error.file.c_str(), error.line, error.column,
          error.operation.c_str()};
}

size_t tandemGetLastErrorParts(tdm_message_part *parts, size_t capacity) {
  const char *text = lastError.message.data();
  const std::vector<CompilerError::Part> &known = lastError.error.parts;
  for (size_t i = 0; i < known.size(); ++i) {
    if (i < capacity)
      parts[i] = {known[i].kind, known[i].index, text, known[i].text.size()};
    text += known[i].text.size();
  }
  return known.size();
}
