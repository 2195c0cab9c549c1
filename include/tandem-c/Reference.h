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
/// (tandemGetLastError): an instruction it does not know, an access outside the
/// buffers.
TANDEM_CAPI_EXPORTED int64_t tandemEvaluatePTX(
    const char *ptx, const char *kernel, const uint64_t *parameters,
    intptr_t numParameters, uint32_t blocks, uint32_t threads,
    const TandemBuffer *buffers, intptr_t numBuffers);

#ifdef __cplusplus
}
#endif

#endif /* TANDEM_C_REFERENCE_H */
