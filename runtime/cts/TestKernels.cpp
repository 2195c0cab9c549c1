//===- TestKernels.cpp - Kernels written by hand --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements kernels that follow the binary interface of compiled
// ones.
//
//===----------------------------------------------------------------------===//

#include "TestKernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace tandem::cts;

//===----------------------------------------------------------------------===//
// Sgd
//===----------------------------------------------------------------------===//

static void sgdPrologue(const double *hypers, const int64_t *,
                        uint32_t *scalars, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    float scalar = static_cast<float>(-hypers[row * 2]);
    std::memcpy(&scalars[row], &scalar, sizeof(scalar));
  }
}

static void sgdChunk(const Record &tensor, const Chunk &chunk, float scalar,
                     uint32_t *flags) {
  float *param = tensor.plane<float>(0);
  const float *grad = tensor.plane<const float>(1);
  for (int64_t i = chunk.begin; i < chunk.end; ++i) {
    if (!std::isfinite(grad[i]))
      *flags |= TDM_FLAG_NON_FINITE;
    param[i] += scalar * grad[i];
  }
}

static void sgdEntry(const void *tensors, const void *chunks,
                     const uint32_t *scalars, void *, uint32_t *flags,
                     int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const Chunk &chunk = static_cast<const Chunk *>(chunks)[c];
    Record tensor(tensors, chunk.tensor, 2);
    float scalar;
    std::memcpy(&scalar, &scalars[tensor.scalarRow()], sizeof(scalar));
    sgdChunk(tensor, chunk, scalar, flags);
  }
}

tdm_kernel_desc tandem::cts::sgdDesc() {
  constexpr double inf = std::numeric_limits<double>::infinity();
  static const tdm_plane_desc planes[] = {
      {"param", 32, TDM_ACCESS_READ | TDM_ACCESS_WRITE, 1},
      {"grad", 32, TDM_ACCESS_READ, 1}};
  static const tdm_hyper_desc hypers[] = {{"lr", 0, inf, 0, 1, 0},
                                          {"eps", 0, 1, 0, 1, 1e-38}};
  static const tdm_integer_desc integers[] = {{"step", 1}};
  tdm_kernel_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.name = "sgd";
  desc.num_planes = 2;
  desc.planes = planes;
  desc.num_hypers = 2;
  desc.hypers = hypers;
  desc.num_integers = 1;
  desc.integers = integers;
  desc.num_scalars = 1;
  desc.entry = sgdEntry;
  desc.prologue = sgdPrologue;
  return desc;
}

//===----------------------------------------------------------------------===//
// Count
//===----------------------------------------------------------------------===//

static void countEntry(const void *tensors, const void *chunks,
                       const uint32_t *, void *, uint32_t *, int64_t begin,
                       int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const Chunk &chunk = static_cast<const Chunk *>(chunks)[c];
    uint8_t *count = Record(tensors, chunk.tensor, 1).plane<uint8_t>(0);
    for (int64_t i = chunk.begin; i < chunk.end; ++i)
      ++count[i];
  }
}

tdm_kernel_desc tandem::cts::countDesc() {
  static const tdm_plane_desc planes[] = {
      {"count", 8, TDM_ACCESS_READ | TDM_ACCESS_WRITE, 1}};
  tdm_kernel_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.name = "count";
  desc.num_planes = 1;
  desc.planes = planes;
  desc.entry = countEntry;
  return desc;
}

//===----------------------------------------------------------------------===//
// Sum
//===----------------------------------------------------------------------===//

/// The tree over \p size elements, a power of two; those that are not there
/// count as -0.0.
static double treeSum(const float *values, int64_t present, int64_t size) {
  if (present <= 0)
    return -0.0;
  if (size == 1)
    return values[0];
  int64_t half = size / 2;
  return treeSum(values, std::min(present, half), half) +
         treeSum(values + half, present - half, half);
}

static void sumEntry(const void *tensors, const void *chunks, const uint32_t *,
                     void *workspace, uint32_t *, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const Chunk &chunk = static_cast<const Chunk *>(chunks)[c];
    const float *value = Record(tensors, chunk.tensor, 1).plane<float>(0);
    int64_t elements = chunk.end - chunk.begin;
    double *metrics = static_cast<double *>(workspace) + c * 2;
    metrics[0] = treeSum(value + chunk.begin, elements, 1 << 16);
    metrics[1] = static_cast<double>(elements);
  }
}

tdm_kernel_desc tandem::cts::sumDesc() {
  static const tdm_plane_desc planes[] = {{"value", 32, TDM_ACCESS_READ, 1}};
  tdm_kernel_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.name = "sum";
  desc.num_planes = 1;
  desc.planes = planes;
  desc.workspace_doubles_per_chunk = 2;
  desc.entry = sumEntry;
  return desc;
}

//===----------------------------------------------------------------------===//
// Group
//===----------------------------------------------------------------------===//

static void groupEntry(const void *tensors, const void *chunks,
                       const uint32_t *, void *, uint32_t *, int64_t begin,
                       int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const Chunk &chunk = static_cast<const Chunk *>(chunks)[c];
    Record tensor(tensors, chunk.tensor, 2);
    uint8_t *code = tensor.plane<uint8_t>(0);
    uint16_t *scale = tensor.plane<uint16_t>(1);
    for (int64_t i = chunk.begin; i < chunk.end; i += 32) {
      int64_t last = std::min(i + 32, chunk.end);
      for (int64_t j = i; j < last; ++j)
        code[j] = static_cast<uint8_t>(code[j] + scale[i / 32]);
      scale[i / 32] = static_cast<uint16_t>(last - i);
    }
  }
}

tdm_kernel_desc tandem::cts::groupDesc() {
  constexpr uint32_t access = TDM_ACCESS_READ | TDM_ACCESS_WRITE;
  static const tdm_plane_desc planes[] = {{"code", 8, access, 0},
                                          {"scale", 16, access, 32}};
  tdm_kernel_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.name = "group";
  desc.num_planes = 2;
  desc.planes = planes;
  desc.entry = groupEntry;
  return desc;
}

//===----------------------------------------------------------------------===//
// Launches and values
//===----------------------------------------------------------------------===//

tdm_launch_info tandem::cts::launchPlain(tdm_plan *plan, int threads) {
  tdm_launch_info info = {sizeof(info), 0, 0, 0};
  EXPECT_EQ(tdm_plan_launch(plan, nullptr, nullptr, 0, threads, &info), TDM_OK)
      << tdm_last_error();
  return info;
}

tdm_launch_info tandem::cts::launchSgd(tdm_plan *plan,
                                       const std::vector<double> &lrs,
                                       int threads) {
  std::vector<double> hypers;
  for (double lr : lrs)
    hypers.insert(hypers.end(), {lr, 1e-8});
  std::vector<int64_t> integers(lrs.size(), 1);
  tdm_launch_info info = {sizeof(info), 0, 0, 0};
  EXPECT_EQ(tdm_plan_launch(plan, hypers.data(), integers.data(), lrs.size(),
                            threads, &info),
            TDM_OK)
      << tdm_last_error();
  return info;
}

std::vector<float> tandem::cts::randomFloats(size_t count, unsigned seed,
                                             int spread) {
  std::mt19937 bits(seed);
  std::vector<float> values(count);
  for (float &value : values) {
    uint32_t word = bits();
    float mantissa = 1.0f + static_cast<float>(word >> 9) * 0x1p-23f;
    int exponent = (static_cast<int>(word & 15) - 8) * spread;
    value = std::ldexp(word & 16 ? -mantissa : mantissa, exponent);
  }
  return values;
}

void tandem::cts::expectFailure(tdm_status actual, tdm_status status,
                                const std::string &message) {
  EXPECT_EQ(actual, status);
  EXPECT_EQ(tdm_last_error(), message);
}

void tandem::cts::expectFailureSaying(tdm_status actual, tdm_status status,
                                      const std::string &part) {
  EXPECT_EQ(actual, status) << tdm_last_error();
  EXPECT_NE(std::string(tdm_last_error()).find(part), std::string::npos)
      << tdm_last_error() << "\nlacks: " << part;
}
