//===- compile.c - Compilation in the C API -------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests what a C program can query about the library and a kernel,
// and runs kernels that it has compiled.
//
//===----------------------------------------------------------------------===//

// RUN: %capi/capi-compile | FileCheck %s

#include "Host.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int isListed(intptr_t count, const char *(*getName)(intptr_t),
                    const char *name) {
  for (intptr_t i = 0; i < count; ++i)
    if (strcmp(getName(i), name) == 0)
      return 1;
  return 0;
}

static void testListings(void) {
  intptr_t graphs = tandemGetNumGraphs(), layers = tandemGetNumLayers();
  CHECK(isListed(graphs, tandemGetGraphName, "adamw"));
  CHECK(!isListed(graphs, tandemGetGraphName, "rms_norm"));
  CHECK(isListed(tandemGetNumStrategies(), tandemGetStrategyName, "coat"));
  CHECK(isListed(tandemGetNumRecipes(), tandemGetRecipeName, "coat-flow"));
  CHECK(isListed(layers, tandemGetLayerName, "rms_norm"));
  for (intptr_t i = 0; i < layers; ++i)
    CHECK_PART(tandemGetLayerText(i), "func.func");
  // CHECK: listings
  puts("listings");
}

static void testNativeISA(void) {
  const char *native = tandemGetNativeISA();
  CHECK_PART(native, " (");
  CHECK(native[strlen(native) - 1] == ')');
  CHECK(tandemGetNativeISA() == native);
  // CHECK: native instruction set
  puts("native instruction set");
}

static void testDescription(TandemKernel *kernel) {
  const tdm_kernel_info *info = tandemKernelGetInfo(kernel);
  CHECK_TEXT(info->graph, "adamw");
  CHECK_TEXT(info->strategy, "fp32");
  CHECK_TEXT(info->compute, "f32 f32");
  CHECK_PART(info->ir, "tandem.kernel");
  CHECK(info->desc->num_planes == 4 && info->desc->num_hypers == 5);
  CHECK_TEXT(info->desc->hypers[0].name, "lr");
  CHECK(info->desc->planes[findPlane(info->desc, "grad")].kind ==
        TDM_ROLE_GRAD);
  CHECK(tandemKernelGetBytesPerParameter(kernel) == 16);
  CHECK(tandemKernelGetNumEntries(kernel, 0, 3, 5) == 15);
  CHECK(tandemKernelGetImage(kernel) == NULL);
  CHECK(tandemKernelGetNumTensors(kernel) == 4);
  TandemTensor second = tandemKernelGetTensor(kernel, 3);
  CHECK_TEXT(second.role, "exp_avg_sq");
  CHECK_TEXT(second.storage, "#tandem.float<f32>");
  CHECK(second.isSecondMoment &&
        !tandemKernelGetTensor(kernel, 0).isSecondMoment);
  // CHECK-NEXT: description
  puts("description");
}

/// The first step of AdamW moves each weight by lr against its gradient's sign,
/// and by lr * weight_decay towards zero.
static void testStep(TandemKernel *kernel) {
  enum { size = 1000 };
  static float param[size], grad[size], first[size], second[size];
  for (int i = 0; i < size; ++i) {
    param[i] = 1;
    grad[i] = i % 2 ? 0.5f : -0.25f;
  }
  void *planes[] = {param, grad, first, second};
  CHECK(launchCompiled(kernel, 1, size, planes) == 0);
  for (int i = 0; i < size; ++i) {
    float sign = i % 2 ? 1.0f : -1.0f;
    CHECK(fabsf(param[i] - (1 - 1e-5f - 1e-3f * sign)) < 1e-6f);
    CHECK(fabsf(first[i] - 0.1f * grad[i]) < 1e-7f);
    CHECK(fabsf(second[i] - 0.001f * grad[i] * grad[i]) < 1e-8f);
  }
  // CHECK-NEXT: step
  puts("step");
}

static void testFiniteCheck(TandemKernel *kernel) {
  CHECK(tandemKernelGetNumCheckedPlanes(kernel) == 1);
  const tdm_kernel_desc *desc = tandemKernelGetInfo(kernel)->desc;
  CHECK(tandemKernelGetCheckedPlane(kernel, 0) == findPlane(desc, "grad"));
  TandemKernel *check = tandemKernelCompileFiniteCheck(kernel);
  REQUIRE(check);
  float grad[100] = {0};
  void *planes[] = {grad};
  CHECK(launchCompiled(check, 1, 100, planes) == 0);
  grad[99] = INFINITY;
  CHECK(launchCompiled(check, 1, 100, planes) == TDM_FLAG_NON_FINITE);
  tandemKernelDestroy(check);
  // CHECK-NEXT: finite check
  puts("finite check");
}

static void testRules(void) {
  const TandemStorageRule rules[] = {
      {TDM_ROLE_STATE, "exp_avg_sq", "#tandem.float<f32>"},
      {TDM_ROLE_STATE, NULL, "#tandem.float<bf16>"},
      {TDM_ROLE_PARAM, NULL, "#tandem.float<f32>"},
      {TDM_ROLE_GRAD, NULL, "#tandem.float<bf16>"}};
  TandemCompileOptions options = {.graph = "adamw",
                                  .strategy = "mine",
                                  .rules = rules,
                                  .numRules = 4,
                                  .compute = "f32 f32"};
  TandemKernel *kernel = tandemCompile(&options);
  REQUIRE(kernel);
  CHECK_TEXT(tandemKernelGetInfo(kernel)->strategy, "mine");
  CHECK(tandemKernelGetBytesPerParameter(kernel) == 12);
  CHECK(tandemKernelGetNumTensors(kernel) == 4);
  CHECK_TEXT(tandemKernelGetTensor(kernel, 2).storage, "#tandem.float<bf16>");
  CHECK_TEXT(tandemKernelGetTensor(kernel, 3).storage, "#tandem.float<f32>");
  tandemKernelDestroy(kernel);
  // CHECK-NEXT: rules
  puts("rules");
}

static void testChip(void) {
  TandemCompileOptions options = {
      .graph = "sgd", .strategy = "fp32", .target = "sm_90"};
  TandemKernel *kernel = tandemCompile(&options);
  REQUIRE(kernel);
  const tdm_image *image = tandemKernelGetImage(kernel);
  CHECK(image != NULL);
  CHECK_TEXT(image->kind, "PTX");
  CHECK_TEXT(image->target, "sm_90");
  CHECK_PART((const char *)image->data, ".entry tandem_sgd");
  tandemKernelDestroy(kernel);
  // CHECK-NEXT: chip
  puts("chip");
}

static void testWeightAverage(void) {
  TandemCompileOptions options = {
      .graph = "sgd", .strategy = "fp32", .weightAverage = true};
  TandemKernel *kernel = tandemCompile(&options);
  REQUIRE(kernel);
  const tdm_kernel_desc *desc = tandemKernelGetInfo(kernel)->desc;
  CHECK(desc->num_planes == 3 && desc->num_hypers == 3);
  CHECK(desc->planes[findPlane(desc, "ema")].kind == TDM_ROLE_STATE);
  CHECK_TEXT(desc->hypers[2].name, "ema_decay");
  tandemKernelDestroy(kernel);
  // CHECK-NEXT: weight average
  puts("weight average");
}

static void testWeightOperand(void) {
  TandemStorageRule rules[] = {
      {.kind = TDM_ROLE_PARAM, .storage = "#tandem.float<bf16>"},
      {.kind = TDM_ROLE_GRAD, .storage = "#tandem.float<bf16>"},
      {.kind = TDM_ROLE_OUTPUT, .storage = "#tandem.float<f8E4M3FN>"}};
  TandemCompileOptions options = {.graph = "sgd",
                                  .strategy = "own",
                                  .rules = rules,
                                  .numRules = 3,
                                  .compute = "f32 f32",
                                  .weightOperand = true};
  TandemKernel *kernel = tandemCompile(&options);
  REQUIRE(kernel);
  const tdm_kernel_desc *desc = tandemKernelGetInfo(kernel)->desc;
  CHECK(desc->planes[findPlane(desc, "operand")].kind == TDM_ROLE_OUTPUT);
  tandemKernelDestroy(kernel);
  // CHECK-NEXT: weight operand
  puts("weight operand");
}

int main(void) {
  testListings();
  TandemKernel *kernel = compileFor("adamw", "fp32");
  testNativeISA();
  testDescription(kernel);
  testStep(kernel);
  testFiniteCheck(kernel);
  tandemKernelDestroy(kernel);
  testRules();
  testChip();
  testWeightAverage();
  testWeightOperand();
  return 0;
}
