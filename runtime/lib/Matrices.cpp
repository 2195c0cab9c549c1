//===- Matrices.cpp - Reductions of rows and columns ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the reductions of the parts that the tiles of matrices
// compute.
//
//===----------------------------------------------------------------------===//

#include "Matrices.h"

#include <algorithm>
#include <cstring>

using namespace tandem::runtime;

AxisParts::AxisParts(const Kernel &kernel, const ChunkTable &tiles,
                     int64_t count)
    : numReductions(kernel.reductions.size()) {
  if (!kernel.matrix)
    return;
  for (int64_t tensor = 0; tensor < count; ++tensor)
    for (const Reduction &reduction : kernel.reductions) {
      const Tiling &tiling = tiles.tiling(tensor);
      Range range{entries, 0, 0};
      if (reduction.scope == TDM_SCOPE_ROW)
        range = {entries, tiling.rows, tiling.acrossCount()};
      else if (reduction.scope == TDM_SCOPE_COLUMN)
        range = {entries, tiling.columns, tiling.downCount()};
      else if (reduction.scope == TDM_SCOPE_BLOCK)
        range = {entries, tiling.blockCount(kernel.block), 1};
      if (reduction.isWithinMatrix())
        entries += range.extent * range.count + TDM_LAUNCH_PADDING;
      ranges.push_back(range);
    }
}

void AxisParts::link(int64_t tensor, tdm_launch_total *parts,
                     tdm_launch_total **addresses) const {
  for (size_t i = 0; i < numReductions; ++i)
    if (const Range &range = ranges[tensor * numReductions + i]; range.count)
      addresses[i] = parts + range.begin;
}

static uint32_t add(uint32_t x, uint32_t y) {
  float values[2];
  std::memcpy(&values[0], &x, sizeof(x));
  std::memcpy(&values[1], &y, sizeof(y));
  float sum = values[0] + values[1];
  uint32_t bits;
  std::memcpy(&bits, &sum, sizeof(bits));
  return bits;
}

uint32_t tandem::runtime::join(tdm_reduction_kind kind, uint32_t x,
                               uint32_t y) {
  if (kind == TDM_REDUCTION_SUM)
    return add(x, y);
  return kind == TDM_REDUCTION_MAX ? std::max(x, y) : std::min(x, y);
}

void AxisParts::Range::reduce(tdm_reduction_kind kind, int64_t first,
                              int64_t end, uint32_t *parts) const {
  uint32_t *own = parts + begin;
  // Add neighbours first, then pairs of pairs. Missing parts stand for padding,
  // which changes no result.
  for (int64_t step = 1; step < count; step *= 2)
    for (int64_t k = 0; k + step < count; k += 2 * step) {
      uint32_t *left = own + k * extent;
      const uint32_t *right = left + step * extent;
      for (int64_t entry = first; entry < end; ++entry)
        left[entry] = join(kind, left[entry], right[entry]);
    }
}

void AxisParts::reduce(int64_t tensor, size_t reduction,
                       tdm_reduction_kind kind, uint32_t *parts) const {
  const Range &range = rangeOf(tensor, reduction);
  range.reduce(kind, 0, range.extent, parts);
}

uint32_t *AxisParts::reduceParts(int64_t tensor, size_t reduction,
                                 tdm_reduction_kind kind, int64_t first,
                                 int64_t end, uint32_t *parts) const {
  Range range = rangeOf(tensor, reduction);
  range.begin += first * range.extent;
  range.count = end - first;
  range.reduce(kind, 0, range.extent, parts);
  return parts + range.begin;
}

void AxisParts::reduceRows(size_t reduction, tdm_reduction_kind kind,
                           const Tile &band, uint32_t *parts) const {
  rangeOf(band.tensor, reduction)
      .reduce(kind, band.first_row, band.end_row, parts);
}
