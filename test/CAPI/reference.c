//===- reference.c - The reference in the C API ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests the interpreter against a compiled kernel, and the PTX
// evaluator.
//
//===----------------------------------------------------------------------===//

// RUN: %capi/capi-reference | FileCheck %s

#include "tandem-c/Reference.h"
#include "Host.h"
#include <stdio.h>
#include <string.h>

enum { size = 300 };

/// A weight, a gradient and two states of AdamW under "collage-light".
typedef struct State {
  uint16_t planes[8][size];
} State;

static State makeState(uint32_t count) {
  State state = {0};
  CHECK(count <= 8);
  for (int i = 0; i < size; ++i) {
    state.planes[0][i] = (uint16_t)(0x3F00 + i);
    state.planes[1][i] = (uint16_t)(0xBC00 + 7 * i % 512);
  }
  return state;
}

static void testInterpreter(void) {
  TandemKernel *kernel = compileFor("adamw", "collage-plus");
  const tdm_kernel_desc *desc = tandemKernelGetInfo(kernel)->desc;
  uint32_t count = desc->num_planes;
  State compiled = makeState(count), interpreted = compiled;
  void *planes[8];
  TandemPlaneArray arrays[8];
  TandemHyperValue hypers[8];
  const int64_t shape = size;
  CHECK(findPlane(desc, "grad") < 8 && desc->num_hypers <= 8);
  for (uint32_t i = 0; i < count; ++i) {
    CHECK(desc->planes[i].bits == 16);
    planes[i] = compiled.planes[i];
    arrays[i] = (TandemPlaneArray){desc->planes[i].name, interpreted.planes[i],
                                   &shape, 1, 16};
  }
  for (uint32_t i = 0; i < desc->num_hypers; ++i)
    hypers[i] =
        (TandemHyperValue){desc->hypers[i].name, desc->hypers[i].default_value};
  State before = compiled;
  launchCompiled(kernel, 1, size, planes);
  uint32_t flags = 77;
  TandemInterpretOptions options = {.graph = "adamw",
                                    .strategy = "collage-plus",
                                    .hypers = hypers,
                                    .numHypers = desc->num_hypers,
                                    .step = 1,
                                    .flags = &flags};
  REQUIRE(tandemInterpret(&options, arrays, count));
  CHECK(flags == 0);
  CHECK(memcmp(&compiled, &interpreted, sizeof(State)) == 0);
  CHECK(memcmp(&compiled, &before, sizeof(State)) != 0);
  tandemKernelDestroy(kernel);
  // CHECK: interpreter
  puts("interpreter");
}

static const char increment[] =
    ".version 8.0\n"
    ".target sm_90\n"
    ".address_size 64\n"
    ".visible .entry increment(\n"
    "  .param .u64 .ptr .align 1 increment_param_0\n"
    ")\n"
    "{\n"
    "  .reg .b32 %r<3>;\n"
    "  .reg .b64 %rd<2>;\n"
    "  ld.param.b64 %rd1, [increment_param_0];\n"
    "  ld.global.b32 %r1, [%rd1];\n"
    "  add.s32 %r2, %r1, 1;\n"
    "  st.global.b32 [%rd1], %r2;\n"
    "  ret;\n"
    "}\n";

static void testEvaluator(void) {
  uint32_t word = 41;
  uint64_t parameter = (uint64_t)(uintptr_t)&word;
  TandemBuffer buffer = {"word", &word, sizeof(word), true};
  CHECK(tandemEvaluatePTX(increment, "increment", &parameter, 1, 1, 1, &buffer,
                          1) == 5);
  CHECK(word == 42);
  buffer.isWritable = false;
  CHECK(tandemEvaluatePTX(increment, "increment", &parameter, 1, 1, 1, &buffer,
                          1) == -1);
  CHECK_PART(tandemGetLastError(), "word");
  CHECK(word == 42);
  // CHECK-NEXT: evaluator
  puts("evaluator");
}

int main(void) {
  testInterpreter();
  testEvaluator();
  return 0;
}
