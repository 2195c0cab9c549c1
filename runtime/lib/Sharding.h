//===- Sharding.h - Tensors that are spread over ranks ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the sharding of a tensor over ranks, and the tree that
// combines the shards' reductions into that of the whole tensor.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_SHARDING_H
#define TANDEM_RUNTIME_LIB_SHARDING_H

#include "Kernel.h"

#include <limits>
#include <map>
#include <utility>

namespace tandem::runtime {

/// Returns the number of rows of the unsharded tensor.
inline int64_t unshardedRows(const tdm_sharding &sharding) {
  int64_t elements = sharding.starts[sharding.num_shards];
  return sharding.row_length ? elements / sharding.row_length : 0;
}

/// The copy of a tdm_sharding. It has no starts for a whole tensor.
struct Sharding {
  int64_t rowLength = 0;
  int64_t shard = 0;
  /// The group of ranks that hold the shards.
  int64_t group = 0;
  std::vector<int64_t> starts;

  Sharding() = default;
  explicit Sharding(const tdm_sharding *sharding);

  bool isWhole() const { return starts.empty(); }
  bool operator!=(const Sharding &other) const {
    return rowLength != other.rowLength || shard != other.shard ||
           group != other.group || starts != other.starts;
  }
  /// Returns whether a tensor is sharded in the same way.
  bool isThatOf(const tdm_tensor &tensor) const;
};

/// Checks the sharding of tensor number \p index of a list.
tdm_status checkSharding(const Kernel &kernel, const tdm_tensor &tensor,
                         int64_t index);

/// The balanced binary tree over the leaves of a tensor, elements or rows, cut
/// into the largest subtrees that lie in one shard. A shard has few of them,
/// about twice the logarithm of its leaves, so ranks exchange their values;
/// from all of them every rank computes the same total.
class ShardTree {
public:
  /// The leaves [begin, end). Leaves past the end of the tensor are padding.
  struct Node {
    int64_t begin, end;
  };

  /// Creates the tree of a whole tensor, which has no nodes.
  ShardTree() = default;
  /// Builds the tree of a sharded tensor. A leaf has \p unit elements.
  ShardTree(const Sharding &sharding, int64_t unit);

  bool isWhole() const { return nodes.empty(); }
  size_t size() const { return nodes.size(); }
  /// Returns the range of this rank's nodes: the first, and the one after the
  /// last.
  std::pair<size_t, size_t> own() const { return {ownBegin, ownEnd}; }
  /// Returns the range of a node among this shard's chunks of \p leaves leaves.
  std::pair<int64_t, int64_t> chunksOf(size_t node, int64_t leaves) const;
  /// Returns the largest power of two such that each shard begins at a multiple
  /// of this number of leaves.
  int64_t getAlignment() const { return alignment; }

  /// Combines the values of all nodes into their total, in place. \p join(l, r)
  /// combines the values of nodes l and r into that of l.
  template <typename Join>
  void combine(Join join) const {
    for (auto [left, right] : pairs)
      join(left, right);
  }

private:
  void appendNodes(int64_t begin, int64_t end);
  void pairUp();

  std::vector<Node> nodes;
  /// The pairs of adjacent nodes to combine, in order.
  std::vector<std::pair<size_t, size_t>> pairs;
  size_t ownBegin = 0, ownEnd = 0;
  /// The range of this shard's leaves.
  int64_t first = 0, end = 0;
  int64_t alignment = std::numeric_limits<int64_t>::max();
};

/// The words that ranks exchange, separately for each group of ranks.
class ShardWords {
public:
  void clear();
  /// Appends \p count zeros and returns their address, which is valid until the
  /// next call.
  uint32_t *append(int64_t group, size_t count);
  /// Returns the next \p count words of a group, in the order of append().
  uint32_t *take(int64_t group, size_t count);
  /// Calls exchange(group, words) for each group that has words, in ascending
  /// order, until one fails.
  template <typename Exchange>
  tdm_status exchangeEach(Exchange exchange) {
    for (auto &[number, group] : groups)
      if (!group.words.empty())
        if (tdm_status status = exchange(number, group.words))
          return status;
    return TDM_OK;
  }

private:
  struct Group {
    std::vector<uint32_t> words;
    size_t taken = 0;
  };
  /// Groups stay here without words, so that launches need not allocate.
  std::map<int64_t, Group> groups;
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_SHARDING_H
