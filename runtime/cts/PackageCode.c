//===- PackageCode.c - Code in packages -----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the code of the kernels that tests put into packages. It
// is built into shared libraries in which tandem_count adds STEP to each byte
// of a tensor.
//
//===----------------------------------------------------------------------===//

#include "tandem-runtime/tandem_launch.h"
#include "tandem-runtime/tandem_runtime.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void tandem_count(const void *tensors, const void *chunks,
                           const uint32_t *scalars, void *workspace,
                           uint32_t *flags, int64_t begin, int64_t end);
EXPORTED void tandem_count_prologue(const double *hypers,
                                    const int64_t *integers, uint32_t *scalars,
                                    int64_t rows);

void tandem_count(const void *tensors, const void *chunks,
                  const uint32_t *scalars, void *workspace, uint32_t *flags,
                  int64_t begin, int64_t end) {
  int64_t c, i;
  (void)scalars;
  (void)workspace;
  (void)flags;
  for (c = begin; c < end; ++c) {
    const tdm_launch_chunk *chunk = (const tdm_launch_chunk *)chunks + c;
    const char *record =
        (const char *)tensors + chunk->tensor * tdm_launch_tensor_size(1, 0);
    uint8_t *bytes = *(uint8_t *const *)(record + sizeof(tdm_launch_tensor));
    for (i = chunk->begin; i < chunk->end; ++i)
      bytes[i] = (uint8_t)(bytes[i] + STEP);
  }
}

void tandem_count_prologue(const double *hypers, const int64_t *integers,
                           uint32_t *scalars, int64_t rows) {
  (void)hypers;
  (void)integers;
  (void)scalars;
  (void)rows;
}
