//===- reference.h - AdamW and RMSNorm in plain C ---------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the references for the kernels, the random inputs, and the
// errors of results.
//
//===----------------------------------------------------------------------===//

#ifndef EMBED_REFERENCE_H
#define EMBED_REFERENCE_H

#include <stdint.h>

typedef struct AdamW {
  double lr, beta1, beta2, eps, weightDecay;
  int64_t step;
} AdamW;

/* Updates a parameter and its moments. */
void updateAdamW(const AdamW *hypers, int64_t size, const float *grad,
                 double *param, double *expAvg, double *expAvgSq);

/* Computes y and, for each row, the inverse of the root mean square. */
void normalize(int64_t rows, int64_t columns, double eps, const double *x,
               const float *weight, double *y, double *inverse);
/* Computes the gradients of x and of the weight. */
void normalizeBackward(int64_t rows, int64_t columns, const double *x,
                       const double *inverse, const float *weight,
                       const double *dy, double *dx, double *dweight);

/* Returns a number in [-1, 1) that depends only on the state, and advances the
   state. */
float draw(uint32_t *state);

uint16_t toBFloat16(float value);
float fromBFloat16(uint16_t bits);

/* Returns the norm of the difference, relative to the norm of `want`. */
double getError(int64_t size, const double *got, const double *want);

#endif // EMBED_REFERENCE_H
