//===- packages.c - Packages in the C API ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests that a C program can write a package, and that the compiler
// and the runtime open it and run its kernel.
//
//===----------------------------------------------------------------------===//

// RUN: %capi/capi-packages %t.tdm | FileCheck %s

#include "Host.h"
#include <stdio.h>
#include <string.h>

enum { size = 100 };

/// Takes one step of sgd with a learning rate of 1 and returns the first
/// weight.
static float step(tdm_kernel *kernel) {
  float param[size], grad[size];
  for (int i = 0; i < size; ++i) {
    param[i] = 1;
    grad[i] = 0.25f;
  }
  double lr = 1;
  void *planes[] = {param, grad};
  tdm_tensor tensor = {.rows = 1, .columns = size, .planes = planes};
  tdm_plan *plan = NULL;
  REQUIRE_OK(tdm_plan_create(kernel, &tensor, 1, &plan));
  double hypers[] = {lr, 0};
  REQUIRE_OK(tdm_plan_launch(plan, hypers, NULL, 1, 1, NULL));
  tdm_plan_destroy(plan);
  return param[size - 1];
}

/* The instruction set of every processor of this machine's architecture. */
#ifdef __aarch64__
static const char *baseline = "aarch64";
#else
static const char *baseline = "x86-64";
#endif

static void writePackage(const char *path) {
  TandemKernel *kernel = compileFor("sgd", "fp32");
  const tdm_kernel_desc *desc = tandemKernelGetInfo(kernel)->desc;
  CHECK(desc->num_hypers <= 2 && desc->num_integers == 0);
  CHECK_TEXT(desc->hypers[0].name, "lr");
  CHECK_TEXT(desc->planes[0].name, "param");
  const char *name = "mine", *targets[] = {baseline, "sm_90"};
  REQUIRE(tandemSavePackage(path, &kernel, &name, 1, targets, 2));
  tandemKernelDestroy(kernel);
  // CHECK: written
  puts("written");
}

static void testRuntime(const char *path) {
  tdm_package *package = NULL;
  REQUIRE_OK(tdm_package_open(path, &package));
  uint32_t index = 7;
  REQUIRE_OK(tdm_package_find(package, "mine", &index));
  CHECK(index == 0);
  tdm_kernel_info info = {.struct_size = sizeof(info)};
  REQUIRE_OK(tdm_package_kernel(package, index, &info));
  CHECK_TEXT(info.graph, "sgd");
  CHECK(info.num_images == 2);
  tdm_device *cpu = NULL;
  REQUIRE_OK(tdm_device_open("cpu", 0, &cpu));
  tdm_kernel *kernel = NULL;
  REQUIRE_OK(tdm_package_load(package, "mine", cpu, NULL, &kernel));
  tdm_package_close(package);
  CHECK(step(kernel) == 0.75f);
  tdm_kernel_destroy(kernel);
  tdm_device_close(cpu);
  // CHECK-NEXT: runtime
  puts("runtime");
}

static void testCompiler(const char *path) {
  TandemKernel *kernel = tandemKernelLoad(path, NULL, NULL, baseline);
  REQUIRE(kernel);
  CHECK_TEXT(tandemKernelGetInfo(kernel)->name, "mine");
  CHECK(tandemKernelGetNumTensors(kernel) == 2);
  tdm_kernel *handle = tandemKernelCreateRuntimeKernel(kernel, NULL);
  REQUIRE(handle);
  CHECK(step(handle) == 0.75f);
  tdm_kernel_destroy(handle);
  tandemKernelDestroy(kernel);
  TandemKernel *chip = tandemKernelLoad(path, "mine", "sm_90", NULL);
  REQUIRE(chip);
  CHECK_TEXT(tandemKernelGetImage(chip)->kind, "PTX");
  tandemKernelDestroy(chip);
  CHECK(tandemKernelLoad(path, "yours", NULL, NULL) == NULL);
  CHECK_PART(tandemGetLastError(), "yours");
  // CHECK-NEXT: compiler
  puts("compiler");
}

/* A package that the host has opened serves the compiler too. */
static void testOpen(const char *path) {
  tdm_package *package = NULL;
  REQUIRE_OK(tdm_package_open(path, &package));
  TandemKernel *kernel = tandemKernelOpen(package, "mine", NULL, baseline);
  REQUIRE(kernel);
  CHECK(tandemKernelGetNumTensors(kernel) == 2);
  tandemKernelDestroy(kernel);
  CHECK(tandemKernelOpen(package, "yours", NULL, NULL) == NULL);
  CHECK_PART(tandemGetLastError(), "yours");
  tdm_package_close(package);
  // CHECK-NEXT: open package
  puts("open package");
}

int main(int count, char **arguments) {
  CHECK(count == 2);
  writePackage(arguments[1]);
  testRuntime(arguments[1]);
  testCompiler(arguments[1]);
  testOpen(arguments[1]);
  return 0;
}
