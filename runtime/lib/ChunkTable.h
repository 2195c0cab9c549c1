//===- ChunkTable.h - The chunk tables of a launch --------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the tables of the chunks that a kernel's launches run
// over.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CHUNKTABLE_H
#define TANDEM_RUNTIME_LIB_CHUNKTABLE_H

#include "TensorTable.h"

#include <utility>

namespace tandem::runtime {

using Chunk = tdm_launch_chunk;
using Tile = tdm_launch_tile;

/// The limits within which a device wants its work to be cut.
struct CutLimits {
  /// Chunks that keep the whole device at work.
  int64_t enough;
  /// The most rows of a tile without blocks, for which its kernels have room,
  /// and how many a tile of a large matrix has at least.
  int64_t maxRows, minRows;
};

/// The way in which a matrix is cut into tiles.
struct Tiling {
  int64_t rows, columns;
  /// The rows and columns of a tile, powers of two.
  int64_t tileRows, tileColumns;

  int64_t downCount() const { return (rows + tileRows - 1) / tileRows; }
  int64_t acrossCount() const {
    return (columns + tileColumns - 1) / tileColumns;
  }
  int64_t blockCount(int64_t block) const {
    return (rows + block - 1) / block * ((columns + block - 1) / block);
  }
};

/// The chunk records of a tensor table, of all tensors' elements, rows, columns
/// or blocks, or tiles.
class ChunkTable {
public:
  /// Cuts the extents of a kernel of matrices, finely enough that large models
  /// have about \p enough chunks.
  void assign(const TensorTable &tensors, tdm_granularity per, int64_t enough);
  /// Cuts the elements of flat tensors in the same way. Each row has chunks of
  /// its own, and is one if the kernel has sums.
  void assignElements(const Kernel &kernel, const TensorTable &tensors,
                      int64_t enough);
  /// With \p block, tiles have as many rows as a block, and whole blocks.
  void assignTiles(const TensorTable &tensors, CutLimits limits, int64_t block);
  /// Assigns tiles in bands of whole rows: one thread works on all tiles of a
  /// band. Returns false if rows are too long for that.
  bool assignBandedTiles(const Kernel &kernel, const TensorTable &tensors,
                         CutLimits limits);
  /// The bands of tiles: as the tile that each would be if it were one.
  void assignBands(const ChunkTable &tiles);

  const void *data() const { return words.data(); }
  size_t bytes() const { return words.size() * sizeof(int64_t); }
  int64_t size() const { return count; }
  /// The number of the first chunk of \p tensor, also for one past the end.
  int64_t firstOf(int64_t tensor) const { return firsts[tensor]; }
  /// The number of a sum's leaves, elements or rows, in each chunk of a tensor
  /// except the last.
  int64_t leavesOf(int64_t tensor) const { return sizes[tensor]; }
  /// The way in which a tensor has been cut into tiles.
  const Tiling &tiling(int64_t tensor) const { return tilings[tensor]; }
  /// The record of a tile or a band.
  const Tile &tile(int64_t index) const {
    return reinterpret_cast<const Tile *>(words.data())[index];
  }
  /// The first of the tiles of a band, and the one after its last.
  std::pair<int64_t, int64_t> tilesOf(const Tile &band) const;

private:
  template <typename Record>
  void append(const Record &record);
  void appendRow(int64_t tensor, int64_t row, int64_t extent, int64_t size);
  void appendTiles(const TensorTable &tensors, int64_t elements,
                   CutLimits limits, int64_t block, bool isBanded);

  std::vector<int64_t> words, firsts, sizes;
  std::vector<Tiling> tilings;
  int64_t count = 0;
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CHUNKTABLE_H
