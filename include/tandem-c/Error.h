//===- Error.h - Failures in the C API --------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how the C API reports a failure. A message consists of the
// same parts as the runtime's messages (tandem-runtime/tandem_runtime.h).
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

/// A kind of failure, named after what is at fault. `graph` includes layers and
/// kernels, `strategy` includes recipes, `target` includes the code for it,
/// `argument` is any other argument of the call, `io` a file or package, and
/// `internal` the compiler itself. `none` means that no call of the thread has
/// failed yet.
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

/// The fields of a failure. Strings that do not apply are empty, and numbers
/// are 0.
typedef struct TandemError {
  TandemErrorKind kind;
  /// The place of the first diagnostic: "graph", "layer" or "kernel" for the
  /// text that was compiled, or the path of a strategy's file.
  const char *file;
  /// The position in that file, counted from 1.
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
