//===- Error.h - Failures in the C API --------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what the C API tells of a failure. A message consists of
// the same parts as the runtime's messages (tandem-runtime/tandem_runtime.h).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_C_ERROR_H
#define TANDEM_C_ERROR_H

#include "tandem-runtime/tandem_runtime.h"

#if defined(_WIN32)
#define TANDEM_CAPI_EXPORTED
#else
#define TANDEM_CAPI_EXPORTED __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// The kinds of failures, by what is at fault: nothing, because no call of the
/// thread has failed yet; the graph, layer or kernel; the strategy or recipe;
/// a storage; the target, or the code for it; another argument of the call; a
/// file or package; and otherwise the compiler itself.
#define TANDEM_ERROR_KINDS(VALUE)                                              \
  VALUE(TandemErrorNone, none)                                                 \
  VALUE(TandemErrorGraph, graph)                                               \
  VALUE(TandemErrorStrategy, strategy)                                         \
  VALUE(TandemErrorStorage, storage)                                           \
  VALUE(TandemErrorTarget, target)                                             \
  VALUE(TandemErrorArgument, argument)                                         \
  VALUE(TandemErrorIO, io)                                                     \
  VALUE(TandemErrorInternal, internal)
typedef enum TandemErrorKind {
  TANDEM_ERROR_KINDS(TDM_ENUMERATOR)
} TandemErrorKind;

/// The fields of a failure. Strings are empty and numbers 0 where there is
/// nothing to tell.
typedef struct TandemError {
  TandemErrorKind kind;
  /// The place of the first diagnostic: "graph", "layer" or "kernel" for the
  /// text that was compiled, or the path of a strategy's file.
  const char *file;
  /// They count from 1.
  int64_t line, column;
  /// The operation that the first diagnostic is about, such as "tandem.store".
  const char *operation;
} TandemError;

/// Return the message of the last failure in this thread, and its fields. They
/// are valid until the thread's next failure.
TANDEM_CAPI_EXPORTED const char *tandemGetLastError(void);
TANDEM_CAPI_EXPORTED TandemError tandemGetLastErrorInfo(void);
/// Writes the parts of tandemGetLastError(), up to `capacity` of them, and
/// returns how many there are.
TANDEM_CAPI_EXPORTED size_t tandemGetLastErrorParts(tdm_message_part *parts,
                                                    size_t capacity);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_ERROR_H */
