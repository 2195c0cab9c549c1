//===- TensorList.cpp - The tensors of a launch ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the conversion of a list of tensors from Python to a
// plan.
//
//===----------------------------------------------------------------------===//

#include "TensorList.h"

#include <nanobind/nanobind.h>

TensorList::TensorList(const std::vector<int64_t> &heights,
                       const std::vector<int64_t> &widths,
                       const std::vector<int64_t> &firsts,
                       const std::vector<int64_t> &keys,
                       const std::vector<int64_t> &rows,
                       const std::vector<uintptr_t> &addresses,
                       std::vector<std::optional<Sharding>> given)
    : shardings(std::move(given)) {
  size_t count = heights.size();
  if (widths.size() != count || firsts.size() != count ||
      keys.size() != count || rows.size() != count ||
      (count ? addresses.size() % count : addresses.size()) ||
      (!shardings.empty() && shardings.size() != count))
    throw nanobind::value_error("the lists of a plan differ in length");
  planes = count ? addresses.size() / count : 0;
  for (uintptr_t address : addresses)
    pointers.push_back(reinterpret_cast<void *>(address));
  for (size_t i = 0; i < count; ++i)
    tensors.push_back({heights[i], widths[i], firsts[i], keys[i], rows[i],
                       pointers.data() + i * planes, nullptr});
  spread();
}

/// Sets the tensors' pointers to their shardings.
void TensorList::spread() {
  records.resize(shardings.size());
  for (size_t i = 0; i < shardings.size(); ++i)
    if (const auto &sharding = shardings[i]) {
      const auto &[rowLength, shard, starts, group] = *sharding;
      if (starts.empty())
        throw nanobind::value_error("a sharding has no starts");
      records[i] = {rowLength, static_cast<int64_t>(starts.size()) - 1, shard,
                    starts.data(), group};
      tensors[i].sharding = &records[i];
    }
}
