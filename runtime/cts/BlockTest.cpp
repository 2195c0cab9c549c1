//===- BlockTest.cpp - Tests of kernels of blocks -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests kernels that use the rows and blocks of matrices: no two
// tiles share a block, and the epilogue runs over each block.
//
//===----------------------------------------------------------------------===//

#include "TestKernels.h"

#include <algorithm>

using namespace tandem::cts;

/// Planes: values, an entry for each block, and an entry for each row. The
/// reduction is the maximum of each block.
static constexpr int64_t block = 32, numPlanes = 3;

static Record recordOf(const void *tensors, int64_t tensor) {
  return {tensors, tensor, numPlanes, /*numReductions=*/1};
}
static uint32_t *planeOf(const Record &record, int64_t plane) {
  return record.plane<uint32_t>(plane);
}
static uint32_t *totalsOf(const Record &record) {
  return record.parts<uint32_t>(0);
}
static int64_t blockOf(const Record &record, int64_t row, int64_t column) {
  int64_t across = (record.head.columns + block - 1) / block;
  return row / block * across + column / block;
}

/// Computes the blocks' maxima, which each tile starts at 0, so that a block in
/// two tiles would be wrong. Raises a flag for a tile of the wrong size or
/// alignment.
static void reduceTiles(const void *tensors, const void *chunks,
                        const uint32_t *, void *, uint32_t *flags,
                        int64_t begin, int64_t end) {
  forEach<Tile>(chunks, begin, end, [=](const Tile &tile, int64_t) {
    Record record = recordOf(tensors, tile.tensor);
    if (tile.first_row % block || tile.end_row - tile.first_row > block ||
        tile.first_column % 256 || tile.end_column - tile.first_column > 2048)
      *flags |= 2;
    for (int64_t i = tile.first_column; i < tile.end_column; i += block)
      totalsOf(record)[blockOf(record, tile.first_row, i)] = 0;
    for (int64_t row = tile.first_row; row < tile.end_row; ++row)
      for (int64_t i = tile.first_column; i < tile.end_column; ++i) {
        uint32_t &total = totalsOf(record)[blockOf(record, row, i)];
        total =
            std::max(total, planeOf(record, 0)[row * record.head.columns + i]);
      }
  });
}

/// Sets every element to its block's maximum.
static void fillTiles(const void *tensors, const void *chunks, const uint32_t *,
                      void *, uint32_t *, int64_t begin, int64_t end) {
  forEach<Tile>(chunks, begin, end, [=](const Tile &tile, int64_t) {
    Record record = recordOf(tensors, tile.tensor);
    for (int64_t row = tile.first_row; row < tile.end_row; ++row)
      for (int64_t i = tile.first_column; i < tile.end_column; ++i)
        planeOf(record, 0)[row * record.head.columns + i] =
            totalsOf(record)[blockOf(record, row, i)];
  });
}

static void epilogueBlocks(const void *tensors, const void *chunks,
                           const uint32_t *, void *, uint32_t *, int64_t begin,
                           int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    Record record = recordOf(tensors, chunk.tensor);
    for (int64_t i = chunk.begin; i < chunk.end; ++i)
      planeOf(record, 1)[i] = totalsOf(record)[i];
  });
}

static const tdm_cpu_entry reductionEntries[] = {reduceTiles};
static const tdm_reduction_desc reductions[] = {
    {TDM_REDUCTION_MAX, 0, TDM_SCOPE_BLOCK}};

static tdm_kernel_desc blockDesc() {
  constexpr uint32_t access = TDM_ACCESS_READ | TDM_ACCESS_WRITE;
  static const tdm_plane_desc planes[] = {
      {"value", 32, access, 1, 1, TDM_PER_ELEMENT, 1},
      {"value.scale", 32, access, block, 1, TDM_PER_ELEMENT, block},
      {"row.scale", 32, access, TDM_WHOLE_ROW, 1, TDM_PER_ELEMENT, 1}};
  tdm_kernel_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.name = "blocks";
  desc.num_planes = numPlanes;
  desc.planes = planes;
  desc.entry = fillTiles;
  desc.reduction_entries = reductionEntries;
  desc.num_reduction_entries = 1;
  desc.reductions = reductions;
  desc.num_reductions = 1;
  desc.matrix = 1;
  desc.block = block;
  desc.epilogue_blocks = epilogueBlocks;
  return desc;
}

namespace {
/// A matrix and the entries of its blocks and rows.
struct Matrix {
  Matrix(int64_t rows, int64_t columns)
      : rows(rows), columns(columns), values(rows * columns),
        ofBlocks((rows + block - 1) / block * ((columns + block - 1) / block),
                 77),
        ofRows(rows, 7) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<uint32_t>((i * 7919) % 10007);
  }

  tdm_tensor &addTo(TensorList &list) {
    tdm_tensor &tensor =
        list.add(columns, {values.data(), ofBlocks.data(), ofRows.data()});
    tensor.rows = rows;
    return tensor;
  }

  uint32_t largestAround(int64_t row, int64_t column) const {
    uint32_t largest = 0;
    int64_t firstRow = row / block * block, first = column / block * block;
    for (int64_t r = firstRow; r < std::min(firstRow + block, rows); ++r)
      for (int64_t i = first; i < std::min(first + block, columns); ++i)
        largest = std::max(largest, values[r * columns + i]);
    return largest;
  }

  int64_t rows, columns;
  std::vector<uint32_t> values, ofBlocks, ofRows;
};
} // namespace

static void expectLargest(const Matrix &before, const Matrix &after) {
  int64_t across = (before.columns + block - 1) / block;
  for (int64_t row = 0; row < before.rows; row += block)
    for (int64_t i = 0; i < before.columns; i += block) {
      uint32_t largest = before.largestAround(row, i);
      EXPECT_EQ(after.ofBlocks[row / block * across + i / block], largest);
      EXPECT_EQ(after.values[row * before.columns + i], largest);
    }
  EXPECT_EQ(after.ofRows, before.ofRows);
}

TEST(Blocks, TilesHaveThemToThemselves) {
  OwnedKernel kernel(blockDesc());
  for (int threads : {1, 2, 4}) {
    std::vector<Matrix> matrices = {{1, 1},     {3, 5000},  {5000, 3},
                                    {200, 300}, {32, 2048}, {33, 2049}};
    std::vector<Matrix> before = matrices;
    TensorList list;
    for (Matrix &matrix : matrices)
      matrix.addTo(list);
    OwnedPlan plan(kernel, list);
    EXPECT_EQ(launchPlain(plan, threads).flags, 0u);
    for (size_t i = 0; i < matrices.size(); ++i)
      expectLargest(before[i], matrices[i]);
  }
}

TEST(Blocks, WithoutElementsNothingIsDone) {
  OwnedKernel kernel(blockDesc());
  Matrix tall(5, 0), wide(0, 5);
  TensorList list;
  tall.addTo(list);
  wide.addTo(list);
  OwnedPlan plan(kernel, list);
  EXPECT_EQ(launchPlain(plan, 1).chunks, 0);
  EXPECT_EQ(tall.ofRows, std::vector<uint32_t>(5, 7));
}

/// The entries of blocks and of rows may be adjacent in memory, but not
/// overlap.
TEST(Blocks, EntriesMayLieSideBySide) {
  OwnedKernel kernel(blockDesc());
  Matrix matrix(33, 40);
  std::vector<uint32_t> entries(4 + 33);
  TensorList list;
  matrix.addTo(list);
  list.planes(0)[1] = entries.data();
  list.planes(0)[2] = entries.data() + 4;
  OwnedPlan plan(kernel, list);
  list.planes(0)[2] = entries.data() + 3;
  expectFailure(tdm_plan_update(plan, list.data(), list.size()), TDM_OVERLAP,
                "kernel 'blocks': tensor 0: plane 'value.scale', which the "
                "kernel writes, shares 4 bytes with plane 'row.scale' of "
                "tensor 0; give each its own memory");
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

static void expectRefused(void (*change)(tdm_kernel_desc &),
                          const std::string &message) {
  tdm_kernel_desc desc = blockDesc();
  change(desc);
  tdm_kernel *kernel = nullptr;
  expectFailure(tdm_kernel_create(&desc, &kernel), TDM_INVALID_ARGUMENT,
                "kernel 'blocks': " + message);
}

TEST(BlocksError, Descriptions) {
  expectRefused([](tdm_kernel_desc &desc) { desc.block = 48; },
                "block is 48; use a power of two from 16 to 256, in a matrix "
                "kernel, or 0");
  expectRefused([](tdm_kernel_desc &desc) { desc.matrix = 0; },
                "block is 32; use a power of two from 16 to 256, in a matrix "
                "kernel, or 0");
  expectRefused([](tdm_kernel_desc &desc) { desc.block = 64; },
                "plane 'value.scale' has an entry for each 32 rows of 32 "
                "elements, but the kernel's blocks are of 64; set rows and "
                "group to tdm_kernel_desc.block");
  expectRefused(
      [](tdm_kernel_desc &desc) {
        desc.block = 0;
        desc.num_planes = 1;
      },
      "epilogue_blocks belongs to a kernel of blocks; set "
      "tdm_kernel_desc.block");
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const tdm_reduction_desc wrong[] = {
            {TDM_REDUCTION_SUM, 0, TDM_SCOPE_BLOCK}};
        desc.reductions = wrong;
      },
      "reduction 0 has scope 4; a phase over the elements of a matrix reduces "
      "rows, columns and, except for sums, a kernel's blocks, any other one "
      "tensors or the model");
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const tdm_plane_desc wrong[] = {
            {"row", 32, 1, TDM_WHOLE_ROW, 1, TDM_PER_ROW, 1}};
        desc.planes = wrong;
        desc.num_planes = 1;
      },
      "plane 'row' has an entry for each row, which only the elements of a "
      "matrix kernel have; set tdm_kernel_desc.matrix and TDM_PER_ELEMENT");
}
