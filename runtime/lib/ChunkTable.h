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

/// A device's limits on how its work is cut.
struct CutLimits {
  /// The number of chunks that keep the whole device busy.
  int64_t enough;
  /// The maximum number of rows of a tile without blocks, which its kernels
  /// have room for, and the minimum number in a large matrix.
  int64_t maxRows, minRows;
  /// The number of bytes of a band's elements that stay in the cache until the
  /// band's last phase reads them.
  int64_t bandBytes;
};

/// The tiling of a matrix.
struct Tiling {
  int64_t rows, columns;
  /// The number of rows and columns of a tile, powers of two.
  int64_t tileRows, tileColumns;

  int64_t downCount() const { return (rows + tileRows - 1) / tileRows; }
  int64_t acrossCount() const {
    return (columns + tileColumns - 1) / tileColumns;
  }
  int64_t blockCount(int64_t block) const {
    return (rows + block - 1) / block * ((columns + block - 1) / block);
  }
};

/// The chunk records of all tensors of a table: chunks of their elements, rows,
/// columns or blocks, or tiles.
class ChunkTable {
public:
  /// Cuts the tensors of a matrix kernel along \p per, so that large models
  /// have about \p enough chunks.
  void assign(const TensorTable &tensors, tdm_granularity per, int64_t enough);
  /// Cuts the elements of flat tensors in the same way. Each row has its own
  /// chunks, and is a single chunk if the kernel has sums.
  void assignElements(const Kernel &kernel, const TensorTable &tensors,
                      int64_t enough);
  /// Cuts matrices into tiles. If \p block is not 0, tiles have whole blocks
  /// and as many rows as one block.
  void assignTiles(const TensorTable &tensors, CutLimits limits, int64_t block);
  /// Cuts matrices into tiles that form bands of whole rows; one thread works
  /// on all tiles of a band. Returns false if rows are too long for that.
  bool assignBandedTiles(const Kernel &kernel, const TensorTable &tensors,
                         CutLimits limits);
  /// Adds the bands of \p tiles, each as the record of one wide tile.
  void assignBands(const ChunkTable &tiles);

  const void *data() const { return words.data(); }
  size_t bytes() const { return words.size() * sizeof(int64_t); }
  int64_t size() const { return count; }
  /// Returns the index of the first chunk of \p tensor, which may be one past
  /// the last tensor.
  int64_t firstOf(int64_t tensor) const { return firsts[tensor]; }
  /// Returns the number of a sum's leaves, elements or rows, in each chunk of a
  /// tensor except for the last.
  int64_t leavesOf(int64_t tensor) const { return sizes[tensor]; }
  /// Returns the tiling of a tensor.
  const Tiling &tiling(int64_t tensor) const { return tilings[tensor]; }
  /// Returns the record of a tile or a band.
  const Tile &tile(int64_t index) const {
    return reinterpret_cast<const Tile *>(words.data())[index];
  }
  /// Returns the range of a band's tiles: the first, and the one after the
  /// last.
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
