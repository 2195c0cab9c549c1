//===- storages.c - Storages in the C API ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests what a C program can query about storages, and runs
// conversions between them and a sum of codes.
//
//===----------------------------------------------------------------------===//

// RUN: %capi/capi-storages | FileCheck %s

#include "Host.h"
#include <stdio.h>
#include <string.h>

static const char *const e4m3 = "#tandem.scaled<#scaled.float<f8E4M3FN>, "
                                "group = tensor, scale = f32>";

static TandemStorage *parse(const char *text) {
  TandemStorage *storage = tandemStorageParse(text);
  REQUIRE(storage);
  return storage;
}

static void testQuestions(void) {
  TandemStorage *codes = parse(e4m3);
  CHECK_TEXT(tandemStorageGetText(codes), e4m3);
  CHECK(tandemStorageGetNumPlanes(codes) == 2);
  CHECK_TEXT(tandemStorageGetPlane(codes, 1)->name, ".scale");
  CHECK(tandemStorageGetPlane(codes, 1)->group == TDM_WHOLE_TENSOR);
  CHECK(tandemStorageIsCoded(codes) && !tandemStorageIsPlain(codes));
  CHECK(tandemStorageHasF32Value(codes));
  CHECK(tandemStorageGetDynamicCode(codes) == TandemDynamicNone);
  CHECK(tandemStorageGetPlainGroup(codes) == 0);
  CHECK_PART(tandemStorageWithGivenScales(codes), "recipe = given");
  CHECK_TEXT(tandemStorageWithoutHistory(codes), e4m3);
  CHECK_TEXT(tandemStorageWithoutTranspose(codes), e4m3);
  CHECK_TEXT(tandemStorageToNearest(codes), e4m3);
  tandemStorageDestroy(codes);
  TandemStorage *dynamic = parse(
      "#tandem.scaled<#scaled.dynamic<signed>, group = 256, scale = f32>");
  CHECK(tandemStorageGetDynamicCode(dynamic) == TandemDynamicSigned);
  tandemStorageDestroy(dynamic);
  // CHECK: questions
  puts("questions");
}

static void testMade(void) {
  TandemStorage *floats = tandemStorageCreateFloats("bf16");
  REQUIRE(floats);
  CHECK_TEXT(tandemStorageGetText(floats), "#tandem.float<bf16>");
  CHECK(tandemStorageIsPlain(floats));
  tandemStorageDestroy(floats);
  TandemStorage *working = tandemStorageCreateWorking("bf16", e4m3);
  REQUIRE(working);
  CHECK_TEXT(tandemStorageGetPlane(working, 0)->name, ".working");
  CHECK(tandemStorageGetPlane(working, 0)->visible);
  tandemStorageDestroy(working);
  TandemStorage *factors = tandemStorageCreateMatrixCodes("f8E4M3FN", true);
  REQUIRE(factors);
  CHECK_PART(tandemStorageGetText(factors), "transposed = true");
  CHECK_TEXT(tandemStorageWithoutTranspose(factors), e4m3);
  tandemStorageDestroy(factors);
  // CHECK-NEXT: made
  puts("made");
}

/// Checks that a masked float has one plane and that conversion to it truncates
/// the mantissa.
static void testMasked(void) {
  TandemStorage *masked =
      tandemStorageCreateMasked("f32", "E8M3", "toward_zero", "none");
  REQUIRE(masked);
  CHECK(tandemStorageGetNumPlanes(masked) == 1);
  CHECK_TEXT(tandemStorageGetPlane(masked, 0)->type, "f32");
  TandemConversionOptions options = {.source = "#tandem.float<f32>",
                                     .target = tandemStorageGetText(masked)};
  TandemConversion conversion = {0};
  REQUIRE(tandemCompileConversion(&options, &conversion));
  float from[] = {1.0625f, -3.9f, 0.0f, 1e30f}, to[4];
  void *planes[] = {to, from};
  launchCompiled(conversion.kernel, 1, 4, planes);
  for (int i = 0; i < 4; ++i) {
    uint32_t bits;
    memcpy(&bits, &to[i], 4);
    CHECK((bits & 0xFFFFF) == 0);
  }
  CHECK(to[2] == 0 && to[1] > -4.0f && to[1] < -3.5f);
  tandemKernelDestroy(conversion.kernel);
  tandemStorageDestroy(masked);
  // CHECK-NEXT: masked
  puts("masked");
}

static void testConversions(void) {
  TandemConversionOptions options = {
      .source = "#tandem.float<f32>", .target = e4m3, .isFresh = true};
  TandemConversion to = {0}, back = {0}, copy = {0};
  REQUIRE(tandemCompileConversion(&options, &to));
  CHECK(to.kernel && to.numWritten == 2 && to.numRead == 1);
  CHECK(to.numLaunches == 1);
  TandemConversionOptions reversed = {.source = e4m3,
                                      .target = "#tandem.float<f32>"};
  REQUIRE(tandemCompileConversion(&reversed, &back));
  float values[] = {448, -224, 1.5f, 0}, decoded[4], scale = 0;
  uint8_t codes[4];
  void *encode[] = {codes, &scale, values};
  void *decode[] = {decoded, codes, &scale};
  launchCompiled(to.kernel, 1, 4, encode);
  launchCompiled(back.kernel, 1, 4, decode);
  CHECK(memcmp(values, decoded, sizeof(values)) == 0);
  // A conversion to the same storage copies its planes.
  options.source = e4m3;
  options.isFresh = false;
  REQUIRE(tandemCompileConversion(&options, &copy));
  CHECK(copy.kernel == NULL);
  tandemKernelDestroy(to.kernel);
  tandemKernelDestroy(back.kernel);
  // CHECK-NEXT: conversions
  puts("conversions");
}

static void testSum(void) {
  const char *sources[] = {"#tandem.float<f32>", "#tandem.float<bf16>"};
  const char *given = "#tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, "
                      "scale = f32, recipe = given>";
  TandemKernel *sum = tandemCompileSum(sources, 2, given, "cpu");
  REQUIRE(sum);
  CHECK(tandemKernelGetInfo(sum)->desc->num_planes == 4);
  float scale = 1, first[] = {1, 2};
  uint16_t second[] = {0x3F80, 0x4000}; // 1.0, 2.0
  uint8_t codes[2];
  void *planes[] = {codes, &scale, first, second};
  launchCompiled(sum, 1, 2, planes);
  CHECK(codes[0] == 0x40 && codes[1] == 0x48); // 2.0, 4.0
  tandemKernelDestroy(sum);
  // CHECK-NEXT: sum
  puts("sum");
}

int main(void) {
  testQuestions();
  testMade();
  testMasked();
  testConversions();
  testSum();
  return 0;
}
