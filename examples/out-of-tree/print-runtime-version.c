//===- print-runtime-version.c - Tandem's runtime from C ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a C program that links only Tandem's runtime, and
// prints its version.
//
//===----------------------------------------------------------------------===//

#include "tandem-runtime/tandem_runtime.h"
#include <stdio.h>

int main(void) {
  unsigned version = tdm_runtime_version();
  printf("Tandem's runtime, version %u.%u.%u\n", version >> 16,
         version >> 8 & 0xFF, version & 0xFF);
  if (version == TDM_RUNTIME_VERSION)
    return 0;
  fprintf(stderr, "print-runtime-version: compiled against another version of "
                  "tandem_runtime.h; compile it again\n");
  return 1;
}
