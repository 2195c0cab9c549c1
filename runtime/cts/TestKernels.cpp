//===- TestKernels.cpp - Kernels written by hand --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements kernels with the binary interface of compiled ones.
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
  desc.entry = code::sgdEntry;
  desc.prologue = code::sgdPrologue;
  return desc;
}

//===----------------------------------------------------------------------===//
// Count
//===----------------------------------------------------------------------===//

tdm_kernel_desc tandem::cts::countDesc() {
  static const tdm_plane_desc planes[] = {
      {"count", 8, TDM_ACCESS_READ | TDM_ACCESS_WRITE, 1}};
  tdm_kernel_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.name = "count";
  desc.num_planes = 1;
  desc.planes = planes;
  desc.entry = code::countEntry;
  return desc;
}

//===----------------------------------------------------------------------===//
// Sum
//===----------------------------------------------------------------------===//

tdm_kernel_desc tandem::cts::sumDesc() {
  static const tdm_plane_desc planes[] = {{"value", 32, TDM_ACCESS_READ, 1}};
  tdm_kernel_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.name = "sum";
  desc.num_planes = 1;
  desc.planes = planes;
  desc.workspace_doubles_per_chunk = 2;
  desc.entry = code::sumEntry;
  return desc;
}

//===----------------------------------------------------------------------===//
// Group
//===----------------------------------------------------------------------===//

tdm_kernel_desc tandem::cts::groupDesc() {
  constexpr uint32_t access = TDM_ACCESS_READ | TDM_ACCESS_WRITE;
  static const tdm_plane_desc planes[] = {{"code", 8, access, 0},
                                          {"scale", 16, access, 32}};
  tdm_kernel_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.name = "group";
  desc.num_planes = 2;
  desc.planes = planes;
  desc.entry = code::groupEntry;
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
