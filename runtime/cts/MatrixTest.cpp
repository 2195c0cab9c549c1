//===- MatrixTest.cpp - Tests of kernels of matrices ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests kernels that use rows and columns: the tiling of matrices,
// the tiles' parts of row and column reductions, and epilogues over rows and
// columns.
//
//===----------------------------------------------------------------------===//

#include "FakeCUDA.h"
#include "TestDevice.h"

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace tandem::cts;
using namespace tandem::cts::matrices;

//===----------------------------------------------------------------------===//
// A kernel of three phases
//===----------------------------------------------------------------------===//

static const tdm_cpu_entry reductionEntries[] = {sumTiles, sumRows};
static const uint32_t granularities[] = {TDM_PER_ELEMENT, TDM_PER_ROW};
static const tdm_reduction_desc reductions[] = {
    {TDM_REDUCTION_SUM, 0, TDM_SCOPE_ROW},
    {TDM_REDUCTION_MAX, 0, TDM_SCOPE_COLUMN},
    {TDM_REDUCTION_SUM, 1, TDM_SCOPE_TENSOR}};

static tdm_kernel_desc matrixDesc() {
  constexpr uint32_t access = TDM_ACCESS_READ | TDM_ACCESS_WRITE;
  static const tdm_plane_desc planes[] = {
      {"value", 32, access, 1, 1, TDM_PER_ELEMENT},
      {"row", 32, access, 1, 1, TDM_PER_ROW},
      {"column", 32, access, 2, 1, TDM_PER_COLUMN}};
  tdm_kernel_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.name = "matrix";
  desc.num_planes = numPlanes;
  desc.planes = planes;
  desc.entry = fillTiles;
  desc.reduction_entries = reductionEntries;
  desc.num_reduction_entries = 2;
  desc.reduction_granularities = granularities;
  desc.reductions = reductions;
  desc.num_reductions = numReductions;
  desc.matrix = 1;
  desc.epilogue_rows = epilogueRows;
  desc.epilogue_columns = epilogueColumns;
  return desc;
}

static const Totals totals = {{"_phase0_row_totals", rowTotals},
                              {"_phase0_column_totals", columnTotals},
                              {"_phase1_totals", tensorTotals}};

namespace {
/// A matrix of integers and the kernel's results for it.
struct Matrix {
  Matrix(const tdm_device *device, int64_t rows, int64_t columns)
      : rows(rows), columns(columns), before(makeValues(rows * columns)),
        values(device, before), ofRows(device, std::vector<float>(rows, -1)),
        ofColumns(device, std::vector<uint32_t>((columns + 1) / 2, 77)) {}

  static std::vector<float> makeValues(int64_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 7919) % 13);
    return values;
  }

  tdm_tensor &addTo(TensorList &list) {
    tdm_tensor &tensor =
        list.add(columns, {values.data(), ofRows.data(), ofColumns.data()});
    tensor.rows = rows;
    return tensor;
  }

  void expectSums() const;
  void expectSumsOfRows() const;

  int64_t rows, columns;
  std::vector<float> before;
  DeviceArray<float> values, ofRows;
  DeviceArray<uint32_t> ofColumns;
};
} // namespace

void Matrix::expectSums() const {
  float total = 0;
  std::vector<uint32_t> largest((columns + 1) / 2, 0);
  std::vector<float> sums = ofRows.read(), after = values.read();
  for (int64_t row = 0; row < rows; ++row) {
    float sum = 0;
    for (int64_t i = 0; i < columns; ++i) {
      float value = before[row * columns + i];
      sum += value;
      largest[i / 2] = std::max(largest[i / 2], static_cast<uint32_t>(value));
    }
    EXPECT_EQ(sums[row], sum) << "row " << row;
    total += sum;
  }
  EXPECT_EQ(ofColumns.read(), largest);
  EXPECT_TRUE(std::all_of(after.begin(), after.end(),
                          [&](float value) { return value == total; }));
}

void Matrix::expectSumsOfRows() const {
  std::vector<float> sums = ofRows.read(), after = values.read();
  for (int64_t row = 0; columns && row < rows; ++row) {
    const float *own = before.data() + row * columns;
    EXPECT_EQ(sums[row], std::accumulate(own, own + columns, 0.0f));
    EXPECT_TRUE(std::all_of(after.begin() + row * columns,
                            after.begin() + (row + 1) * columns,
                            [&](float value) { return value == sums[row]; }))
        << "row " << row;
  }
}

using Matrices = DeviceTest;
ON_EACH_DEVICE(Matrices);

TEST_P(Matrices, RowsColumnsAndTensors) {
  DeviceKernel kernel(device, GetParam(), matrixDesc(), totals);
  const std::pair<int64_t, int64_t> shapes[] = {
      {1, 1}, {3, 5000}, {5000, 3}, {200, 300}};
  for (int threads : {1, 2, 4}) {
    std::vector<Matrix> matrices;
    for (auto [rows, columns] : shapes)
      matrices.emplace_back(device, rows, columns);
    TensorList list;
    for (Matrix &matrix : matrices)
      matrix.addTo(list);
    OwnedPlan plan(kernel, list);
    EXPECT_EQ(launchPlain(plan, threads).flags, 0u);
    for (const Matrix &matrix : matrices)
      matrix.expectSums();
  }
}

TEST_P(Matrices, WithoutElementsNothingIsDone) {
  DeviceKernel kernel(device, GetParam(), matrixDesc(), totals);
  Matrix tall(device, 5, 0), wide(device, 0, 5);
  TensorList list;
  tall.addTo(list);
  wide.addTo(list);
  OwnedPlan plan(kernel, list);
  EXPECT_EQ(launchPlain(plan, 1).chunks, 0);
  EXPECT_EQ(tall.ofRows.read(), std::vector<float>(5, -1));
  EXPECT_EQ(wide.ofColumns.read(), std::vector<uint32_t>(3, 77));
}

TEST_P(Matrices, AnotherShapeOfAsManyElements) {
  DeviceKernel kernel(device, GetParam(), matrixDesc(), totals);
  Matrix first(device, 6, 4), second(device, 4, 6);
  TensorList list, other;
  first.addTo(list);
  second.addTo(other);
  OwnedPlan plan(kernel, list);
  ASSERT_EQ(tdm_plan_update(plan, other.data(), other.size()), TDM_OK);
  launchPlain(plan, 1);
  second.expectSums();
}

//===----------------------------------------------------------------------===//
// Phases of one launch
//===----------------------------------------------------------------------===//

/// The calls of one thread's phases, each with the phase and the first row.
static std::vector<std::pair<int, int64_t>> visits;

template <int phase, tdm_cpu_entry entry>
static void visit(const void *tensors, const void *chunks,
                  const uint32_t *scalars, void *workspace, uint32_t *flags,
                  int64_t begin, int64_t end) {
  visits.emplace_back(phase,
                      static_cast<const Tile *>(chunks)[begin].first_row);
  entry(tensors, chunks, scalars, workspace, flags, begin, end);
}

static const Totals rowwiseTotals = {{"_phase0_row_totals", rowTotals},
                                     {"_phase0_column_totals", columnTotals},
                                     {"_phase0_bands", goThroughBands}};

/// Describes a kernel in which the sums of rows and the phase that reads them
/// share a launch.
static tdm_kernel_desc rowwiseDesc() {
  static const uint32_t fusedWithPrevious[] = {0, 1};
  static const tdm_reduction_desc ofRows[] = {
      reductions[0], reductions[1], {TDM_REDUCTION_MAX, 0, TDM_SCOPE_ROW}};
  tdm_kernel_desc desc = matrixDesc();
  desc.name = "rowwise";
  desc.entry = fillRows;
  desc.num_reduction_entries = 1;
  desc.reductions = ofRows;
  desc.fused_with_previous = fusedWithPrevious;
  return desc;
}

static tdm_kernel_desc visitedDesc() {
  static const tdm_cpu_entry visited[] = {visit<0, sumTiles>};
  tdm_kernel_desc desc = rowwiseDesc();
  desc.reduction_entries = visited;
  desc.entry = visit<1, fillRows>;
  return desc;
}

TEST_P(Matrices, PhasesOfOneLaunch) {
  DeviceKernel kernel(device, GetParam(), rowwiseDesc(), rowwiseTotals);
  const std::pair<int64_t, int64_t> shapes[] = {
      {1, 1}, {70, 5000}, {5000, 3}, {0, 4}, {200, 300}, {4, 0}, {2, 9000}};
  for (int threads : {1, 2, 4}) {
    std::vector<Matrix> matrices;
    for (auto [rows, columns] : shapes)
      matrices.emplace_back(device, rows, columns);
    TensorList list;
    for (Matrix &matrix : matrices)
      matrix.addTo(list);
    OwnedPlan plan(kernel, list);
    EXPECT_EQ(launchPlain(plan, threads).flags, 0u);
    for (const Matrix &matrix : matrices)
      matrix.expectSumsOfRows();
  }
}

/// Opens a CUDA device with an L2 cache of \p bytes, launches a kernel over
/// bands, and returns the number of tiles.
static int64_t countTiles(int bytes) {
  fakecuda::setCache(bytes);
  OpenDevice cuda("cuda");
  DeviceKernel kernel(cuda, "cuda", rowwiseDesc(), rowwiseTotals);
  Matrix matrix(cuda, 512, 8192);
  TensorList list;
  matrix.addTo(list);
  OwnedPlan plan(kernel, list);
  int64_t tiles = launchPlain(plan, 1).chunks;
  matrix.expectSumsOfRows();
  return tiles;
}

/// A band has at most 16 rows, of four tiles each. The bands of all 32 blocks
/// that the device runs at a time fit into three quarters of the cache, but no
/// band is smaller than a row.
TEST(MatricesOfCUDA, BandsFitIntoTheCache) {
  if (!isFakeDriver())
    GTEST_SKIP() << "the size of the cache is the device's own";
  EXPECT_EQ(countTiles(50 << 20), 128);
  EXPECT_EQ(countTiles(4 << 20), 1024);
  EXPECT_EQ(countTiles(1 << 10), 2048);
  fakecuda::setCache(50 << 20);
}

TEST(MatricesOfCPU, BandsGoThroughAllPhases) {
  OwnedKernel kernel(visitedDesc());
  OpenDevice cpu;
  Matrix matrix(cpu, 200, 3000);
  TensorList list;
  matrix.addTo(list);
  OwnedPlan plan(kernel, list);
  visits.clear();
  launchPlain(plan, 1);
  std::vector<std::pair<int, int64_t>> expected;
  for (int64_t row = 0; row < 200; row += 4)
    for (int phase = 0; phase < 2; ++phase)
      expected.emplace_back(phase, row);
  EXPECT_EQ(visits, expected);
}

/// In bands of such long rows, one thread would process most of the matrix.
TEST(MatricesOfCPU, LongRowsGoThroughOnePhaseAfterAnother) {
  OwnedKernel kernel(visitedDesc());
  OpenDevice cpu;
  Matrix matrix(cpu, 2, 60000);
  TensorList list;
  matrix.addTo(list);
  OwnedPlan plan(kernel, list);
  visits.clear();
  launchPlain(plan, 1);
  EXPECT_GT(visits.size(), 3u);
  EXPECT_TRUE(std::is_sorted(visits.begin(), visits.end()));
  matrix.expectSumsOfRows();
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

static void expectRefused(void (*change)(tdm_kernel_desc &),
                          const std::string &message) {
  tdm_kernel_desc desc = matrixDesc();
  change(desc);
  tdm_kernel *kernel = nullptr;
  expectFailure(tdm_kernel_create(&desc, &kernel), TDM_INVALID_ARGUMENT,
                "kernel 'matrix': " + message);
}

TEST(MatricesError, Descriptions) {
  expectRefused([](tdm_kernel_desc &desc) { desc.matrix = 0; },
                "plane 'row' has entries for rows or columns, which only a "
                "matrix kernel knows; set tdm_kernel_desc.matrix");
  expectRefused(
      [](tdm_kernel_desc &desc) { desc.workspace_doubles_per_chunk = 1; },
      "a matrix kernel records no metrics; set workspace_doubles_per_chunk to "
      "0");
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const tdm_plane_desc wrong[] = {
            {"value", 32, 1, 1, 1, TDM_PER_BLOCK}};
        desc.planes = wrong;
        desc.num_planes = 1;
      },
      "plane 'value' has granularity 3; use a tdm_granularity");
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const uint32_t wrong[] = {TDM_PER_ELEMENT, 3};
        desc.reduction_granularities = wrong;
      },
      "reduction entry 1 has granularity 3; use a tdm_granularity, and "
      "TDM_PER_ELEMENT except in a matrix kernel");
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const tdm_reduction_desc wrong[] = {
            {TDM_REDUCTION_SUM, 0, TDM_SCOPE_TENSOR}};
        desc.reductions = wrong;
        desc.num_reductions = 1;
      },
      "reduction 0 has scope 0; a phase over the elements of a matrix reduces "
      "rows, columns and, except for sums, a kernel's blocks, any other one "
      "tensors or the model");
}

TEST(MatricesError, TransposedPlanesHaveElements) {
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const tdm_plane_desc wrong[] = {
            {"value", 32, 2, 1, 1, TDM_PER_ROW, 1, 1}};
        desc.planes = wrong;
        desc.num_planes = 1;
      },
      "plane 'value' is transposed, but has no entry for each element of a "
      "matrix; set tdm_kernel_desc.matrix and group 1");
}

TEST(MatricesError, FusedPhases) {
  auto message = [](int phase) {
    return "phase " + std::to_string(phase) +
           " is fused with the previous one; only a phase over the elements of "
           "a "
           "matrix can be, after another one";
  };
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const uint32_t first[] = {1, 0, 0};
        desc.fused_with_previous = first;
      },
      message(0));
  static const uint32_t perColumn[] = {TDM_PER_ELEMENT, TDM_PER_COLUMN};
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const uint32_t second[] = {0, 1, 0};
        desc.reduction_granularities = perColumn;
        desc.fused_with_previous = second;
      },
      message(1));
  expectRefused(
      [](tdm_kernel_desc &desc) {
        static const uint32_t last[] = {0, 0, 1};
        desc.reduction_granularities = perColumn;
        desc.fused_with_previous = last;
      },
      message(2));
}

TEST(MatricesError, RowsBelongToMatrices) {
  tdm_kernel_desc desc = countDesc();
  desc.epilogue_rows = epilogueRows;
  tdm_kernel *kernel = nullptr;
  expectFailure(
      tdm_kernel_create(&desc, &kernel), TDM_INVALID_ARGUMENT,
      "kernel 'count': epilogue_rows and epilogue_columns belong to a "
      "matrix kernel; set tdm_kernel_desc.matrix");
}

TEST(MatricesError, Shards) {
  OwnedKernel kernel(matrixDesc());
  OpenDevice cpu;
  Matrix matrix(cpu, 2, 2);
  TensorList list;
  matrix.addTo(list).first = 4;
  tdm_plan *plan = nullptr;
  expectFailure(
      tdm_plan_create(kernel, list.data(), list.size(), &plan),
      TDM_INVALID_ARGUMENT,
      "kernel 'matrix': tensor 0: first is 4, but the kernel works on "
      "whole tensors; pass the unsharded tensor, or the sharding of this "
      "one");
}

TEST(MatricesError, RowsOverlap) {
  OwnedKernel kernel(matrixDesc());
  OpenDevice cpu;
  Matrix matrix(cpu, 2, 2);
  TensorList list;
  matrix.addTo(list);
  list.planes(0)[1] = matrix.values.data() + 3;
  tdm_plan *plan = nullptr;
  expectFailure(
      tdm_plan_create(kernel, list.data(), list.size(), &plan), TDM_OVERLAP,
      "kernel 'matrix': tensor 0: plane 'value', which the kernel "
      "writes, shares 4 bytes with plane 'row' of tensor 0; give each "
      "its own memory");
}
