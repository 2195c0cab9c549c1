//===- ChunkTable.cpp - The chunk tables of a launch ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the tables of the chunks that a kernel's launches run
// over.
//
//===----------------------------------------------------------------------===//

#include "ChunkTable.h"

#include <algorithm>
#include <limits>

using namespace tandem::runtime;

static constexpr int64_t maxColumns = TDM_LAUNCH_TILE_COLUMNS;
/// The maximum number of elements of a chunk that does not need to have whole
/// rows.
static constexpr int64_t largestChunk = 1 << 16;
static constexpr int64_t maxInt64 = std::numeric_limits<int64_t>::max();

/// Returns the number of elements of a chunk. Large chunks cost the least, but
/// a small model must still have enough of them for many threads. The result
/// does not depend on the number of threads, so that plans do not either.
static int64_t chunkElements(const TensorTable &tensors, tdm_granularity per,
                             int64_t enough) {
  constexpr int64_t smallest = 1 << 12;
  int64_t total = 0;
  for (int64_t i = 0; i < tensors.size(); ++i)
    total += std::min(tensors.extent(i, per), maxInt64 - total);
  int64_t size = largestChunk;
  while (size > smallest && total / size < enough)
    size /= 2;
  return size;
}

template <typename Record>
void ChunkTable::append(const Record &record) {
  const auto *begin = reinterpret_cast<const int64_t *>(&record);
  words.insert(words.end(), begin, begin + sizeof(record) / sizeof(int64_t));
  ++count;
}

void ChunkTable::appendRow(int64_t tensor, int64_t row, int64_t extent,
                           int64_t size) {
  for (int64_t begin = 0; begin < extent; begin += size)
    append(Chunk{tensor, row, begin, begin + std::min(size, extent - begin)});
}

void ChunkTable::assign(const TensorTable &tensors, tdm_granularity per,
                        int64_t enough) {
  int64_t size = chunkElements(tensors, per, enough);
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor) {
    firsts.push_back(count);
    int64_t most = per == TDM_PER_ROW
                       ? std::min(size, tensors.tree(tensor).getAlignment())
                       : size;
    sizes.push_back(most);
    appendRow(tensor, /*row=*/0, tensors.extent(tensor, per), most);
  }
  firsts.push_back(count);
}

void ChunkTable::assignElements(const Kernel &kernel,
                                const TensorTable &tensors, int64_t enough) {
  int64_t size = chunkElements(tensors, TDM_PER_ELEMENT, enough);
  bool hasSums = kernel.hasAnySums();
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor) {
    firsts.push_back(count);
    // The sum of a tensor is the tree over the sums of its chunks, which must
    // be the sums of its rows.
    int64_t rows = tensors.rows(tensor), columns = tensors.columns(tensor);
    bool isWhole = hasSums && tensors.isCut(tensor);
    int64_t most = isWhole ? std::max<int64_t>(columns, 1)
                   : hasSums
                       ? std::min(size, tensors.tree(tensor).getAlignment())
                       : size;
    sizes.push_back(isWhole ? 1 : most);
    for (int64_t row = 0; row < rows; ++row)
      appendRow(tensor, row, columns, most);
  }
  firsts.push_back(count);
}

/// Cuts a matrix into tiles of whole blocks and whole groups of any length.
/// Tiles of bands have the width that kernels assume.
static Tiling cutBlocks(int64_t rows, int64_t columns, int64_t elements,
                        int64_t block, bool isBanded) {
  constexpr int64_t minColumns = 256;
  Tiling tiling{rows, columns, block, isBanded ? maxColumns : minColumns};
  while (tiling.tileColumns < std::min(columns, maxColumns) &&
         2 * tiling.tileRows * tiling.tileColumns <= elements)
    tiling.tileColumns *= 2;
  return tiling;
}

/// Cuts a matrix into tiles of whole rows if these are short. A tile is as
/// large as a chunk or, in bands, adjacent tiles together are.
static Tiling cut(int64_t rows, int64_t columns, int64_t elements,
                  CutLimits limits, int64_t alignment, bool isBanded) {
  Tiling tiling{rows, columns, 1, 1};
  while (tiling.tileColumns < std::min(columns, maxColumns))
    tiling.tileColumns *= 2;
  int64_t width = isBanded ? std::max<int64_t>(1, columns) : tiling.tileColumns;
  int64_t most = std::min(limits.maxRows, alignment);
  while (tiling.tileRows < std::min(rows, most) &&
         (tiling.tileRows < limits.minRows ||
          2 * tiling.tileRows * width <= elements))
    tiling.tileRows *= 2;
  return tiling;
}

void ChunkTable::appendTiles(const TensorTable &tensors, int64_t elements,
                             CutLimits limits, int64_t block, bool isBanded) {
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor) {
    firsts.push_back(count);
    int64_t rows = tensors.rows(tensor), columns = tensors.columns(tensor);
    int64_t alignment = tensors.tree(tensor).getAlignment();
    Tiling t = block
                   ? cutBlocks(rows, columns, elements, block, isBanded)
                   : cut(rows, columns, elements, limits, alignment, isBanded);
    tilings.push_back(t);
    for (int64_t down = 0; down < t.downCount(); ++down)
      for (int64_t across = 0; across < t.acrossCount(); ++across) {
        int64_t row = down * t.tileRows, column = across * t.tileColumns;
        append(Tile{tensor, row, std::min(row + t.tileRows, t.rows), column,
                    std::min(column + t.tileColumns, t.columns),
                    across * t.rows, down * t.columns});
      }
  }
  firsts.push_back(count);
}

void ChunkTable::assignTiles(const TensorTable &tensors, CutLimits limits,
                             int64_t block) {
  int64_t elements = chunkElements(tensors, TDM_PER_ELEMENT, limits.enough);
  appendTiles(tensors, elements, limits, block, /*isBanded=*/false);
}

/// Returns the longest row that a band of \p elements may have.
static int64_t longestRow(const Kernel &kernel, int64_t elements) {
  // A thread or a GPU's block can keep a row of this length in its caches. The
  // parts of column reductions that a band writes should also be few compared
  // with its elements.
  constexpr int64_t longRow = largestChunk / 4;
  int64_t longest = std::max(elements, longRow);
  if (kernel.reducesColumns())
    longest = longRow;
  return kernel.block ? std::min(longest, elements / kernel.block) : longest;
}

static int64_t longestRow(const TensorTable &tensors) {
  int64_t longest = 0;
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor)
    longest = std::max(longest, tensors.columns(tensor));
  return longest;
}

/// Returns the number of bits that an element has in planes of its own.
static int64_t bitsOfElement(const Kernel &kernel) {
  int64_t bits = 0;
  for (const Plane &plane : kernel.planes)
    if (plane.rows.size() == 1 && plane.columns.size() == 1)
      bits += plane.bits;
  return bits;
}

bool ChunkTable::assignBandedTiles(const Kernel &kernel,
                                   const TensorTable &tensors,
                                   CutLimits limits) {
  int64_t elements = 2 * chunkElements(tensors, TDM_PER_ELEMENT, limits.enough);
  int64_t longest = longestRow(tensors);
  if (longest > longestRow(kernel, elements))
    return false;
  // Smaller bands than these cost more to start than a read from memory, and
  // bands of fewer elements than a row would be none.
  constexpr int64_t smallest = 1 << 13;
  while (elements > smallest && longest <= longestRow(kernel, elements / 2) &&
         elements / 8 * bitsOfElement(kernel) > limits.bandBytes)
    elements /= 2;
  appendTiles(tensors, elements, limits, kernel.block,
              /*isBanded=*/true);
  return true;
}

void ChunkTable::assignBands(const ChunkTable &tiles) {
  for (size_t tensor = 0; tensor < tiles.tilings.size(); ++tensor) {
    firsts.push_back(count);
    const Tiling &t = tiles.tilings[tensor];
    for (int64_t down = 0; t.columns && down < t.downCount(); ++down) {
      int64_t row = down * t.tileRows;
      append(Tile{static_cast<int64_t>(tensor), row,
                  std::min(row + t.tileRows, t.rows), 0, t.columns, 0,
                  down * t.columns});
    }
  }
  firsts.push_back(count);
}

std::pair<int64_t, int64_t> ChunkTable::tilesOf(const Tile &band) const {
  const Tiling &t = tilings[band.tensor];
  int64_t first =
      firsts[band.tensor] + band.first_row / t.tileRows * t.acrossCount();
  return {first, first + t.acrossCount()};
}
