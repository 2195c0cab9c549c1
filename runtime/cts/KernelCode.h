//===- KernelCode.h - The code of the tests' kernels ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the kernels that tests of plans run on every device. The
// CPU and the driver that stands in for CUDA's call them as functions of the
// process; KernelCode.cu compiles the same functions for GPUs, so they do not
// use the standard library.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_KERNELCODE_H
#define TANDEM_RUNTIME_CTS_KERNELCODE_H

#include "tandem-runtime/tandem_runtime.h"

#include "tandem-runtime/tandem_launch.h"

#include <cstring>

#ifdef __CUDACC__
#define TEST_CODE __host__ __device__ inline
#else
#define TEST_CODE inline
#endif

namespace tandem::cts {

using Chunk = tdm_launch_chunk;
using Tile = tdm_launch_tile;

/// The launch ABI's record of a tensor, with its addresses.
struct Record {
  TEST_CODE Record(const void *tensors, int64_t index, int64_t numPlanes,
                   int64_t numReductions = 0)
      : head(*reinterpret_cast<const tdm_launch_tensor *>(
            static_cast<const char *>(tensors) +
            index * tdm_launch_tensor_size(numPlanes, numReductions))),
        numPlanes(numPlanes) {}
  template <typename T>
  TEST_CODE T *plane(int64_t index) const {
    return static_cast<T *>(addresses()[index]);
  }
  /// Returns the parts of a reduction.
  template <typename T>
  TEST_CODE T *parts(int64_t reduction) const {
    return plane<T>(numPlanes + reduction);
  }
  const tdm_launch_tensor &head;
  int64_t numPlanes;

private:
  TEST_CODE void *const *addresses() const {
    return reinterpret_cast<void *const *>(&head + 1);
  }
};

template <typename T>
TEST_CODE T largerOf(T a, T b) {
  return a < b ? b : a;
}
template <typename T>
TEST_CODE T smallerOf(T a, T b) {
  return b < a ? b : a;
}

/// Calls \p body with each of a launch's chunks or tiles and its index.
template <typename T, typename Body>
TEST_CODE void forEach(const void *chunks, int64_t begin, int64_t end,
                       Body body) {
  for (int64_t c = begin; c < end; ++c)
    body(static_cast<const T *>(chunks)[c], c);
}

/// Raises flags atomically on a GPU, whose blocks run concurrently.
TEST_CODE void raiseFlags(uint32_t *flags, uint32_t raised) {
#ifdef __CUDA_ARCH__
  atomicOr(flags, raised);
#else
  *flags |= raised;
#endif
}

//===----------------------------------------------------------------------===//
// Kernels over flat tensors
//===----------------------------------------------------------------------===//

namespace code {
TEST_CODE uint32_t bitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

TEST_CODE float floatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

TEST_CODE void sgdPrologue(const double *hypers, const int64_t *,
                           uint32_t *scalars, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row)
    scalars[row] = bitsOf(static_cast<float>(-hypers[row * 2]));
}

TEST_CODE void sgdChunk(const Record &tensor, const Chunk &chunk, float scalar,
                        uint32_t *flags) {
  constexpr uint32_t exponent = 0x7F800000;
  float *param = tensor.plane<float>(0);
  const float *grad = tensor.plane<const float>(1);
  for (int64_t i = chunk.begin; i < chunk.end; ++i) {
    if ((bitsOf(grad[i]) & exponent) == exponent)
      raiseFlags(flags, TDM_FLAG_NON_FINITE);
    param[i] += scalar * grad[i];
  }
}

/// Computes param += scalar * grad, and raises a flag if a gradient is not
/// finite.
TEST_CODE void sgdEntry(const void *tensors, const void *chunks,
                        const uint32_t *scalars, void *, uint32_t *flags,
                        int64_t begin, int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    Record tensor(tensors, chunk.tensor, 2);
    sgdChunk(tensor, chunk, floatOf(scalars[tensor.head.scalar_row]), flags);
  });
}

/// Adds one to each byte.
TEST_CODE void countEntry(const void *tensors, const void *chunks,
                          const uint32_t *, void *, uint32_t *, int64_t begin,
                          int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    uint8_t *count = Record(tensors, chunk.tensor, 1).plane<uint8_t>(0);
    for (int64_t i = chunk.begin; i < chunk.end; ++i)
      ++count[i];
  });
}

/// Adds its only scalar, which the prologue computes without arguments, to each
/// byte.
TEST_CODE void constantEntry(const void *tensors, const void *chunks,
                             const uint32_t *scalars, void *, uint32_t *,
                             int64_t begin, int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    uint8_t *bytes = Record(tensors, chunk.tensor, 1).plane<uint8_t>(0);
    for (int64_t i = chunk.begin; i < chunk.end; ++i)
      bytes[i] = static_cast<uint8_t>(bytes[i] + scalars[0]);
  });
}

TEST_CODE void constantPrologue(const double *, const int64_t *,
                                uint32_t *scalars, int64_t) {
  scalars[0] = 7;
}

/// Accesses elements by index.
struct ElementAt {
  const float *values;
  TEST_CODE float operator()(int64_t i) const { return values[i]; }
};

/// Returns the pairwise sum of \p count numbers that \p valueAt returns by
/// index, neighbours first. It does not recurse, since a GPU's stack is too
/// small.
template <typename T, typename ValueAt>
TEST_CODE T pairwiseSum(ValueAt valueAt, int64_t first, int64_t count) {
  T partial[64], sum = static_cast<T>(-0.0);
  int depth = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum = valueAt(first + i);
    for (int64_t full = i; full & 1; full /= 2)
      sum = partial[--depth] + sum;
    partial[depth++] = sum;
  }
  for (depth -= depth > 0; depth > 0;)
    sum = partial[--depth] + sum;
  return sum;
}

/// Writes the sum and the number of a chunk's elements to the workspace.
TEST_CODE void sumEntry(const void *tensors, const void *chunks,
                        const uint32_t *, void *workspace, uint32_t *,
                        int64_t begin, int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t c) {
    const float *value = Record(tensors, chunk.tensor, 1).plane<float>(0);
    int64_t elements = chunk.end - chunk.begin;
    double *metrics = static_cast<double *>(workspace) + c * 2;
    metrics[0] = pairwiseSum<double>(ElementAt{value}, chunk.begin, elements);
    metrics[1] = static_cast<double>(elements);
  });
}

/// Adds the entry of each group of 32 codes to the codes, and sets it to their
/// number.
TEST_CODE void groupEntry(const void *tensors, const void *chunks,
                          const uint32_t *, void *, uint32_t *, int64_t begin,
                          int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    Record tensor(tensors, chunk.tensor, 2);
    int64_t columns = tensor.head.columns, groups = (columns + 31) / 32;
    uint8_t *code = tensor.plane<uint8_t>(0) + chunk.row * columns;
    uint16_t *scale = tensor.plane<uint16_t>(1) + chunk.row * groups;
    for (int64_t i = chunk.begin; i < chunk.end; i += 32) {
      int64_t last = smallerOf(i + 32, chunk.end);
      for (int64_t j = i; j < last; ++j)
        code[j] = static_cast<uint8_t>(code[j] + scale[i / 32]);
      scale[i / 32] = static_cast<uint16_t>(last - i);
    }
  });
}
} // namespace code

//===----------------------------------------------------------------------===//
// A kernel of two phases
//===----------------------------------------------------------------------===//

/// Planes: values, and an entry for the whole tensor. Reductions: the sum of a
/// tensor, the maximum magnitude of all tensors, and the minimum of a tensor.
namespace phases {
constexpr int64_t numPlanes = 2, numReductions = 3;

TEST_CODE Record recordOf(const void *tensors, int64_t tensor) {
  return {tensors, tensor, numPlanes, numReductions};
}

/// Accesses the sums of chunks by index.
struct PartAt {
  const uint64_t *parts;
  TEST_CODE float operator()(int64_t i) const {
    return code::floatOf(static_cast<uint32_t>(parts[i * numReductions]));
  }
};

TEST_CODE void reduceEntry(const void *tensors, const void *chunks,
                           const uint32_t *, void *workspace, uint32_t *flags,
                           int64_t begin, int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t c) {
    Record record = recordOf(tensors, chunk.tensor);
    if (c < record.head.first_chunk || c >= record.head.end_chunk)
      raiseFlags(flags, 2);
    const float *values = record.plane<float>(0) + chunk.begin;
    int64_t count = chunk.end - chunk.begin;
    uint32_t largest = 0, smallest = 0xFFFFFFFF;
    for (int64_t i = 0; i < count; ++i) {
      uint32_t magnitude = code::bitsOf(values[i]) & 0x7FFFFFFF;
      largest = largerOf(largest, magnitude);
      smallest = smallerOf(smallest, magnitude);
    }
    float sum = code::pairwiseSum<float>(code::ElementAt{values}, 0, count);
    uint32_t parts[] = {code::bitsOf(sum), largest, smallest};
    for (int64_t i = 0; i < numReductions; ++i)
      memcpy(static_cast<char *>(workspace) + 8 * (c * numReductions + i),
             &parts[i], sizeof(parts[i]));
  });
}

/// Sets every element to the sum of the tensor's total and entry.
TEST_CODE void writeEntry(const void *tensors, const void *chunks,
                          const uint32_t *, void *, uint32_t *flags,
                          int64_t begin, int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    Record record = recordOf(tensors, chunk.tensor);
    float total = code::floatOf(record.head.totals[0]);
    float value = total + *record.plane<float>(1);
    for (int64_t i = chunk.begin; i < chunk.end; ++i)
      record.plane<float>(0)[i] = value;
    raiseFlags(flags, 1);
  });
}

/// Sets the entry to the maximum magnitude of all tensors.
TEST_CODE void epilogueEntry(const void *tensors, const void *,
                             const uint32_t *, void *, uint32_t *,
                             int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    Record record = recordOf(tensors, t);
    if (record.head.rows && record.head.columns)
      memcpy(record.plane<void>(1), record.head.totals + 1, 4);
  }
}

TEST_CODE void totalsEntry(const void *tensors, const void *, const uint32_t *,
                           void *workspace, uint32_t *, int64_t begin,
                           int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    Record record = recordOf(tensors, t);
    uint32_t *totals = record.head.totals;
    int64_t first = record.head.first_chunk, last = record.head.end_chunk;
    totals[1] = 0;
    totals[2] = 0xFFFFFFFF;
    const auto *parts = static_cast<const uint64_t *>(workspace);
    for (int64_t c = first; c < last; ++c) {
      const uint64_t *own = parts + c * numReductions;
      totals[1] = largerOf(totals[1], static_cast<uint32_t>(own[1]));
      totals[2] = smallerOf(totals[2], static_cast<uint32_t>(own[2]));
    }
    totals[0] = code::bitsOf(
        code::pairwiseSum<float>(PartAt{parts}, first, last - first));
  }
}

TEST_CODE void modelEntry(const void *tensors, const void *, const uint32_t *,
                          void *, uint32_t *, int64_t begin, int64_t end) {
  uint32_t largest = 0;
  for (int64_t t = begin; t < end; ++t)
    largest = largerOf(largest, recordOf(tensors, t).head.totals[1]);
  for (int64_t t = begin; t < end; ++t)
    recordOf(tensors, t).head.totals[1] = largest;
}
} // namespace phases

//===----------------------------------------------------------------------===//
// A kernel of three phases over matrices
//===----------------------------------------------------------------------===//

/// Planes: values, an entry for each row, and an entry for each two columns.
/// Reductions: the sum of each row, the maximum of each column, and the sum of
/// the rows' sums.
namespace matrices {
constexpr int64_t numPlanes = 3, numReductions = 3;

TEST_CODE Record recordOf(const void *tensors, int64_t tensor) {
  return {tensors, tensor, numPlanes, numReductions};
}
/// Returns the address of the sum of the rows' sums.
TEST_CODE float *sumOf(const Record &record) {
  return reinterpret_cast<float *>(record.head.totals + 2);
}

/// Writes the parts of one tile. Values are integers, so that sums are exact in
/// any order.
TEST_CODE void sumTile(const void *tensors, const Tile &tile, uint32_t *flags) {
  Record record = recordOf(tensors, tile.tensor);
  if (tile.end_row - tile.first_row > 64 ||
      tile.end_column - tile.first_column > 2048)
    raiseFlags(flags, 2);
  const float *values = record.plane<float>(0);
  auto *columns = record.parts<uint32_t>(1) + tile.column_parts;
  for (int64_t row = tile.first_row; row < tile.end_row; ++row) {
    float sum = 0;
    for (int64_t i = tile.first_column; i < tile.end_column; ++i) {
      auto value = static_cast<uint32_t>(values[row * record.head.columns + i]);
      sum += static_cast<float>(value);
      bool isFirst = row == tile.first_row;
      columns[i] = isFirst ? value : largerOf(columns[i], value);
    }
    record.parts<float>(0)[tile.row_parts + row] = sum;
  }
}

TEST_CODE void sumTiles(const void *tensors, const void *chunks,
                        const uint32_t *, void *, uint32_t *flags,
                        int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c)
    sumTile(tensors, static_cast<const Tile *>(chunks)[c], flags);
}

/// Writes the part of each chunk of rows of the sum over all rows.
TEST_CODE void sumRows(const void *tensors, const void *chunks,
                       const uint32_t *, void *workspace, uint32_t *,
                       int64_t begin, int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t c) {
    Record record = recordOf(tensors, chunk.tensor);
    float sum = 0;
    for (int64_t row = chunk.begin; row < chunk.end; ++row)
      sum += record.parts<float>(0)[row];
    memcpy(static_cast<char *>(workspace) + 8 * (c * numReductions + 2), &sum,
           sizeof(sum));
  });
}

TEST_CODE void fillRow(float *values, const Tile &tile, float value) {
  for (int64_t i = tile.first_column; i < tile.end_column; ++i)
    values[i] = value;
}

/// Sets every element to the sum over all elements.
TEST_CODE void fillTiles(const void *tensors, const void *chunks,
                         const uint32_t *, void *, uint32_t *, int64_t begin,
                         int64_t end) {
  forEach<Tile>(chunks, begin, end, [=](const Tile &tile, int64_t) {
    Record record = recordOf(tensors, tile.tensor);
    float total = *sumOf(record);
    for (int64_t row = tile.first_row; row < tile.end_row; ++row)
      fillRow(record.plane<float>(0) + row * record.head.columns, tile, total);
  });
}

/// Sets every element to the sum of its row.
TEST_CODE void fillRows(const void *tensors, const void *chunks,
                        const uint32_t *, void *, uint32_t *, int64_t begin,
                        int64_t end) {
  forEach<Tile>(chunks, begin, end, [=](const Tile &tile, int64_t) {
    Record record = recordOf(tensors, tile.tensor);
    for (int64_t row = tile.first_row; row < tile.end_row; ++row)
      fillRow(record.plane<float>(0) + row * record.head.columns, tile,
              record.parts<float>(0)[row]);
  });
}

TEST_CODE void epilogueRows(const void *tensors, const void *chunks,
                            const uint32_t *, void *, uint32_t *, int64_t begin,
                            int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    Record record = recordOf(tensors, chunk.tensor);
    for (int64_t row = chunk.begin; row < chunk.end; ++row)
      record.plane<float>(1)[row] = record.parts<float>(0)[row];
  });
}

/// Sets the entry of each pair of columns to the larger maximum.
TEST_CODE void epilogueColumns(const void *tensors, const void *chunks,
                               const uint32_t *, void *, uint32_t *,
                               int64_t begin, int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    Record record = recordOf(tensors, chunk.tensor);
    for (int64_t i = chunk.begin; i < chunk.end; i += 2) {
      const uint32_t *own = record.parts<uint32_t>(1) + i;
      record.plane<uint32_t>(2)[i / 2] =
          i + 1 < record.head.columns ? largerOf(own[0], own[1]) : own[0];
    }
  });
}

/// Combines the tiles' parts of rows after the first phase, over chunks of
/// rows.
TEST_CODE void rowTotals(const void *tensors, const void *chunks,
                         const uint32_t *, void *, uint32_t *, int64_t begin,
                         int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    Record record = recordOf(tensors, chunk.tensor);
    for (int64_t row = chunk.begin; row < chunk.end; ++row)
      for (int64_t part = 1; part < record.head.tiles_across; ++part)
        record.parts<float>(0)[row] +=
            record.parts<float>(0)[part * record.head.rows + row];
  });
}

/// Combines the tiles' parts of columns, over chunks of columns.
TEST_CODE void columnTotals(const void *tensors, const void *chunks,
                            const uint32_t *, void *, uint32_t *, int64_t begin,
                            int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    Record record = recordOf(tensors, chunk.tensor);
    auto *largest = record.parts<uint32_t>(1);
    for (int64_t i = chunk.begin; i < chunk.end; ++i)
      for (int64_t part = 1; part < record.head.tiles_down; ++part)
        largest[i] =
            largerOf(largest[i], largest[part * record.head.columns + i]);
  });
}

/// Adds the sums of a tensor's chunks of rows after the second phase.
TEST_CODE void tensorTotals(const void *tensors, const void *, const uint32_t *,
                            void *workspace, uint32_t *, int64_t begin,
                            int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    Record record = recordOf(tensors, t);
    auto *total = sumOf(record);
    *total = 0;
    for (int64_t c = record.head.first_chunk; c < record.head.end_chunk; ++c) {
      float part;
      memcpy(&part,
             static_cast<char *>(workspace) + 8 * (c * numReductions + 2),
             sizeof(part));
      *total += part;
    }
  }
}

TEST_CODE Tile tileOf(const Tile &band, int64_t rows, int64_t number) {
  Tile tile = band;
  tile.first_column = 2048 * number;
  tile.end_column = smallerOf<int64_t>(2048 * (number + 1), band.end_column);
  tile.row_parts = rows * number;
  return tile;
}

/// Runs the phases of one launch as a GPU does: both phases over each band, one
/// tile after another.
TEST_CODE void goThroughBands(const void *tensors, const void *bands,
                              const uint32_t *scalars, void *workspace,
                              uint32_t *flags, int64_t begin, int64_t end) {
  for (int64_t b = begin; b < end; ++b) {
    const Tile &band = static_cast<const Tile *>(bands)[b];
    Record record = recordOf(tensors, band.tensor);
    int64_t count = record.head.tiles_across;
    for (int64_t i = 0; i < count; ++i)
      sumTile(tensors, tileOf(band, record.head.rows, i), flags);
    Chunk rows = {band.tensor, /*row=*/0, band.first_row, band.end_row};
    rowTotals(tensors, &rows, scalars, workspace, flags, 0, 1);
    for (int64_t i = 0; i < count; ++i) {
      Tile tile = tileOf(band, record.head.rows, i);
      fillRows(tensors, &tile, scalars, workspace, flags, 0, 1);
    }
  }
}
} // namespace matrices

} // namespace tandem::cts

#endif // TANDEM_RUNTIME_CTS_KERNELCODE_H
