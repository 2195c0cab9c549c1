//===- Matrices.h - Reductions of rows and columns --------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the parts that the tiles of matrices compute for
// reductions along rows and columns.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_MATRICES_H
#define TANDEM_RUNTIME_LIB_MATRICES_H

#include "ChunkTable.h"

namespace tandem::runtime {

/// The layout of the parts of a matrix kernel's reductions along rows and
/// columns in one array of 32-bit entries. Each tensor and reduction has one
/// entry per row (column) from each tile across (down). A reduction over blocks
/// has one entry per block.
class AxisParts {
public:
  AxisParts() = default;
  /// Lays out the parts of \p count tensors, whose tiles are in \p tiles.
  AxisParts(const Kernel &kernel, const ChunkTable &tiles, int64_t count);

  /// Writes the addresses of a tensor's parts of each reduction, given the
  /// address of the parts of all tensors.
  void link(int64_t tensor, tdm_launch_total *parts,
            tdm_launch_total **addresses) const;

  /// Combines the parts of a reduction of a tensor; the results replace the
  /// first parts.
  void reduce(int64_t tensor, size_t reduction, tdm_reduction_kind kind,
              uint32_t *parts) const;
  /// Reduces the parts of a band's rows in the same way.
  void reduceRows(size_t reduction, tdm_reduction_kind kind, const Tile &band,
                  uint32_t *parts) const;

  /// Returns the number of rows or columns of a reduction of a tensor.
  int64_t extentOf(int64_t tensor, size_t reduction) const {
    return rangeOf(tensor, reduction).extent;
  }
  /// Combines the parts [first, end) of a reduction of a tensor in place of the
  /// first, and returns its address.
  uint32_t *reduceParts(int64_t tensor, size_t reduction,
                        tdm_reduction_kind kind, int64_t first, int64_t end,
                        uint32_t *parts) const;
  /// Returns the address of a tensor's results of a reduction.
  uint32_t *resultsOf(int64_t tensor, size_t reduction, uint32_t *parts) const {
    return parts + rangeOf(tensor, reduction).begin;
  }

  /// Returns the number of entries.
  size_t size() const { return entries; }

private:
  /// The parts of one reduction of one tensor: \c count times \c extent
  /// entries.
  struct Range {
    size_t begin = 0;
    int64_t extent = 0, count = 0;

    void reduce(tdm_reduction_kind kind, int64_t first, int64_t end,
                uint32_t *parts) const;
  };
  const Range &rangeOf(int64_t tensor, size_t reduction) const {
    return ranges[tensor * numReductions + reduction];
  }

  size_t entries = 0;
  /// The entries of each reduction of the first tensor, then of the next one.
  std::vector<Range> ranges;
  size_t numReductions = 0;
};

/// Combines two values of a reduction.
uint32_t join(tdm_reduction_kind kind, uint32_t x, uint32_t y);

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_MATRICES_H
