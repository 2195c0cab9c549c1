//===- reference.c - AdamW and RMSNorm in plain C -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the double-precision references for the kernels.
//
//===----------------------------------------------------------------------===//

#include "reference.h"
#include <math.h>
#include <string.h>

void updateAdamW(const AdamW *hypers, int64_t size, const float *grad,
                 double *param, double *expAvg, double *expAvgSq) {
  double first = 1 - pow(hypers->beta1, (double)hypers->step);
  double second = 1 - pow(hypers->beta2, (double)hypers->step);
  for (int64_t i = 0; i < size; ++i) {
    double g = grad[i];
    expAvg[i] = hypers->beta1 * expAvg[i] + (1 - hypers->beta1) * g;
    expAvgSq[i] = hypers->beta2 * expAvgSq[i] + (1 - hypers->beta2) * g * g;
    double ratio =
        expAvg[i] / first / (sqrt(expAvgSq[i] / second) + hypers->eps);
    param[i] -= hypers->lr * (ratio + hypers->weightDecay * param[i]);
  }
}

void normalize(int64_t rows, int64_t columns, double eps, const double *x,
               const float *weight, double *y, double *inverse) {
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j)
      sum += x[i * columns + j] * x[i * columns + j];
    inverse[i] = 1 / sqrt(sum / (double)columns + eps);
    for (int64_t j = 0; j < columns; ++j)
      y[i * columns + j] = weight[j] * x[i * columns + j] * inverse[i];
  }
}

void normalizeBackward(int64_t rows, int64_t columns, const double *x,
                       const double *inverse, const float *weight,
                       const double *dy, double *dx, double *dweight) {
  memset(dweight, 0, (size_t)columns * sizeof(double));
  for (int64_t i = 0; i < rows; ++i) {
    const double *xs = x + i * columns, *dys = dy + i * columns;
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j) {
      dweight[j] += dys[j] * xs[j] * inverse[i];
      sum += weight[j] * dys[j] * xs[j] * inverse[i];
    }
    double mean = sum / (double)columns;
    for (int64_t j = 0; j < columns; ++j)
      dx[i * columns + j] =
          inverse[i] * (weight[j] * dys[j] - xs[j] * inverse[i] * mean);
  }
}

float draw(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)((int32_t)(*state >> 8) - (1 << 23)) / (float)(1 << 23);
}

uint16_t toBFloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float fromBFloat16(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

double getError(int64_t size, const double *got, const double *want) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < size; ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return sqrt(difference / norm);
}
