//===- TensorList.h - The tensors of a launch -------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the conversion of a list of tensors from Python to a plan.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_TENSORLIST_H
#define TANDEM_PYTHON_TENSORLIST_H

#include "tandem-runtime/tandem_runtime.h"
#include <optional>
#include <tuple>
#include <vector>

/// Tensors, and the data that they point to.
struct TensorList {
  /// A shard of a tensor: the tensor's row length, the index of the shard, the
  /// starts of all shards followed by the end of the last one, and the group of
  /// ranks.
  using Sharding = std::tuple<int64_t, int64_t, std::vector<int64_t>, int64_t>;

  TensorList() = default;
  /// Creates tensors from lists with one entry per tensor, except for
  /// \p pointers, which has the planes of all tensors in turn. Tensors without
  /// a sharding are whole. Throws if the lengths do not match.
  TensorList(const std::vector<int64_t> &heights,
             const std::vector<int64_t> &widths,
             const std::vector<int64_t> &firsts,
             const std::vector<int64_t> &keys, const std::vector<int64_t> &rows,
             const std::vector<uintptr_t> &pointers,
             std::vector<std::optional<Sharding>> shardings);
  TensorList(TensorList &&) = default;
  TensorList &operator=(TensorList &&) = default;

  std::vector<tdm_tensor> tensors;
  /// The addresses of all planes, the same number for each tensor.
  std::vector<void *> pointers;
  size_t planes = 0;

private:
  void spread();

  std::vector<std::optional<Sharding>> shardings;
  std::vector<tdm_sharding> records;
};

#endif // TANDEM_PYTHON_TENSORLIST_H
