//===- Reference.h - The C API of the reference -----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the C API of the oracles that tests use: the PTX
// evaluator.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_C_REFERENCE_H
#define TANDEM_C_REFERENCE_H

#include "tandem-c/Tandem.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A buffer of this process that evaluated code may touch.
typedef struct TandemBuffer {
  const char *name;
  void *data;
  uint64_t size;
  bool isWritable;
} TandemBuffer;

/// Executes a kernel of a PTX text without a GPU, thread by thread, in integer
/// arithmetic. Parameters are 64-bit words; pointers are addresses inside the
/// buffers. Returns the number of instructions executed, or -1 on failure
/// (tandemGetLastError), such as an unknown instruction or an access outside
/// the buffers.
TANDEM_CAPI_EXPORTED int64_t tandemEvaluatePTX(
    const char *ptx, const char *kernel, const uint64_t *parameters,
    intptr_t numParameters, uint32_t blocks, uint32_t threads,
    const TandemBuffer *buffers, intptr_t numBuffers);

/// A plane that the interpreter updates: an array of elements of 8, 16 or 32
/// bits with `rank` dimensions, the last of which is contiguous. In a graph of
/// matrices the dimensions of a matrix are its rows and columns.
typedef struct TandemPlaneArray {
  const char *name;
  void *data;
  const int64_t *shape;
  intptr_t rank;
  int32_t bits;
} TandemPlaneArray;

/// One hyperparameter's value.
typedef struct TandemHyperValue {
  const char *name;
  double value;
} TandemHyperValue;

/// The options of an interpreter run, which executes one step of a graph under
/// a strategy. As for tandemCompile, `graph` may also be a kernel at any stage,
/// which takes no strategy.
typedef struct TandemInterpretOptions {
  const char *graph;
  const char *strategy;
  const char *const *path;
  intptr_t pathLength;
  const TandemHyperValue *hypers;
  intptr_t numHypers;
  int64_t step;
  uint64_t seed;
  uint32_t key;
  int64_t first;
  /// Receives the flags that the step raises, unless it is NULL. Bit 0 means
  /// that a gradient held a NaN or an infinity.
  uint32_t *flags;
  /// The name of the graph if the module has several; otherwise null or "".
  const char *function;
  /// Computes an external step by its name: reads the arrays that are sent to
  /// it, and writes those that are received from it. Returns false on failure.
  /// NULL if the graph has no external steps.
  bool (*external)(void *host, const char *name);
  /// The first argument of `external`.
  void *externalHost;
} TandemInterpretOptions;

/// Runs one step of the source graph under the strategy, or of the kernel, in
/// the reference interpreter, which applies the numerical specification itself
/// and shares no code with the compiler's lowerings. Returns false on failure
/// (tandemGetLastError), which leaves the arrays unchanged, except for those
/// that are sent to or received from external steps.
TANDEM_CAPI_EXPORTED bool tandemInterpret(const TandemInterpretOptions *options,
                                          const TandemPlaneArray *planes,
                                          intptr_t numPlanes);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_REFERENCE_H */
