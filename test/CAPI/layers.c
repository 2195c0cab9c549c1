//===- layers.c - Layers in the C API -------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests that a C program can read a layer, compile its passes and run
// the forward pass.
//
//===----------------------------------------------------------------------===//

// RUN: %capi/capi-layers | FileCheck %s

#include "Host.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static TandemLayer *createLayer(const char *recipe) {
  TandemLayerOptions options = {.layer = "rms_norm", .recipe = recipe};
  TandemLayer *layer = tandemLayerCreate(&options);
  REQUIRE(layer);
  return layer;
}

static TandemKernel *compilePass(TandemLayer *layer, TandemLayerPass pass) {
  TandemLayerPassOptions options = {.pass = pass};
  TandemKernel *kernel = tandemLayerCompile(layer, &options);
  REQUIRE(kernel);
  return kernel;
}

static void testQuestions(TandemLayer *layer) {
  CHECK_TEXT(tandemLayerGetFunction(layer, TandemLayerForward), "rms_norm");
  CHECK_TEXT(tandemLayerGetFunction(layer, TandemLayerBackward),
             "rms_norm_backward");
  CHECK(tandemLayerGetNumOutputs(layer, TandemLayerForward) == 1);
  TandemLayerOutput output = tandemLayerGetOutput(layer, TandemLayerForward, 0);
  CHECK(output.isForLinear && !output.isGradient);
  CHECK(tandemLayerGetNumOutputs(layer, TandemLayerBackward) == 2);
  CHECK(tandemLayerGetOutput(layer, TandemLayerBackward, 0).isGradient);
  CHECK(!tandemLayerStoresByFlow(layer));
  CHECK(tandemCheckRecipe("coat-flow", NULL, 0));
  CHECK(!tandemCheckRecipe("coat-flaw", NULL, 0));
  CHECK_PART(tandemGetLastError(), "coat-flaw");
  // CHECK: questions
  puts("questions");
}

/// Checks that the backward pass reads planes that the forward pass writes.
static void testPasses(TandemKernel *forward, TandemKernel *backward) {
  const tdm_kernel_desc *first = tandemKernelGetInfo(forward)->desc;
  const tdm_kernel_desc *second = tandemKernelGetInfo(backward)->desc;
  int restored = 0;
  for (uint32_t i = 0; i < second->num_planes; ++i)
    if (second->planes[i].kind == TDM_ROLE_RESTORED) {
      findPlane(first, second->planes[i].name);
      ++restored;
    }
  CHECK(restored > 0);
  // CHECK-NEXT: passes
  puts("passes");
}

/// Checks that a row of equal numbers becomes a row of ones.
static void testForward(TandemKernel *kernel) {
  enum { rows = 4, columns = 32 };
  const tdm_kernel_desc *desc = tandemKernelGetInfo(kernel)->desc;
  void *planes[16];
  CHECK(desc->num_planes <= 16 && desc->matrix);
  float *output = NULL;
  for (uint32_t i = 0; i < desc->num_planes; ++i) {
    int64_t entries = tandemKernelGetNumEntries(kernel, i, rows, columns);
    CHECK(entries == columns || entries == rows * columns || entries == rows);
    CHECK(desc->planes[i].bits == 32);
    float *array = calloc(rows * columns, sizeof(float));
    CHECK(array != NULL);
    if (desc->planes[i].kind == TDM_ROLE_INPUT)
      for (int64_t k = 0; k < entries; ++k)
        array[k] = strcmp(desc->planes[i].role, "weight") ? 3.0f : 1.0f;
    if (desc->planes[i].kind == TDM_ROLE_OUTPUT)
      output = array;
    planes[i] = array;
  }
  launchCompiled(kernel, rows, columns, planes);
  CHECK(output != NULL);
  for (int i = 0; i < rows * columns; ++i)
    CHECK(fabsf(output[i] - 1) < 1e-5f);
  for (uint32_t i = 0; i < desc->num_planes; ++i)
    free(planes[i]);
  // CHECK-NEXT: forward
  puts("forward");
}

static void testFlows(void) {
  TandemLayer *layer = createLayer("coat-flow");
  CHECK(tandemLayerStoresByFlow(layer));
  TandemLayerPassOptions options = {.hasPlainOutputs = true};
  TandemKernel *plain = tandemLayerCompile(layer, &options);
  REQUIRE(plain);
  TandemKernel *stored = compilePass(layer, TandemLayerForward);
  CHECK(tandemKernelGetInfo(plain)->desc->num_planes !=
        tandemKernelGetInfo(stored)->desc->num_planes);
  tandemKernelDestroy(plain);
  tandemKernelDestroy(stored);
  tandemLayerDestroy(layer);
  // CHECK-NEXT: flows
  puts("flows");
}

int main(void) {
  TandemLayer *layer = createLayer("fp32");
  testQuestions(layer);
  TandemKernel *forward = compilePass(layer, TandemLayerForward);
  TandemKernel *backward = compilePass(layer, TandemLayerBackward);
  testPasses(forward, backward);
  testForward(forward);
  tandemKernelDestroy(backward);
  tandemKernelDestroy(forward);
  tandemLayerDestroy(layer);
  testFlows();
  return 0;
}
