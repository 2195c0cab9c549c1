//===- errors.c - Errors in the C API -------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests what a C program can query about errors besides their
// message: the kind, the parts of the message, the location and the operation.
//
//===----------------------------------------------------------------------===//

// RUN: %capi/capi-errors | FileCheck %s

#include "Host.h"
#include "tandem-c/Reference.h"
#include <stdio.h>
#include <string.h>

enum { maxParts = 32 };

/// Reads the parts of the last error, which together are its message.
static size_t readParts(tdm_message_part *parts) {
  const char *rest = tandemGetLastError();
  size_t count = tandemGetLastErrorParts(parts, maxParts);
  CHECK(count > 0 && count <= maxParts);
  for (size_t i = 0; i < count; ++i) {
    CHECK(strncmp(rest, parts[i].text, parts[i].size) == 0);
    rest += parts[i].size;
  }
  CHECK_TEXT(rest, "");
  return count;
}

/// Expects that the last error has a part.
static void expectPart(tdm_message_kind kind, const char *text) {
  tdm_message_part parts[maxParts];
  size_t count = readParts(parts);
  for (size_t i = 0; i < count; ++i)
    if (parts[i].kind == kind && parts[i].size == strlen(text) &&
        strncmp(parts[i].text, text, parts[i].size) == 0)
      return;
  fprintf(stderr, "no part '%s' in '%s'\n", text, tandemGetLastError());
  CHECK(!"a part of this kind");
}

static void expectKind(TandemErrorKind kind) {
  if (tandemGetLastErrorInfo().kind != kind)
    fprintf(stderr, "kind %d: %s\n", (int)tandemGetLastErrorInfo().kind,
            tandemGetLastError());
  CHECK(tandemGetLastErrorInfo().kind == kind);
}

/// Expects that the last error is at this location in a text.
static void expectPlace(const char *file, int64_t line, int64_t column) {
  TandemError error = tandemGetLastErrorInfo();
  CHECK_TEXT(error.file, file);
  CHECK(error.line == line && error.column == column);
}

static void testNone(void) {
  CHECK_TEXT(tandemGetLastError(), "");
  expectKind(TandemErrorNone);
  CHECK(tandemGetLastErrorParts(NULL, 0) == 0);
  // CHECK: none
  puts("none");
}

static void refuse(TandemCompileOptions options) {
  CHECK(tandemCompile(&options) == NULL);
}

static void testArguments(void) {
  refuse((TandemCompileOptions){
      .graph = "adamw", .strategy = "fp32", .target = "sm_none"});
  expectKind(TandemErrorTarget);
  expectPart(TDM_MESSAGE_TARGET, "sm_none");
  expectPlace("", 0, 0);
  CHECK_TEXT(tandemGetLastErrorInfo().operation, "");
  refuse((TandemCompileOptions){
      .graph = "adamw", .strategy = "fp32", .isa = "x86-64-v9"});
  expectKind(TandemErrorTarget);
  expectPart(TDM_MESSAGE_TARGET, "x86-64-v9");
  refuse((TandemCompileOptions){.graph = "adam_none", .strategy = "fp32"});
  expectKind(TandemErrorGraph);
  expectPart(TDM_MESSAGE_GRAPH, "adam_none");
  refuse((TandemCompileOptions){.graph = "none/such.mlir"});
  expectKind(TandemErrorIO);
  expectPart(TDM_MESSAGE_FILE, "none/such.mlir");
  refuse((TandemCompileOptions){.graph = "adamw", .strategy = "none-such"});
  expectKind(TandemErrorStrategy);
  expectPart(TDM_MESSAGE_STRATEGY, "none-such");
  refuse((TandemCompileOptions){.graph = "adamw"});
  expectKind(TandemErrorStrategy);
  expectPart(TDM_MESSAGE_GRAPH, "adamw");
  // CHECK-NEXT: arguments
  puts("arguments");
}

static void testPlaces(void) {
  refuse((TandemCompileOptions){.graph = "func.func @f() {\n"
                                         "  none.such\n"
                                         "}\n",
                                .strategy = "fp32"});
  expectKind(TandemErrorGraph);
  expectPlace("graph", 2, 3);
  CHECK_PART(tandemGetLastError(), "graph:2:3: ");
  refuse((TandemCompileOptions){.graph = "func.func @f(%x: i32) {\n"
                                         "  \"func.return\"(%x) : (i32) -> ()\n"
                                         "}\n",
                                .strategy = "fp32"});
  expectKind(TandemErrorGraph);
  expectPlace("graph", 2, 3);
  CHECK_TEXT(tandemGetLastErrorInfo().operation, "func.return");
  // CHECK-NEXT: places
  puts("places");
}

static void testRules(void) {
  const TandemStorageRule rules[] = {
      {TDM_ROLE_PARAM, NULL, "#tandem.float<bf16>"},
      {TDM_ROLE_GRAD, NULL, "#tandem.remainder"},
      {TDM_ROLE_STATE, "exp_avg", "#tandem.float<bf16>"}};
  TandemCompileOptions options = {.graph = "adamw",
                                  .strategy = "mine",
                                  .rules = rules,
                                  .numRules = 3,
                                  .compute = "component bf16"};
  refuse(options);
  expectKind(TandemErrorStrategy);
  expectPart(TDM_MESSAGE_STRATEGY, "mine");
  expectPart(TDM_MESSAGE_ROLE, "grad");
  expectPart(TDM_MESSAGE_STORAGE, "#tandem.remainder");
  options.numRules = 1;
  refuse(options);
  expectKind(TandemErrorStrategy);
  CHECK_PART(tandemGetLastError(),
             "strategy 'mine' has no rule for the grad \"grad\"; add");
  expectPart(TDM_MESSAGE_ROLE, "grad");
  // CHECK-NEXT: rules
  puts("rules");
}

static void testStorages(void) {
  CHECK(tandemStorageParse("#tandem.float<none>") == NULL);
  expectKind(TandemErrorStorage);
  expectPart(TDM_MESSAGE_STORAGE, "#tandem.float<none>");
  CHECK(tandemStorageCreateFloats("f99") == NULL);
  expectKind(TandemErrorStorage);
  expectPart(TDM_MESSAGE_FORMAT, "f99");
  CHECK(!tandemStorageCreateMasked("bf16", "E8M9", "nearest", "none"));
  expectKind(TandemErrorStorage);
  expectPart(TDM_MESSAGE_FORMAT, "E8M9");
  CHECK(!tandemStorageCreateMasked("bf16", "E8M3", "upwards", "none"));
  expectKind(TandemErrorArgument);
  CHECK(tandemCompileSum(NULL, 0, "#tandem.float<f32>", "cpu") == NULL);
  expectKind(TandemErrorArgument);
  // CHECK-NEXT: storages
  puts("storages");
}

static void testPackages(void) {
  CHECK(tandemKernelLoad("none/such.tdm", NULL, NULL, NULL) == NULL);
  expectKind(TandemErrorIO);
  CHECK_PART(tandemGetLastError(), "none/such.tdm");
  TandemKernel *kernel = compileFor("sgd", "fp32");
  // A successful call does not reset the error of an earlier one.
  expectKind(TandemErrorIO);
  const char *name = "sgd", *target = "sm_none";
  CHECK(!tandemSavePackage("none/such.tdm", &kernel, &name, 1, &target, 1));
  expectKind(TandemErrorTarget);
  expectPart(TDM_MESSAGE_TARGET, "sm_none");
  target = "x86-64";
  CHECK(!tandemSavePackage("none/such.tdm", &kernel, &name, 1, &target, 1));
  expectKind(TandemErrorIO);
  expectPart(TDM_MESSAGE_FILE, "none/such.tdm");
  tandemKernelDestroy(kernel);
  // CHECK-NEXT: packages
  puts("packages");
}

static void testLayers(void) {
  const TandemStoredInput stored = {"none", "#tandem.float<bf16>"};
  TandemLayerOptions options = {
      .layer = "rms_norm", .recipe = "fp32", .stored = &stored, .numStored = 1};
  CHECK(tandemLayerCreate(&options) == NULL);
  expectKind(TandemErrorArgument);
  expectPart(TDM_MESSAGE_ROLE, "none");
  options.numStored = 0;
  TandemLayer *layer = tandemLayerCreate(&options);
  REQUIRE(layer);
  TandemLayerPassOptions pass = {.pass = (TandemLayerPass)7};
  CHECK(tandemLayerCompile(layer, &pass) == NULL);
  expectKind(TandemErrorArgument);
  tandemLayerDestroy(layer);
  CHECK(!tandemCheckRecipe("none-such", NULL, 0));
  expectKind(TandemErrorStrategy);
  expectPart(TDM_MESSAGE_STRATEGY, "none-such");
  // CHECK-NEXT: layers
  puts("layers");
}

static void testReference(void) {
  TandemInterpretOptions options = {
      .graph = "sgd", .strategy = "none-such", .step = 1};
  CHECK(!tandemInterpret(&options, NULL, 0));
  expectKind(TandemErrorStrategy);
  expectPart(TDM_MESSAGE_STRATEGY, "none-such");
  options.strategy = "fp32";
  CHECK(!tandemInterpret(&options, NULL, 0));
  expectKind(TandemErrorArgument);
  CHECK(tandemEvaluatePTX(".version none", "k", NULL, 0, 1, 1, NULL, 0) == -1);
  expectKind(TandemErrorArgument);
  // CHECK-NEXT: reference
  puts("reference");
}

/// Messages of the runtime are split and marked in the same way.
static void testRuntime(void) {
  TandemKernel *kernel = compileFor("sgd", "fp32");
  tdm_kernel *handle = tandemKernelCreateRuntimeKernel(kernel, NULL);
  REQUIRE(handle);
  void *planes[] = {NULL, NULL};
  tdm_tensor tensor = {.rows = 1, .columns = 8, .planes = planes};
  tdm_plan *plan = NULL;
  CHECK(tdm_plan_create(handle, &tensor, 1, &plan) == TDM_INVALID_ARGUMENT);
  tdm_message_part parts[5];
  CHECK(tdm_last_error_parts(parts, 5) == 5);
  CHECK(parts[1].kind == TDM_MESSAGE_TENSOR && parts[1].index == 0);
  CHECK(parts[3].kind == TDM_MESSAGE_PLANE && parts[3].index == 0);
  CHECK(parts[3].size == 5 && strncmp(parts[3].text, "param", 5) == 0);
  tdm_kernel_destroy(handle);
  tandemKernelDestroy(kernel);
  // CHECK-NEXT: runtime
  puts("runtime");
}

int main(void) {
  testNone();
  testArguments();
  testPlaces();
  testRules();
  testStorages();
  testPackages();
  testLayers();
  testReference();
  testRuntime();
  return 0;
}
