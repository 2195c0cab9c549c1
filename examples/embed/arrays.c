//===- arrays.c - Arrays of Tandem's kernels ------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements memory for kernels' arrays, launches and conversions. It
// does not depend on any optimizer, layer or storage: the compiler describes
// which arrays a kernel takes and their lengths.
//
//===----------------------------------------------------------------------===//

#include "arrays.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fail(const char *message) {
  fprintf(stderr, "embed: %s\n", message);
  exit(1);
}

/* Ends the program with the compiler's message, in which names, such as that of
 * a strategy, are in brackets. */
static void failToCompile(void) {
  tdm_message_part parts[32];
  size_t count = tandemGetLastErrorParts(parts, 32);
  fprintf(stderr, "embed: ");
  for (size_t i = 0; i < count && i < 32; ++i)
    fprintf(stderr, parts[i].kind == TDM_MESSAGE_TEXT ? "%.*s" : "[%.*s]",
            (int)parts[i].size, parts[i].text);
  TandemError error = tandemGetLastErrorInfo();
  if (error.line)
    fprintf(stderr, " (line %d of %s)", (int)error.line, error.file);
  fprintf(stderr, "\n");
  exit(1);
}

void *orFail(void *handle) {
  if (!handle)
    failToCompile();
  return handle;
}

static void check(tdm_status status) {
  if (status != TDM_OK)
    fail(tdm_last_error());
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/* Returns the description of a kernel, which describes its arguments. */
static const tdm_kernel_desc *describe(TandemKernel *kernel) {
  return tandemKernelGetInfo(kernel)->desc;
}

Arrays allocate(TandemKernel *kernel, int64_t rows, int64_t columns) {
  Arrays arrays = {.kernel = kernel, .rows = rows, .columns = columns};
  arrays.count = describe(kernel)->num_planes;
  if (arrays.count > MAX_PLANES)
    fail("a kernel has more arrays than this program is made for");
  for (intptr_t i = 0; i < arrays.count; ++i) {
    int64_t entries = tandemKernelGetNumEntries(kernel, i, rows, columns);
    arrays.bytes[i] = (size_t)entries * describe(kernel)->planes[i].bits / 8;
    arrays.planes[i] = calloc(1, arrays.bytes[i]);
    if (!arrays.planes[i])
      fail("out of memory");
  }
  return arrays;
}

void release(Arrays *arrays) {
  for (intptr_t i = 0; i < arrays->count; ++i)
    free(arrays->planes[i]);
  arrays->count = 0;
}

/* Returns the index of a plane, or -1. */
static intptr_t indexOf(const Arrays *arrays, const char *name) {
  for (intptr_t i = 0; i < arrays->count; ++i)
    if (!strcmp(describe(arrays->kernel)->planes[i].name, name))
      return i;
  return -1;
}

void *find(const Arrays *arrays, const char *name) {
  intptr_t index = indexOf(arrays, name);
  if (index < 0)
    fail("a kernel lacks an array that this program asks for");
  return arrays->planes[index];
}

void handOver(const Arrays *from, Arrays *to) {
  for (intptr_t i = 0; i < to->count; ++i) {
    intptr_t known = indexOf(from, describe(to->kernel)->planes[i].name);
    if (known >= 0)
      memcpy(to->planes[i], from->planes[known], to->bytes[i]);
  }
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/* Runs a kernel on planes, which are in the kernel's order. */
static void run(TandemKernel *kernel, int64_t rows, int64_t columns,
                void *const *planes, const double *hypers,
                const int64_t *integers) {
  tdm_tensor tensor = {.rows = rows, .columns = columns, .planes = planes};
  tdm_kernel *handle = orFail(tandemKernelCreateRuntimeKernel(kernel, NULL));
  tdm_plan *plan = NULL;
  check(tdm_plan_create(handle, &tensor, 1, &plan));
  check(tdm_plan_launch(plan, hypers, integers, 1, 0, NULL));
  tdm_plan_destroy(plan);
  tdm_kernel_destroy(handle);
}

static double getValue(const Scalar *scalars, int count, const char *name,
                       double otherwise) {
  for (int i = 0; i < count; ++i)
    if (!strcmp(scalars[i].name, name))
      return scalars[i].value;
  return otherwise;
}

void launch(const Arrays *arrays, const Scalar *scalars, int numScalars) {
  double hypers[MAX_SCALARS];
  int64_t integers[MAX_SCALARS];
  const tdm_kernel_desc *desc = describe(arrays->kernel);
  if (desc->num_hypers > MAX_SCALARS || desc->num_integers > MAX_SCALARS)
    fail("a kernel has more scalars than this program is made for");
  for (uint32_t i = 0; i < desc->num_hypers; ++i)
    hypers[i] = getValue(scalars, numScalars, desc->hypers[i].name,
                         desc->hypers[i].default_value);
  for (uint32_t i = 0; i < desc->num_integers; ++i)
    integers[i] =
        (int64_t)getValue(scalars, numScalars, desc->integers[i].name, 0);
  run(arrays->kernel, arrays->rows, arrays->columns, arrays->planes, hypers,
      integers);
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

/* A tensor: its storage and its arrays. */
typedef struct Stored {
  const char *storage;
  bool isSecondMoment;
  intptr_t count;
  void *planes[MAX_PLANES];
  size_t bytes[MAX_PLANES];
  bool isPersistent[MAX_PLANES];
} Stored;

static Stored getStored(const Arrays *arrays, const char *role) {
  Stored stored = {0};
  intptr_t count = tandemKernelGetNumTensors(arrays->kernel);
  for (intptr_t i = 0; i < count; ++i) {
    TandemTensor tensor = tandemKernelGetTensor(arrays->kernel, i);
    if (strcmp(tensor.role, role))
      continue;
    stored.storage = tensor.storage;
    stored.isSecondMoment = tensor.isSecondMoment;
  }
  for (intptr_t i = 0; i < arrays->count; ++i) {
    const tdm_plane_desc *plane = &describe(arrays->kernel)->planes[i];
    if (strcmp(plane->role, role))
      continue;
    stored.planes[stored.count] = arrays->planes[i];
    stored.bytes[stored.count] = arrays->bytes[i];
    stored.isPersistent[stored.count++] = plane->persistent;
  }
  if (!stored.storage)
    fail("a kernel lacks a tensor that this program asks for");
  return stored;
}

static void copy(const Stored *from, const Stored *to) {
  for (intptr_t i = 0; i < to->count && i < from->count; ++i)
    memcpy(to->planes[i], from->planes[i], to->bytes[i]);
}

/* Runs the kernel of a conversion, after which the target is complete if its
   other planes are zero. */
static void runConversion(const TandemConversion *conversion, int64_t rows,
                          int64_t columns, const Stored *from,
                          const Stored *to) {
  void *planes[2 * MAX_PLANES];
  intptr_t count = 0;
  for (intptr_t i = 0; i < conversion->numWritten; ++i)
    planes[count++] = to->planes[i];
  for (intptr_t i = 0; i < conversion->numRead; ++i)
    planes[count++] = from->planes[i];
  if (!describe(conversion->kernel)->matrix) {
    columns *= rows;
    rows = 1;
  }
  for (int32_t i = 0; i < conversion->numLaunches; ++i)
    run(conversion->kernel, rows, columns, planes, NULL, NULL);
}

static void convertStored(const Arrays *from, const Stored *source,
                          const Stored *target) {
  TandemConversionOptions options = {.source = source->storage,
                                     .target = target->storage,
                                     .isFresh = true,
                                     .isMatrix = describe(from->kernel)->matrix,
                                     .hasFloor = target->isSecondMoment};
  TandemConversion conversion;
  if (!tandemCompileConversion(&options, &conversion))
    failToCompile();
  for (intptr_t i = 0; i < target->count; ++i)
    if (i >= conversion.numWritten || target->isPersistent[i])
      memset(target->planes[i], 0, target->bytes[i]);
  if (conversion.kernel)
    runConversion(&conversion, from->rows, from->columns, source, target);
  else
    copy(source, target);
  tandemKernelDestroy(conversion.kernel);
}

void convert(const Arrays *from, Arrays *to, const char *role) {
  Stored source = getStored(from, role), target = getStored(to, role);
  convertStored(from, &source, &target);
}

void decode(const Arrays *from, const char *role, float *values) {
  TandemStorage *floats = orFail(tandemStorageCreateFloats("f32"));
  Stored source = getStored(from, role);
  Stored target = {.storage = tandemStorageGetText(floats), .count = 1};
  target.planes[0] = values;
  target.bytes[0] = (size_t)(from->rows * from->columns) * sizeof(float);
  convertStored(from, &source, &target);
  tandemStorageDestroy(floats);
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

void dump(const Arrays *arrays, const char *directory, const char *prefix) {
  for (intptr_t i = 0; directory && i < arrays->count; ++i) {
    char path[4096];
    const char *name = describe(arrays->kernel)->planes[i].name;
    int length =
        snprintf(path, sizeof(path), "%s/%s.%s.bin", directory, prefix, name);
    FILE *file =
        length > 0 && (size_t)length < sizeof(path) ? fopen(path, "wb") : NULL;
    if (!file ||
        fwrite(arrays->planes[i], 1, arrays->bytes[i], file) !=
            arrays->bytes[i] ||
        fclose(file))
      fail("an array cannot be written to the directory");
  }
}
