//===- Sharding.cpp - Tensors that are spread over ranks ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the sharding of a tensor over ranks, and the tree that
// combines the shards' reductions into that of the whole tensor.
//
//===----------------------------------------------------------------------===//

#include "Sharding.h"

#include <algorithm>

using namespace tandem::runtime;

//===----------------------------------------------------------------------===//
// Shardings
//===----------------------------------------------------------------------===//

Sharding::Sharding(const tdm_sharding *sharding) {
  if (!sharding)
    return;
  rowLength = sharding->row_length;
  shard = sharding->shard;
  group = sharding->group;
  starts.assign(sharding->starts, sharding->starts + sharding->num_shards + 1);
}

bool Sharding::isThatOf(const tdm_tensor &tensor) const {
  const tdm_sharding *other = tensor.sharding;
  if (!other)
    return isWhole();
  return rowLength == other->row_length && shard == other->shard &&
         group == other->group &&
         static_cast<int64_t>(starts.size()) == other->num_shards + 1 &&
         std::equal(starts.begin(), starts.end(), other->starts);
}

static tdm_status checkStarts(const Kernel &kernel,
                              const tdm_sharding &sharding, int64_t index) {
  const int64_t *starts = sharding.starts;
  int64_t end = starts[sharding.num_shards];
  bool isOneRow = end == sharding.row_length;
  for (int64_t i = 0; i <= sharding.num_shards; ++i) {
    if (starts[i] < (i ? starts[i - 1] : 0) || (i == 0 && starts[0]))
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << TensorNumber{index} << ": shard " << i << " starts at "
             << starts[i] << "; starts must ascend from 0";
    if (!isOneRow && (!sharding.row_length || starts[i] % sharding.row_length))
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << TensorNumber{index} << ": shard " << i << " starts at "
             << starts[i] << ", inside of a row of " << sharding.row_length
             << " elements; shard whole rows";
  }
  return TDM_OK;
}

tdm_status tandem::runtime::checkSharding(const Kernel &kernel,
                                          const tdm_tensor &tensor,
                                          int64_t index) {
  const tdm_sharding &sharding = *tensor.sharding;
  if (sharding.row_length < 0 || sharding.num_shards < 1 ||
      sharding.shard < 0 || sharding.shard >= sharding.num_shards ||
      !sharding.starts)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{index} << ": it is shard " << sharding.shard
           << " of " << sharding.num_shards << ", with rows of "
           << sharding.row_length << " elements; correct the sharding";
  if (tdm_status status = checkStarts(kernel, sharding, index))
    return status;
  int64_t begin = sharding.starts[sharding.shard];
  int64_t elements = sharding.starts[sharding.shard + 1] - begin;
  bool hasRows = sharding.starts[sharding.num_shards] != sharding.row_length;
  if (tensor.first != begin || tensor.rows * tensor.columns != elements ||
      (hasRows && elements && tensor.columns != sharding.row_length))
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{index} << ": " << tensor.rows << " rows of "
           << tensor.columns << " columns from element " << tensor.first
           << " on are not shard " << sharding.shard << ", which has "
           << elements << " elements from " << begin << " on in rows of "
           << sharding.row_length << "; correct the tensor or its sharding";
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// Trees
//===----------------------------------------------------------------------===//

/// Returns the largest power of two that divides \p value, which is positive.
static int64_t lowestBit(int64_t value) { return value & -value; }

ShardTree::ShardTree(const Sharding &sharding, int64_t unit) {
  int64_t leaves = unit ? sharding.starts.back() / unit : 0;
  if (!leaves)
    return;
  int64_t padded = 1;
  while (padded < leaves)
    padded *= 2;
  alignment = padded;
  int64_t count = static_cast<int64_t>(sharding.starts.size()) - 1;
  for (int64_t shard = 0; shard < count; ++shard) {
    int64_t from = sharding.starts[shard] / unit;
    int64_t to = sharding.starts[shard + 1] / unit;
    if (from && from != to)
      alignment = std::min(alignment, lowestBit(from));
    if (shard == sharding.shard) {
      first = from, end = to;
      ownBegin = nodes.size();
    }
    // The padding belongs to the shard of the last leaf.
    if (from != to)
      appendNodes(from, to == leaves ? padded : to);
    if (shard == sharding.shard)
      ownEnd = nodes.size();
  }
  pairUp();
}

void ShardTree::appendNodes(int64_t begin, int64_t end) {
  while (begin != end) {
    int64_t size = begin ? lowestBit(begin) : end;
    while (size & (size - 1))
      size &= size - 1;
    while (size > end - begin)
      size /= 2;
    nodes.push_back({begin, begin + size});
    begin += size;
  }
}

void ShardTree::pairUp() {
  // The subtrees whose right siblings are not complete yet.
  std::vector<std::pair<Node, size_t>> open;
  for (size_t node = 0; node < nodes.size(); ++node) {
    open.push_back({nodes[node], node});
    while (open.size() > 1) {
      auto &[left, leftNode] = open[open.size() - 2];
      auto &[right, rightNode] = open.back();
      int64_t size = right.end - right.begin;
      if (left.end - left.begin != size || left.begin & size)
        break;
      pairs.push_back({leftNode, rightNode});
      left.end = right.end;
      open.pop_back();
    }
  }
}

std::pair<int64_t, int64_t> ShardTree::chunksOf(size_t node,
                                                int64_t leaves) const {
  int64_t from = std::min(nodes[node].begin, end) - first;
  int64_t to = std::min(nodes[node].end, end) - first;
  return {(from + leaves - 1) / leaves, (to + leaves - 1) / leaves};
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

void ShardWords::clear() {
  for (auto &entry : groups) {
    entry.second.words.clear();
    entry.second.taken = 0;
  }
}

uint32_t *ShardWords::append(int64_t group, size_t count) {
  std::vector<uint32_t> &words = groups[group].words;
  words.resize(words.size() + count);
  return words.data() + words.size() - count;
}

uint32_t *ShardWords::take(int64_t group, size_t count) {
  Group &own = groups[group];
  own.taken += count;
  return own.words.data() + own.taken - count;
}
