//===- TensorTable.h - The tensor and chunk tables of a launch --*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the table of tensors that a compiled kernel reads, and the
// checks of the tensors that are added to it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_TENSORTABLE_H
#define TANDEM_RUNTIME_LIB_TENSORTABLE_H

#include "Sharding.h"
#include "tandem-runtime/tandem_launch.h"

namespace tandem::runtime {

/// The memory of one plane of one tensor.
struct Interval {
  uintptr_t begin, end;
  int64_t tensor;
  uint32_t plane;
  bool written;
};

/// The begin of an interval, by which intervals are sorted, and its index.
struct SortKey {
  uintptr_t begin;
  size_t interval;
};

/// The tensor records of a list.
class TensorTable {
public:
  /// Checks \p tensors and fills the table with them. After a failure the
  /// contents of the table are unspecified. Allocates only to grow.
  tdm_status assign(const Kernel &kernel, const tdm_tensor *tensors,
                    int64_t count);

  /// Returns whether the table holds exactly these tensors.
  bool holds(const Kernel &kernel, const tdm_tensor *tensors,
             int64_t count) const;

  /// Returns whether the tensors of both tables have the same rows and columns.
  bool sameShapes(const TensorTable &other) const;

  /// Returns a tensor's record, whose totals, chunks and parts the plan fills
  /// in.
  tdm_launch_tensor &record(int64_t tensor) {
    return *reinterpret_cast<tdm_launch_tensor *>(&words[tensor * recordWords]);
  }
  const tdm_launch_tensor &record(int64_t tensor) const {
    return const_cast<TensorTable *>(this)->record(tensor);
  }
  /// Returns the addresses of the parts of a tensor's reductions.
  tdm_launch_total **parts(int64_t tensor) {
    void **planes = reinterpret_cast<void **>(&record(tensor) + 1);
    return reinterpret_cast<tdm_launch_total **>(planes + numPlanes);
  }

  const void *data() const { return words.data(); }
  size_t bytes() const { return words.size() * sizeof(int64_t); }
  int64_t size() const { return count; }
  int64_t rows(int64_t tensor) const { return record(tensor).rows; }
  int64_t columns(int64_t tensor) const { return record(tensor).columns; }
  int64_t elements(int64_t tensor) const {
    return rows(tensor) * columns(tensor);
  }
  /// Returns the number of elements, rows, columns or blocks; 0 for a tensor
  /// without elements.
  int64_t extent(int64_t tensor, tdm_granularity per) const;
  /// Returns the sharding of a tensor.
  const Sharding &sharding(int64_t tensor) const { return shardings[tensor]; }
  /// Returns the tree over a tensor's elements, or over its rows if they are
  /// cut separately.
  const ShardTree &tree(int64_t tensor) const { return trees[tensor]; }
  /// Returns whether the rows of a tensor are cut separately.
  bool isCut(int64_t tensor) const { return cut[tensor]; }
  /// Returns whether any tensor is sharded.
  bool isSharded() const;
  /// Returns the number of scalar rows that the tensors need.
  int64_t scalarRows() const { return needRows; }
  /// Returns a tensor that needs the last of those rows.
  int64_t lastRowTensor() const { return needRowsTensor; }

private:
  tdm_status check(const Kernel &kernel, const tdm_tensor &tensor) const;
  tdm_status checkPlane(const Kernel &kernel, const tdm_tensor &tensor,
                        uint32_t plane) const;
  tdm_status checkOverlaps(const Kernel &kernel);
  void append(const Kernel &kernel, const tdm_tensor &tensor);

  /// The records, each followed by its addresses.
  std::vector<int64_t> words;
  std::vector<Interval> intervals;
  std::vector<Sharding> shardings;
  std::vector<ShardTree> trees;
  std::vector<bool> cut;
  /// The sort keys of the intervals, in order, and scratch memory to sort them.
  std::vector<SortKey> order, orderRoom;
  int64_t recordWords = 0, numPlanes = 0;
  /// The number of rows, and of columns, of the kernel's blocks; 0 if it has
  /// none.
  int64_t block = 0;
  int64_t count = 0;
  int64_t needRows = 0;
  int64_t needRowsTensor = 0;
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_TENSORTABLE_H
