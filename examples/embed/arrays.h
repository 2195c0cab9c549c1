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

/* A value of a hyperparameter or integer by name. Hyperparameters that are not
   given have their defaults, and integers are 0. */
typedef struct Scalar {
  const char *name;
  double value;
} Scalar;

/* Ends the program with a message. */
_Noreturn void fail(const char *message);
/* Returns the handle, or ends the program with the compiler's message if it is
   NULL. */
void *orFail(void *handle);

/* Allocates all of a kernel's planes, filled with zeros. */
Arrays allocate(TandemKernel *kernel, int64_t rows, int64_t columns);
void release(Arrays *arrays);

/* Returns the array of a plane, such as "exp_avg.scale". */
void *find(const Arrays *arrays, const char *name);
/* Copies planes to those of another kernel that have the same names, such as
   the saved inputs of a forward pass to its backward pass. */
void handOver(const Arrays *from, Arrays *to);

/* Runs the kernel once. */
void launch(const Arrays *arrays, const Scalar *scalars, int numScalars);

/* Converts a tensor to another storage. Both sides must have all of their
   arrays. */
void convert(const Arrays *from, Arrays *to, const char *role);
/* Converts a tensor to an array of floats. */
void decode(const Arrays *from, const char *role, float *values);

/* Writes each plane to the file DIRECTORY/PREFIX.PLANE.bin, or does nothing if
   the directory is NULL. */
void dump(const Arrays *arrays, const char *directory, const char *prefix);

#endif // EMBED_ARRAYS_H
