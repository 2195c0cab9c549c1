//===- arrays.h - Arrays of Tandem's kernels --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what a host in C needs besides Tandem itself: memory for a
// kernel's arrays, a launch, and conversions between storages.
//
//===----------------------------------------------------------------------===//

#ifndef EMBED_ARRAYS_H
#define EMBED_ARRAYS_H

#include "tandem-c/Tandem.h"
#include "tandem-runtime/tandem_runtime.h"

enum { MAX_PLANES = 16, MAX_SCALARS = 16 };

/* A kernel, and the arrays of one tensor or matrix that it runs on. */
typedef struct Arrays {
  TandemKernel *kernel;
  int64_t rows, columns;
  intptr_t count;
  void *planes[MAX_PLANES];
  size_t bytes[MAX_PLANES];
} Arrays;

/* Values of hyperparameters and integers by name; those that are not given have
   their defaults, integers 0. */
typedef struct Scalar {
  const char *name;
  double value;
} Scalar;

/* Ends the program with a message. */
_Noreturn void fail(const char *message);
/* Ends the program with the compiler's message if there is no handle. */
void *orFail(void *handle);

/* Allocates zeros for all of a kernel's planes. */
Arrays allocate(TandemKernel *kernel, int64_t rows, int64_t columns);
void release(Arrays *arrays);

/* The array of a plane, such as "exp_avg.scale". */
void *find(const Arrays *arrays, const char *name);
/* Copies planes to those of another kernel that have the same names, as what a
   forward pass has saved to what a backward pass restores. */
void handOver(const Arrays *from, Arrays *to);

/* Runs the kernel once. */
void launch(const Arrays *arrays, const Scalar *scalars, int numScalars);

/* Converts a tensor to another storage. Each has all of its arrays. */
void convert(const Arrays *from, Arrays *to, const char *role);
/* Converts a tensor to an array of floats. */
void decode(const Arrays *from, const char *role, float *values);

/* Writes each plane to the file DIRECTORY/PREFIX.PLANE.bin; no directory is
   fine. */
void dump(const Arrays *arrays, const char *directory, const char *prefix);

#endif // EMBED_ARRAYS_H
