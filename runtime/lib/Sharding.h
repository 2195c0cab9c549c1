//===- Sharding.h - Tensors that are spread over ranks ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how a tensor is spread over ranks, and the tree by which
// its shards' reductions become that of the whole.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_SHARDING_H
#define TANDEM_RUNTIME_LIB_SHARDING_H

#include "Kernel.h"

#include <limits>
#include <map>
#include <utility>

namespace tandem::runtime {

/// The rows of the unsharded tensor.
inline int64_t unshardedRows(const tdm_sharding &sharding) {
  int64_t elements = sharding.starts[sharding.num_shards];
  return sharding.row_length ? elements / sharding.row_length : 0;
}

/// The copy of a tdm_sharding; that of a whole tensor has no starts.
struct Sharding {
  int64_t rowLength = 0;
  int64_t shard = 0;
  /// The ranks that have the shards.
  int64_t group = 0;
  std::vector<int64_t> starts;

  Sharding() = default;
  explicit Sharding(const tdm_sharding *sharding);

  bool isWhole() const { return starts.empty(); }
  bool operator!=(const Sharding &other) const {
    return rowLength != other.rowLength || shard != other.shard ||
           group != other.group || starts != other.starts;
  }
  /// Whether a tensor is spread in the same way.
  bool isThatOf(const tdm_tensor &tensor) const;
};

/// Checks the sharding of tensor number \p index of a list.
tdm_status checkSharding(const Kernel &kernel, const tdm_tensor &tensor,
                         int64_t index);

/// The balanced binary tree over the leaves of a tensor, elements or rows, cut
/// into the largest subtrees that lie in one shard. A shard has few of them,
/// about twice the logarithm of its leaves, so that they are what ranks tell
/// each other; from all of them every rank makes the same total.
class ShardTree {
public:
  /// The leaves [begin, end), of which those from the end of the tensor on are
  /// padding.
  struct Node {
    int64_t begin, end;
  };

  /// The tree of a whole tensor, which has no nodes.
  ShardTree() = default;
  /// \p unit is the number of elements of a leaf.
  ShardTree(const Sharding &sharding, int64_t unit);

  bool isWhole() const { return nodes.empty(); }
  size_t size() const { return nodes.size(); }
  /// The numbers of this rank's nodes: from the first up to, but excluding, the
  /// second.
  std::pair<size_t, size_t> own() const { return {ownBegin, ownEnd}; }
  /// Returns the range of a node among this shard's chunks of \p leaves leaves.
  std::pair<int64_t, int64_t> chunksOf(size_t node, int64_t leaves) const;
  /// The largest power of two of leaves that shards begin at multiples of.
  int64_t getAlignment() const { return alignment; }

  /// Makes the total of all nodes' values, which \p join combines in place.
  /// \p join(l, r) puts the value of nodes l and r together into that of l.
  template <typename Join>
  void combine(Join join) const {
    for (auto [left, right] : pairs)
      join(left, right);
  }

private:
  void appendNodes(int64_t begin, int64_t end);
  void pairUp();

  std::vector<Node> nodes;
  /// The nodes whose subtrees are neighbours, in the order of combining.
  std::vector<std::pair<size_t, size_t>> pairs;
  size_t ownBegin = 0, ownEnd = 0;
  /// The first and the end of this shard's leaves.
  int64_t first = 0, end = 0;
  int64_t alignment = std::numeric_limits<int64_t>::max();
};

/// The words that ranks exchange: of each group of ranks its own.
class ShardWords {
public:
  void clear();
  /// Appends \p count zeros and returns their address, which holds until the
  /// next call.
  uint32_t *append(int64_t group, size_t count);
  /// The words after those that were taken before.
  uint32_t *take(int64_t group, size_t count);
  /// Calls exchange(group, words) for groups that have words, by ascending
  /// numbers, until one fails.
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
  /// Groups without words remain, so that launches need not allocate.
  std::map<int64_t, Group> groups;
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_SHARDING_H
