//===- update.c - A model's update from a package -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a C program that updates a small model with a kernel of
// a package. It links only Tandem's runtime and does not depend on the
// optimizer: the package describes which arrays there are and what they hold.
//
// The model has three tensors, whose loss is half their squared distance from a
// sine, so that the gradient is the distance.
//
//===----------------------------------------------------------------------===//

#include "tandem-runtime/tandem_package.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUM_TENSORS = 3, MAX_PLANES = 16, MAX_SCALARS = 16 };
static const int64_t sizes[NUM_TENSORS] = {1000, 4096, 37};

/* Rounds a number to bf16, its upper half, to nearest, ties to even. */
static uint16_t toBFloat16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

static float load(const void *plane, const char *type, int64_t i) {
  uint32_t bits;
  float value;
  if (!strcmp(type, "f32"))
    return ((const float *)plane)[i];
  bits = (uint32_t)((const uint16_t *)plane)[i] << 16;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static void store(void *plane, const char *type, int64_t i, float value) {
  if (!strcmp(type, "f32"))
    ((float *)plane)[i] = value;
  else
    ((uint16_t *)plane)[i] = toBFloat16(value);
}

static void check(tdm_status status) {
  if (status == TDM_OK)
    return;
  fprintf(stderr, "update: %s\n", tdm_last_error());
  exit(1);
}

/* Returns the index of the plane that a framework reads as the weight or the
   gradient. */
static uint32_t findPlane(const tdm_kernel_info *info, tdm_role kind) {
  uint32_t i;
  for (i = 0; i < info->desc->num_planes; ++i) {
    const tdm_plane_desc *plane = &info->desc->planes[i];
    if (plane->kind == kind && plane->visible &&
        (!strcmp(plane->type, "f32") || !strcmp(plane->type, "bf16")))
      return i;
  }
  fprintf(stderr,
          "update: kernel '%s' has no weight or gradient of f32 or "
          "bf16; write the package for another strategy\n",
          info->name);
  exit(1);
}

/* Allocates the entries of a plane, one for each group of a tensor's elements,
   filled with zeros. */
static void *allocate(const tdm_plane_desc *plane, int64_t size) {
  int64_t group = plane->group == TDM_WHOLE_TENSOR ? size : plane->group;
  int64_t entries = (size + group - 1) / group;
  int64_t values = plane->history ? plane->history : 1;
  void *memory = calloc((size_t)(entries * values), plane->bits / 8);
  if (memory)
    return memory;
  fprintf(stderr, "update: out of memory\n");
  exit(1);
}

/* Writes the gradients and returns the loss. */
static double backward(const tdm_kernel_info *info,
                       void *planes[NUM_TENSORS][MAX_PLANES]) {
  uint32_t weight = findPlane(info, TDM_ROLE_PARAM);
  uint32_t gradient = findPlane(info, TDM_ROLE_GRAD);
  double loss = 0.0;
  int64_t t, i;
  for (t = 0; t < NUM_TENSORS; ++t)
    for (i = 0; i < sizes[t]; ++i) {
      float distance =
          load(planes[t][weight], info->desc->planes[weight].type, i) -
          sinf((float)i);
      store(planes[t][gradient], info->desc->planes[gradient].type, i,
            distance);
      loss += 0.5 * distance * distance;
    }
  return loss;
}

static void train(const tdm_kernel_info *info, tdm_kernel *kernel,
                  void *planes[NUM_TENSORS][MAX_PLANES], int steps) {
  double hypers[MAX_SCALARS];
  int64_t integers[MAX_SCALARS];
  tdm_tensor tensors[NUM_TENSORS];
  tdm_plan *plan = NULL;
  int64_t t;
  int step;
  uint32_t i;
  for (t = 0; t < NUM_TENSORS; ++t) {
    tdm_tensor tensor = {1, sizes[t], 0, t, 0, planes[t], NULL};
    tensors[t] = tensor;
  }
  for (i = 0; i < info->desc->num_hypers; ++i)
    hypers[i] = strcmp(info->desc->hypers[i].name, "lr")
                    ? info->desc->hypers[i].default_value
                    : 0.01;
  check(tdm_plan_create(kernel, tensors, NUM_TENSORS, &plan));
  for (step = 1; step <= steps; ++step) {
    double loss = backward(info, planes);
    for (i = 0; i < info->desc->num_integers; ++i)
      integers[i] = info->desc->integers[i].kind == TDM_ROLE_STEP ? step : 0;
    check(tdm_plan_launch(plan, hypers, integers, 1, 0, NULL));
    if (step == 1 || step % 50 == 0)
      printf("step %d: loss %.4f\n", step, loss);
  }
  tdm_plan_destroy(plan);
}

/* Writes the weights of all tensors, one after the other. */
static void writeWeights(const tdm_kernel_info *info,
                         void *planes[NUM_TENSORS][MAX_PLANES],
                         const char *path) {
  uint32_t weight = findPlane(info, TDM_ROLE_PARAM);
  size_t width = info->desc->planes[weight].bits / 8;
  FILE *file = fopen(path, "wb");
  int64_t t;
  for (t = 0; file && t < NUM_TENSORS; ++t)
    fwrite(planes[t][weight], width, (size_t)sizes[t], file);
  if (file && !fclose(file))
    return;
  fprintf(stderr, "update: cannot write '%s'\n", path);
  exit(1);
}

int main(int argc, char **argv) {
  tdm_package *package = NULL;
  tdm_kernel *kernel = NULL;
  tdm_kernel_info info;
  void *planes[NUM_TENSORS][MAX_PLANES] = {{NULL}};
  int64_t t;
  uint32_t i;
  if (argc != 4) {
    fprintf(stderr, "usage: update PACKAGE STEPS WEIGHTS\n");
    return 2;
  }
  check(tdm_package_open(argv[1], &package));
  check(tdm_package_load(package, NULL, NULL, NULL, &kernel));
  memset(&info, 0, sizeof(info));
  info.struct_size = sizeof(info);
  check(tdm_package_kernel(package, 0, &info));
  if (info.desc->num_planes > MAX_PLANES || info.desc->matrix ||
      info.desc->num_hypers > MAX_SCALARS ||
      info.desc->num_integers > MAX_SCALARS) {
    fprintf(stderr, "update: kernel '%s' is not for this model\n", info.name);
    return 1;
  }
  printf("%s under %s, %u arrays\n", info.graph, info.strategy,
         info.desc->num_planes);
  for (t = 0; t < NUM_TENSORS; ++t)
    for (i = 0; i < info.desc->num_planes; ++i)
      planes[t][i] = allocate(&info.desc->planes[i], sizes[t]);
  train(&info, kernel, planes, atoi(argv[2]));
  writeWeights(&info, planes, argv[3]);
  for (t = 0; t < NUM_TENSORS; ++t)
    for (i = 0; i < info.desc->num_planes; ++i)
      free(planes[t][i]);
  tdm_kernel_destroy(kernel);
  tdm_package_close(package);
  return 0;
}
