//===- tandem_launch.h - The tables that kernels read, in C -----*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the launch ABI: the records of tensors and chunks that the
// runtime writes and compiled kernels read. The compiler takes every offset
// from these structs. Changing one requires a new TDM_PACKAGE_VERSION.
//
// An entry point of a kernel has the arguments
//
//   (tensors, chunks, scalars, workspace, flags, begin, end)
//
// where `tensors` points to records of tdm_launch_tensor_size() bytes each,
// `chunks` to an array of tdm_launch_chunk or, in a matrix kernel,
// tdm_launch_tile, and [begin, end) are the chunks to run over. `scalars`
// points to rows of tdm_launch_scalar, with one scalar for each value that the
// prologue computes. For each chunk, `workspace` has a tdm_launch_part for each
// of the kernel's reductions and then one for each metric.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_TANDEM_LAUNCH_H
#define TANDEM_RUNTIME_TANDEM_LAUNCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

/// The maximum number of columns of a tile.
#define TDM_LAUNCH_TILE_COLUMNS 2048
/// The largest number of elements of a chunk, which kernels count in 32 bits.
#define TDM_LAUNCH_CHUNK_ELEMENTS (INT64_C(1) << 30)
/// The maximum number of rows of a tile in a kernel without blocks. It is
/// smaller on a GPU, whose registers hold fewer levels of the column sums.
#define TDM_LAUNCH_TILE_ROWS 64
#define TDM_LAUNCH_TILE_ROWS_GPU 16
/// The minimum and maximum number of rows, and of columns, of a block. Blocks
/// are square, and their size is a power of two.
#define TDM_LAUNCH_MIN_BLOCK 16
#define TDM_LAUNCH_MAX_BLOCK 256
/// The number of totals past the last row, column or block that a kernel may
/// read, because it loads whole vectors.
#define TDM_LAUNCH_PADDING 64
/// The maximum number of reductions of a kernel, and of metrics.
#define TDM_LAUNCH_MAX_SUMS 4096
/// The maximum number of threads of a GPU's thread block. Every function can be
/// launched with this number, except for the prologue, which runs in a single
/// thread.
#define TDM_LAUNCH_BLOCK_THREADS 256

//===----------------------------------------------------------------------===//
// Names of functions
//===----------------------------------------------------------------------===//

/// The suffixes that are appended to the name of the kernel's main function to
/// name the prologue and the epilogue. The epilogues for rows, columns and
/// blocks append "_rows", "_columns" or "_blocks" to that.
#define TDM_LAUNCH_PROLOGUE "_prologue"
#define TDM_LAUNCH_EPILOGUE "_commit"
/// The suffixes of a phase's further functions on a GPU. They compute the
/// totals of its reductions over tensors, over the model, along rows and along
/// columns; the last runs the phase and those fused with it over bands.
#define TDM_LAUNCH_TOTALS "_totals"
#define TDM_LAUNCH_MODEL "_model"
#define TDM_LAUNCH_ROW_TOTALS "_row_totals"
#define TDM_LAUNCH_COLUMN_TOTALS "_column_totals"
#define TDM_LAUNCH_BANDS "_bands"

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

/// A value that the prologue computes for a row of scalars: the bits of an
/// integer or float of at most 32 bits.
typedef uint32_t tdm_launch_scalar;

/// The result of a reduction of a tensor, row, column or block: the bits of an
/// f32 sum, or an unsigned maximum or minimum.
typedef uint32_t tdm_launch_total;

/// The contribution of a chunk to a reduction of its tensor (the lower 32 bits)
/// or to a metric (an f64).
typedef uint64_t tdm_launch_part;

/// The words that `flags` points to. On a CPU each thread has its own.
typedef struct tdm_launch_flags {
  /// Bit 0: a gradient was a NaN or an infinity.
  uint32_t raised;
  /// On a GPU: if this is nonzero, kernels neither read nor write any plane.
  uint32_t skip;
} tdm_launch_flags;

/// A tensor's record. It is followed by the addresses of the tensor's planes,
/// one for each plane of the kernel, and then by the addresses of the partial
/// results of reductions, one for each reduction of the kernel. For a reduction
/// along rows (columns), these are a total for each row (column) from each tile
/// that intersects it; the final results replace those of the first tile. For a
/// reduction over blocks, they are a total for each block, row by row. Kernels
/// may read TDM_LAUNCH_PADDING totals past the last. For any other reduction
/// the address is NULL.
///
/// A flat tensor is one row, unless its groups would cross the ends of its
/// rows.
typedef struct tdm_launch_tensor {
  /// The number of rows and columns. Elements of a row are consecutive.
  int64_t rows, columns;
  /// The number of elements of the unsharded tensor or, in a matrix kernel, of
  /// its rows.
  int64_t num_elements;
  /// The index of the first element in the unsharded tensor, by which random
  /// bits and groups are determined.
  int64_t first;
  /// The key of the tensor's random bits, of which the low 32 bits are used.
  int64_t key;
  /// The row of scalars.
  int64_t scalar_row;
  /// A total for each reduction of the kernel; NULL if it has none.
  tdm_launch_total *totals;
  /// The range of chunks, which excludes `end_chunk`: chunks of elements if the
  /// kernel takes flat tensors, and of rows otherwise.
  int64_t first_chunk, end_chunk;
  /// The range of chunks of columns, in a matrix kernel.
  int64_t first_column_chunk, end_column_chunk;
  /// The number of tiles that a row and a column intersect, in a matrix kernel.
  int64_t tiles_across, tiles_down;
} tdm_launch_tensor;

/// Kernels in CUDA C++ also call functions of this header.
#ifdef __CUDACC__
#define TDM_LAUNCH_FUNCTION static inline __host__ __device__
#else
#define TDM_LAUNCH_FUNCTION static inline
#endif

/// Returns the size in bytes of a tensor's record with its addresses.
TDM_LAUNCH_FUNCTION int64_t tdm_launch_tensor_size(int64_t planes,
                                                   int64_t reductions) {
  return (int64_t)sizeof(tdm_launch_tensor) +
         (planes + reductions) * (int64_t)sizeof(void *);
}

/// A range of a row's elements or, in a launch over rows, columns or blocks of
/// a matrix, a range of those. It begins at a multiple of a power of two that
/// depends only on the sizes of the tensors and is at least 4096, or smaller if
/// the kernel has sums over a tensor whose shards begin at smaller multiples.
/// It has at most TDM_LAUNCH_CHUNK_ELEMENTS elements.
typedef struct tdm_launch_chunk {
  int64_t tensor;
  /// The row whose elements `begin` and `end` index; 0 in launches over rows,
  /// columns and blocks.
  int64_t row;
  int64_t begin, end;
} tdm_launch_chunk;

/// A rectangle of a matrix with at most TDM_LAUNCH_TILE_COLUMNS columns and
/// TDM_LAUNCH_TILE_ROWS rows; in a kernel with blocks, it has the rows of one
/// block. It begins at multiples of powers of two.
typedef struct tdm_launch_tile {
  int64_t tensor;
  int64_t first_row, end_row, first_column, end_column;
  /// The offset in entries of the tile's first partial result of rows (columns)
  /// from the tensor's first.
  int64_t row_parts, column_parts;
} tdm_launch_tile;

#ifdef __cplusplus
}
#endif

#endif // TANDEM_RUNTIME_TANDEM_LAUNCH_H
