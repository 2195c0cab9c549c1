//===- embed.c - Tandem in a C program ------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a C program that compiles and runs kernels as any host
// of Tandem can, with the C API of the compiler (tandem-c/Tandem.h) and that of
// the runtime (tandem-runtime/tandem_runtime.h). It
//
//   - compiles AdamW under the strategies `fp32` and `coat`, and converts a
//     state from the one to the other,
//   - takes a step under `coat`,
//   - compiles the layer RMSNorm under the recipe `coat` and runs its forward
//     pass and, with the inputs that it has saved, its backward pass.
//
// Each result is compared with plain C in double. The table that the program
// prints has a line for each, with the error relative to the result's norm and
// the largest error that is allowed; the exit status is 1 if one is exceeded.
// With a directory as its argument, the program writes all arrays there, which
// have the same bits as those that Python gets of the same inputs.
//
//   cmake -S examples/embed -B build/embed -DCMAKE_PREFIX_PATH=$PREFIX
//   cmake --build build/embed
//   build/embed/embed
//
// where $PREFIX is an installed Tandem. docs/Embedding.md explains the steps.
//
//===----------------------------------------------------------------------===//

#include "arrays.h"
#include "reference.h"
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 5000, ROWS = 48, COLUMNS = 200 };

static bool isExceeded = false;

/* Prints a line of the table. */
static void report(const char *what, double error, double allowed) {
  bool isFine = error <= allowed;
  printf("%-32s %9.2g %9.2g%s\n", what, error, allowed,
         isFine ? "" : "  exceeded");
  isExceeded |= !isFine;
}

static void *reserve(int64_t count, size_t width) {
  void *memory = calloc((size_t)count, width);
  if (!memory)
    fail("out of memory");
  return memory;
}

/* Returns the values of a tensor in any storage. */
static double *getValues(const Arrays *arrays, const char *role) {
  int64_t size = arrays->rows * arrays->columns;
  float *floats = reserve(size, sizeof(float));
  double *values = reserve(size, sizeof(double));
  decode(arrays, role, floats);
  for (int64_t i = 0; i < size; ++i)
    values[i] = floats[i];
  free(floats);
  return values;
}

static void compare(const char *what, const Arrays *arrays, const char *role,
                    const double *want, double allowed) {
  double *got = getValues(arrays, role);
  report(what, getError(arrays->rows * arrays->columns, got, want), allowed);
  free(got);
}

//===----------------------------------------------------------------------===//
// AdamW
//===----------------------------------------------------------------------===//

static const AdamW adamw = {.lr = 1e-3,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .eps = 1e-8,
                            .weightDecay = 0.1,
                            .step = 10};

static TandemKernel *compileAdamW(const char *strategy) {
  TandemCompileOptions options = {.graph = "adamw", .strategy = strategy};
  return orFail(tandemCompile(&options));
}

/* Fills in a state as in the middle of training. */
static void drawState(Arrays *state) {
  float *param = find(state, "param"), *grad = find(state, "grad");
  float *first = find(state, "exp_avg"), *second = find(state, "exp_avg_sq");
  uint32_t seed = 1;
  for (int64_t i = 0; i < SIZE; ++i) {
    float size = 0.01f * draw(&seed);
    param[i] = draw(&seed);
    grad[i] = fromBFloat16(toBFloat16(size * draw(&seed)));
    first[i] = 0.3f * size * draw(&seed);
    second[i] = size * size;
  }
}

/* Compares a step with one in double from the values of the converted state. */
static void compareStep(const Arrays *old, Arrays *stored) {
  const char *roles[] = {"param", "exp_avg", "exp_avg_sq"};
  double *want[3], *before = getValues(old, "param");
  for (int i = 0; i < 3; ++i)
    want[i] = getValues(stored, roles[i]);
  updateAdamW(&adamw, SIZE, find(old, "grad"), want[0], want[1], want[2]);
  Scalar scalars[] = {{"lr", adamw.lr},
                      {"beta1", adamw.beta1},
                      {"beta2", adamw.beta2},
                      {"eps", adamw.eps},
                      {"weight_decay", adamw.weightDecay},
                      {"step", (double)adamw.step},
                      {"seed", 7}};
  launch(stored, scalars, sizeof(scalars) / sizeof(scalars[0]));
  double *got = getValues(stored, "param");
  for (int64_t i = 0; i < SIZE; ++i) {
    got[i] -= before[i];
    want[0][i] -= before[i];
  }
  report("step of the weight", getError(SIZE, got, want[0]), 1e-4);
  compare("first moment after it", stored, "exp_avg", want[1], 0.04);
  compare("second moment after it", stored, "exp_avg_sq", want[2], 0.04);
  for (int i = 0; i < 3; ++i)
    free(want[i]);
  free(before);
  free(got);
}

static void runAdamW(const char *directory, const char *strategy) {
  TandemKernel *wide = compileAdamW("fp32"), *narrow = compileAdamW(strategy);
  Arrays old = allocate(wide, 1, SIZE), stored = allocate(narrow, 1, SIZE);
  printf("%s, %g and %g bytes per parameter\n",
         tandemKernelGetInfo(narrow)->graph,
         tandemKernelGetBytesPerParameter(wide),
         tandemKernelGetBytesPerParameter(narrow));
  drawState(&old);
  dump(&old, directory, "fp32");
  const char *roles[] = {"param", "grad", "exp_avg", "exp_avg_sq"};
  const char *lines[] = {"converted weight", "converted gradient",
                         "converted first moment", "converted second moment"};
  const double allowed[] = {0, 0, 0.03, 0.03};
  for (int i = 0; i < 4; ++i) {
    convert(&old, &stored, roles[i]);
    double *want = getValues(&old, roles[i]);
    compare(lines[i], &stored, roles[i], want, allowed[i]);
    free(want);
  }
  dump(&stored, directory, "converted");
  compareStep(&old, &stored);
  dump(&stored, directory, "stepped");
  release(&old);
  release(&stored);
  tandemKernelDestroy(wide);
  tandemKernelDestroy(narrow);
}

//===----------------------------------------------------------------------===//
// RMSNorm
//===----------------------------------------------------------------------===//

static const double epsilon = 1e-6;

static TandemKernel *compilePass(TandemLayer *layer, TandemLayerPass pass) {
  TandemLayerPassOptions options = {.pass = pass};
  return orFail(tandemLayerCompile(layer, &options));
}

static void drawMatrix(uint16_t *matrix, uint32_t seed) {
  for (int64_t i = 0; i < ROWS * COLUMNS; ++i)
    matrix[i] = toBFloat16(4 * draw(&seed) * draw(&seed));
}

static void drawWeight(float *weight) {
  uint32_t seed = 4;
  for (int64_t i = 0; i < COLUMNS; ++i)
    weight[i] = 1 + 0.5f * draw(&seed);
}

static void runForward(Arrays *forward, double *inverse) {
  double *want = reserve(ROWS * COLUMNS, sizeof(double));
  Scalar scalars[] = {{"eps", epsilon}};
  launch(forward, scalars, 1);
  double *x = getValues(forward, "x");
  normalize(ROWS, COLUMNS, epsilon, x, find(forward, "weight"), want, inverse);
  compare("output", forward, "y", want, 0.003);
  compare("saved input", forward, "x.saved", x, 0.03);
  free(x);
  free(want);
}

static void runBackward(Arrays *backward, const double *x,
                        const double *inverse) {
  double *dx = reserve(ROWS * COLUMNS, sizeof(double));
  double *dweight = reserve(COLUMNS, sizeof(double));
  double *got = reserve(COLUMNS, sizeof(double));
  launch(backward, NULL, 0);
  double *dy = getValues(backward, "dy");
  normalizeBackward(ROWS, COLUMNS, x, inverse, find(backward, "weight"), dy, dx,
                    dweight);
  compare("gradient of the input", backward, "dx", dx, 0.01);
  const float *sums = find(backward, "dweight");
  for (int64_t i = 0; i < COLUMNS; ++i)
    got[i] = sums[i];
  report("gradient of the weight", getError(COLUMNS, got, dweight), 0.03);
  free(dx);
  free(dy);
  free(dweight);
  free(got);
}

static void runRMSNorm(const char *directory) {
  TandemLayerOptions options = {.layer = "rms_norm",
                                .recipe = "coat",
                                .elements = "bf16",
                                .columns = "f32"};
  TandemLayer *layer = orFail(tandemLayerCreate(&options));
  TandemKernel *first = compilePass(layer, TandemLayerForward);
  TandemKernel *second = compilePass(layer, TandemLayerBackward);
  Arrays forward = allocate(first, ROWS, COLUMNS);
  Arrays backward = allocate(second, ROWS, COLUMNS);
  double *inverse = reserve(ROWS, sizeof(double));
  printf("%s and %s\n", tandemKernelGetInfo(first)->graph,
         tandemKernelGetInfo(second)->graph);
  drawMatrix(find(&forward, "x"), 2);
  drawMatrix(find(&backward, "dy"), 3);
  drawWeight(find(&forward, "weight"));
  runForward(&forward, inverse);
  double *x = getValues(&forward, "x");
  handOver(&forward, &backward);
  runBackward(&backward, x, inverse);
  dump(&forward, directory, "forward");
  dump(&backward, directory, "backward");
  free(x);
  free(inverse);
  release(&forward);
  release(&backward);
  tandemKernelDestroy(first);
  tandemKernelDestroy(second);
  tandemLayerDestroy(layer);
}

int main(int argc, char **argv) {
  if (argc > 3) {
    fprintf(stderr, "usage: embed [DIRECTORY [STRATEGY]]\n");
    return 2;
  }
  const char *directory = argc > 1 ? argv[1] : NULL;
  runAdamW(directory, argc > 2 ? argv[2] : "coat");
  runRMSNorm(directory);
  return isExceeded;
}
