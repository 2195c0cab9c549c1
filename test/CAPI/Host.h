//===- Host.h - Checks of C programs -----------------------------*- C -*--===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what the programs that test the C API share: checks that
// end the program, and launches.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_CAPI_HOST_H
#define TANDEM_TEST_CAPI_HOST_H

#include "tandem-c/Tandem.h"

/// Ends the program with the location and the condition unless it holds.
#define CHECK(condition)                                                       \
  checkThat((condition) != 0, #condition, __FILE__, __LINE__)
/// Ends the program unless a text equals another one or contains it.
#define CHECK_TEXT(actual, expected)                                           \
  checkText(actual, expected, 0, __FILE__, __LINE__)
#define CHECK_PART(actual, part) checkText(actual, part, 1, __FILE__, __LINE__)
/// Ends the program with the compiler's or the runtime's message after a
/// failure.
#define REQUIRE(result)                                                        \
  checkResult((result) != 0, tandemGetLastError(), __FILE__, __LINE__)
#define REQUIRE_OK(status)                                                     \
  checkResult((status) == TDM_OK, tdm_last_error(), __FILE__, __LINE__)

void checkThat(int holds, const char *condition, const char *file, int line);
void checkText(const char *actual, const char *expected, int isPart,
               const char *file, int line);
void checkResult(int isGood, const char *message, const char *file, int line);

/// Returns the index of a plane; ends the program if there is none.
uint32_t findPlane(const tdm_kernel_desc *desc, const char *name);

/// Launches a kernel over one matrix with default hyperparameters and with 1
/// for each integer. Returns the flags.
uint32_t launch(tdm_kernel *kernel, const tdm_kernel_desc *desc, int64_t rows,
                int64_t columns, void *const *planes);
/// Does the same on the CPU with a compiled kernel.
uint32_t launchCompiled(TandemKernel *kernel, int64_t rows, int64_t columns,
                        void *const *planes);

/// Returns a kernel of a graph under a strategy for the CPU.
TandemKernel *compileFor(const char *graph, const char *strategy);

#endif // TANDEM_TEST_CAPI_HOST_H
