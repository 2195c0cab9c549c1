//===- TensorTable.h - The tensor and chunk tables of a launch --*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the tables that a compiled kernel reads, and the checks
// that a tensor list passes on its way into them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_TENSORTABLE_H
#define TANDEM_RUNTIME_LIB_TENSORTABLE_H

#include "Kernel.h"

namespace tandem::runtime {

/// The memory of one plane of one tensor.
struct Interval {
  uintptr_t begin, end;
  int64_t tensor;
  uint32_t plane;
  bool written;
};

/// The tensor records of a list.
class TensorTable {
public:
  /// Checks \p tensors and fills the table with them. After a failure the
  /// table is unspecified. Allocates only to grow.
  tdm_status assign(const Kernel &kernel, const tdm_tensor *tensors,
                    int64_t count);

  /// Whether the table holds exactly these tensors.
  bool holds(const Kernel &kernel, const tdm_tensor *tensors,
             int64_t count) const;

  /// Whether both tables have as many elements, tensor by tensor.
  bool sameElements(const TensorTable &other) const;

  /// Says in the tensor's record where its totals and its chunks are.
  void link(int64_t tensor, const uint32_t *totals, int64_t firstChunk,
            int64_t endChunk);

  const void *data() const { return records.data(); }
  int64_t size() const { return count; }
  int64_t elements(int64_t tensor) const;
  /// The number of scalar rows that the tensors need.
  int64_t scalarRows() const { return needRows; }
  /// A tensor that needs the last of those rows.
  int64_t lastRowTensor() const { return needRowsTensor; }

private:
  tdm_status check(const Kernel &kernel, const tdm_tensor &tensor) const;
  tdm_status checkPlane(const Kernel &kernel, const tdm_tensor &tensor,
                        uint32_t plane) const;
  tdm_status checkOverlaps(const Kernel &kernel);
  void append(const Kernel &kernel, const tdm_tensor &tensor);

  /// Records as 64-bit words: five integers, then the planes; then, where the
  /// kernel has reductions, three words that link() writes.
  std::vector<int64_t> records;
  std::vector<Interval> intervals;
  int64_t recordWords = 0;
  int64_t count = 0;
  int64_t needRows = 0;
  int64_t needRowsTensor = 0;
};

/// A chunk record: a range of elements of one tensor.
struct Chunk {
  int64_t tensor, begin, end;
};

/// The chunk records of a tensor table.
class ChunkTable {
public:
  void assign(const TensorTable &tensors);

  const void *data() const { return chunks.data(); }
  int64_t size() const { return static_cast<int64_t>(chunks.size()); }
  /// The number of the first chunk of \p tensor, also for one past the end.
  int64_t firstOf(int64_t tensor) const { return firsts[tensor]; }

private:
  std::vector<Chunk> chunks;
  std::vector<int64_t> firsts;
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_TENSORTABLE_H
