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
// process; KernelCode.cu compiles the same functions for GPUs, so they use
// nothing of the standard library.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_KERNELCODE_H
#define TANDEM_RUNTIME_CTS_KERNELCODE_H

#include "tandem-runtime/tandem_runtime.h"

#include <cstring>

#ifdef __CUDACC__
#define TEST_CODE __host__ __device__ inline
#else
#define TEST_CODE inline
#endif

namespace tandem::cts {

/// The launch ABI's record of a chunk.
struct Chunk {
  int64_t tensor, begin, end;
};

/// The launch ABI's record of a rectangle of a matrix. An element's part of a
/// reduction over its row is at index row + rowParts, over its column at
/// column + columnParts.
struct Tile {
  int64_t tensor, firstRow, endRow, firstColumn, endColumn;
  int64_t rowParts, columnParts;
};

/// The launch ABI's record of a tensor.
struct Record {
  TEST_CODE Record(const void *tensors, int64_t index, int64_t numPlanes)
      : words(static_cast<const int64_t *>(tensors) + index * (5 + numPlanes)) {
  }
  TEST_CODE int64_t rows() const { return words[0]; }
  TEST_CODE int64_t columns() const { return words[1]; }
  TEST_CODE int64_t first() const { return words[2]; }
  TEST_CODE int64_t key() const { return words[3]; }
  TEST_CODE int64_t scalarRow() const { return words[4]; }
  template <typename T>
  TEST_CODE T *plane(int64_t index) const {
    return reinterpret_cast<T *>(words[5 + index]);
  }
  const int64_t *words;
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

/// Blocks of a GPU raise flags at the same time.
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

/// param += scalar * grad; a flag for a gradient that is not finite.
TEST_CODE void sgdEntry(const void *tensors, const void *chunks,
                        const uint32_t *scalars, void *, uint32_t *flags,
                        int64_t begin, int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    Record tensor(tensors, chunk.tensor, 2);
    sgdChunk(tensor, chunk, floatOf(scalars[tensor.scalarRow()]), flags);
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

/// Adds its one scalar, which the prologue makes of nothing, to each byte.
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

/// Elements by index.
struct ElementAt {
  const float *values;
  TEST_CODE float operator()(int64_t i) const { return values[i]; }
};

/// The pairwise sum of \p count numbers that \p valueAt gives by index, of
/// neighbours first. A GPU's stack is too small for recursion.
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

/// Leaves the sum and the number of a chunk's elements in the workspace.
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

/// Adds to the codes of each 32 their entry, which becomes their number.
TEST_CODE void groupEntry(const void *tensors, const void *chunks,
                          const uint32_t *, void *, uint32_t *, int64_t begin,
                          int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    Record tensor(tensors, chunk.tensor, 2);
    uint8_t *code = tensor.plane<uint8_t>(0);
    uint16_t *scale = tensor.plane<uint16_t>(1);
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
/// tensor, the largest magnitude of all tensors, the smallest of a tensor.
namespace phases {
constexpr int64_t numPlanes = 2, numReductions = 3;

TEST_CODE const int64_t *recordOf(const void *tensors, int64_t tensor) {
  return static_cast<const int64_t *>(tensors) + tensor * (5 + numPlanes + 3);
}
TEST_CODE float *valuesOf(const int64_t *record) {
  return reinterpret_cast<float *>(record[5]);
}
TEST_CODE uint32_t *totalsOf(const int64_t *record) {
  return reinterpret_cast<uint32_t *>(record[5 + numPlanes]);
}

/// The sums of chunks by index, as a phase has left them.
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
    const int64_t *record = recordOf(tensors, chunk.tensor);
    if (c < record[6 + numPlanes] || c >= record[7 + numPlanes])
      raiseFlags(flags, 2);
    const float *values = valuesOf(record) + chunk.begin;
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

/// Every element becomes the tensor's sum and entry.
TEST_CODE void writeEntry(const void *tensors, const void *chunks,
                          const uint32_t *, void *, uint32_t *flags,
                          int64_t begin, int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    const int64_t *record = recordOf(tensors, chunk.tensor);
    float total = code::floatOf(totalsOf(record)[0]);
    float value = total + *reinterpret_cast<float *>(record[6]);
    for (int64_t i = chunk.begin; i < chunk.end; ++i)
      valuesOf(record)[i] = value;
    raiseFlags(flags, 1);
  });
}

/// The entry becomes the largest magnitude of all tensors.
TEST_CODE void commitEntry(const void *tensors, const void *, const uint32_t *,
                           void *, uint32_t *, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const int64_t *record = recordOf(tensors, t);
    if (record[0] && record[1])
      memcpy(reinterpret_cast<void *>(record[6]), totalsOf(record) + 1, 4);
  }
}

TEST_CODE void totalsEntry(const void *tensors, const void *, const uint32_t *,
                           void *workspace, uint32_t *, int64_t begin,
                           int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const int64_t *record = recordOf(tensors, t);
    uint32_t *totals = totalsOf(record);
    int64_t first = record[6 + numPlanes], last = record[7 + numPlanes];
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
    largest = largerOf(largest, totalsOf(recordOf(tensors, t))[1]);
  for (int64_t t = begin; t < end; ++t)
    totalsOf(recordOf(tensors, t))[1] = largest;
}
} // namespace phases

//===----------------------------------------------------------------------===//
// A kernel of three phases over matrices
//===----------------------------------------------------------------------===//

/// Planes: values; an entry for each row; one for each two columns. Reductions:
/// the sum of each row, the largest of each column, the sum of the rows' sums.
namespace matrices {
constexpr int64_t numPlanes = 3, numReductions = 3;

TEST_CODE const int64_t *recordOf(const void *tensors, int64_t tensor) {
  constexpr int64_t words = 5 + numPlanes + 7 + numReductions;
  return static_cast<const int64_t *>(tensors) + tensor * words;
}
template <typename T>
TEST_CODE T *pointerAt(const int64_t *record, int64_t word) {
  return reinterpret_cast<T *>(record[word]);
}
template <typename T>
TEST_CODE T *partsOf(const int64_t *record, int64_t reduction) {
  return pointerAt<T>(record, 5 + numPlanes + 7 + reduction);
}

/// Whole numbers, so that sums are exact in any order.
TEST_CODE void sumTile(const void *tensors, const Tile &tile, uint32_t *flags) {
  const int64_t *record = recordOf(tensors, tile.tensor);
  if (tile.endRow - tile.firstRow > 64 ||
      tile.endColumn - tile.firstColumn > 2048)
    raiseFlags(flags, 2);
  const float *values = pointerAt<float>(record, 5);
  auto *columns = partsOf<uint32_t>(record, 1) + tile.columnParts;
  for (int64_t row = tile.firstRow; row < tile.endRow; ++row) {
    float sum = 0;
    for (int64_t i = tile.firstColumn; i < tile.endColumn; ++i) {
      auto value = static_cast<uint32_t>(values[row * record[1] + i]);
      sum += static_cast<float>(value);
      bool isFirst = row == tile.firstRow;
      columns[i] = isFirst ? value : largerOf(columns[i], value);
    }
    partsOf<float>(record, 0)[tile.rowParts + row] = sum;
  }
}

TEST_CODE void sumTiles(const void *tensors, const void *chunks,
                        const uint32_t *, void *, uint32_t *flags,
                        int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c)
    sumTile(tensors, static_cast<const Tile *>(chunks)[c], flags);
}

/// The part of a chunk of rows in the sum of all.
TEST_CODE void sumRows(const void *tensors, const void *chunks,
                       const uint32_t *, void *workspace, uint32_t *,
                       int64_t begin, int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t c) {
    const int64_t *record = recordOf(tensors, chunk.tensor);
    float sum = 0;
    for (int64_t row = chunk.begin; row < chunk.end; ++row)
      sum += partsOf<float>(record, 0)[row];
    memcpy(static_cast<char *>(workspace) + 8 * (c * numReductions + 2), &sum,
           sizeof(sum));
  });
}

TEST_CODE void fillRow(float *values, const Tile &tile, float value) {
  for (int64_t i = tile.firstColumn; i < tile.endColumn; ++i)
    values[i] = value;
}

/// Every element becomes the sum of all.
TEST_CODE void fillTiles(const void *tensors, const void *chunks,
                         const uint32_t *, void *, uint32_t *, int64_t begin,
                         int64_t end) {
  forEach<Tile>(chunks, begin, end, [=](const Tile &tile, int64_t) {
    const int64_t *record = recordOf(tensors, tile.tensor);
    float total = pointerAt<const float>(record, 5 + numPlanes)[2];
    for (int64_t row = tile.firstRow; row < tile.endRow; ++row)
      fillRow(pointerAt<float>(record, 5) + row * record[1], tile, total);
  });
}

/// Every element becomes the sum of its row.
TEST_CODE void fillRows(const void *tensors, const void *chunks,
                        const uint32_t *, void *, uint32_t *, int64_t begin,
                        int64_t end) {
  forEach<Tile>(chunks, begin, end, [=](const Tile &tile, int64_t) {
    const int64_t *record = recordOf(tensors, tile.tensor);
    for (int64_t row = tile.firstRow; row < tile.endRow; ++row)
      fillRow(pointerAt<float>(record, 5) + row * record[1], tile,
              partsOf<float>(record, 0)[row]);
  });
}

TEST_CODE void commitRows(const void *tensors, const void *chunks,
                          const uint32_t *, void *, uint32_t *, int64_t begin,
                          int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    const int64_t *record = recordOf(tensors, chunk.tensor);
    for (int64_t row = chunk.begin; row < chunk.end; ++row)
      pointerAt<float>(record, 6)[row] = partsOf<float>(record, 0)[row];
  });
}

/// The larger of each pair of columns.
TEST_CODE void commitColumns(const void *tensors, const void *chunks,
                             const uint32_t *, void *, uint32_t *,
                             int64_t begin, int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    const int64_t *record = recordOf(tensors, chunk.tensor);
    for (int64_t i = chunk.begin; i < chunk.end; i += 2) {
      const uint32_t *own = partsOf<uint32_t>(record, 1) + i;
      pointerAt<uint32_t>(record, 7)[i / 2] =
          i + 1 < record[1] ? largerOf(own[0], own[1]) : own[0];
    }
  });
}

/// Joins the tiles' parts of rows after the first phase, over chunks of rows.
TEST_CODE void rowTotals(const void *tensors, const void *chunks,
                         const uint32_t *, void *, uint32_t *, int64_t begin,
                         int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    const int64_t *record = recordOf(tensors, chunk.tensor);
    for (int64_t row = chunk.begin; row < chunk.end; ++row)
      for (int64_t part = 1; part < record[5 + numPlanes + 5]; ++part)
        partsOf<float>(record, 0)[row] +=
            partsOf<float>(record, 0)[part * record[0] + row];
  });
}

/// Joins the tiles' parts of columns, over chunks of columns.
TEST_CODE void columnTotals(const void *tensors, const void *chunks,
                            const uint32_t *, void *, uint32_t *, int64_t begin,
                            int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    const int64_t *record = recordOf(tensors, chunk.tensor);
    auto *largest = partsOf<uint32_t>(record, 1);
    for (int64_t i = chunk.begin; i < chunk.end; ++i)
      for (int64_t part = 1; part < record[5 + numPlanes + 6]; ++part)
        largest[i] = largerOf(largest[i], largest[part * record[1] + i]);
  });
}

/// Adds up the sums of a tensor's chunks of rows after the second phase.
TEST_CODE void tensorTotals(const void *tensors, const void *, const uint32_t *,
                            void *workspace, uint32_t *, int64_t begin,
                            int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const int64_t *record = recordOf(tensors, t);
    auto *total = pointerAt<float>(record, 5 + numPlanes) + 2;
    *total = 0;
    for (int64_t c = record[6 + numPlanes]; c < record[7 + numPlanes]; ++c) {
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
  tile.firstColumn = 2048 * number;
  tile.endColumn = smallerOf<int64_t>(2048 * (number + 1), band.endColumn);
  tile.rowParts = rows * number;
  return tile;
}

/// What a GPU does where phases are one launch: a band's tiles one after
/// another, both phases of each band.
TEST_CODE void goThroughBands(const void *tensors, const void *bands,
                              const uint32_t *scalars, void *workspace,
                              uint32_t *flags, int64_t begin, int64_t end) {
  for (int64_t b = begin; b < end; ++b) {
    const Tile &band = static_cast<const Tile *>(bands)[b];
    const int64_t *record = recordOf(tensors, band.tensor);
    int64_t count = record[5 + numPlanes + 5];
    for (int64_t i = 0; i < count; ++i)
      sumTile(tensors, tileOf(band, record[0], i), flags);
    Chunk rows = {band.tensor, band.firstRow, band.endRow};
    rowTotals(tensors, &rows, scalars, workspace, flags, 0, 1);
    for (int64_t i = 0; i < count; ++i) {
      Tile tile = tileOf(band, record[0], i);
      fillRows(tensors, &tile, scalars, workspace, flags, 0, 1);
    }
  }
}
} // namespace matrices

} // namespace tandem::cts

#endif // TANDEM_RUNTIME_CTS_KERNELCODE_H
