//===- Host.c - Checks of C programs --------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements what the programs that test the C API share.
//
//===----------------------------------------------------------------------===//

#include "Host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void checkThat(int holds, const char *condition, const char *file, int line) {
  if (holds)
    return;
  fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
  exit(1);
}

void checkText(const char *actual, const char *expected, int isPart,
               const char *file, int line) {
  if (actual && (isPart ? strstr(actual, expected) != NULL
                        : strcmp(actual, expected) == 0))
    return;
  fprintf(stderr, "%s:%d: expected %s'%s', got '%s'\n", file, line,
          isPart ? "a text with " : "", expected, actual ? actual : "(null)");
  exit(1);
}

void checkResult(int isGood, const char *message, const char *file, int line) {
  if (isGood)
    return;
  fprintf(stderr, "%s:%d: %s\n", file, line, message);
  exit(1);
}

uint32_t findPlane(const tdm_kernel_desc *desc, const char *name) {
  uint32_t index = 0;
  while (index < desc->num_planes && strcmp(desc->planes[index].name, name))
    ++index;
  CHECK(index < desc->num_planes);
  return index;
}

uint32_t launch(tdm_kernel *kernel, const tdm_kernel_desc *desc, int64_t rows,
                int64_t columns, void *const *planes) {
  double hypers[16];
  int64_t integers[4];
  CHECK(desc->num_hypers <= 16 && desc->num_integers <= 4);
  for (uint32_t i = 0; i < desc->num_hypers; ++i)
    hypers[i] = desc->hypers[i].default_value;
  for (uint32_t i = 0; i < desc->num_integers; ++i)
    integers[i] = 1;
  tdm_tensor tensor = {.rows = rows, .columns = columns, .planes = planes};
  tdm_plan *plan = NULL;
  REQUIRE_OK(tdm_plan_create(kernel, &tensor, 1, &plan));
  tdm_launch_info info = {.struct_size = sizeof(info)};
  REQUIRE_OK(tdm_plan_launch(plan, hypers, integers, 1, 1, &info));
  tdm_plan_destroy(plan);
  return info.flags;
}

uint32_t launchCompiled(TandemKernel *kernel, int64_t rows, int64_t columns,
                        void *const *planes) {
  tdm_kernel *handle = tandemKernelCreateRuntimeKernel(kernel, NULL);
  REQUIRE(handle);
  uint32_t flags =
      launch(handle, tandemKernelGetInfo(kernel)->desc, rows, columns, planes);
  tdm_kernel_destroy(handle);
  return flags;
}

TandemKernel *compileFor(const char *graph, const char *strategy) {
  TandemCompileOptions options = {.graph = graph, .strategy = strategy};
  TandemKernel *kernel = tandemCompile(&options);
  REQUIRE(kernel);
  return kernel;
}
