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
// from these structs. A change of one is a new TDM_PACKAGE_VERSION.
//
// An entry point of a kernel has the arguments
//
//   (tensors, chunks, scalars, workspace, flags, begin, end)
//
// where `tensors` points to records of tdm_launch_tensor_size() bytes each,
// `chunks` to an array of tdm_launch_chunk or, in a kernel of matrices,
// tdm_launch_tile, and `begin` to `end` are the chunks to run over. A scalar
// is a tdm_launch_scalar, and a row of them has one for each value that the
// prologue yields. The workspace has, for each chunk, a tdm_launch_part for
// each of the kernel's reductions and then one for each metric.
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

/// The most columns of a tile.
#define TDM_LAUNCH_TILE_COLUMNS 2048
/// The most rows of a tile in a kernel without blocks. On a GPU, whose
/// registers have less room for the levels of columns' sums, there are fewer.
#define TDM_LAUNCH_TILE_ROWS 64
#define TDM_LAUNCH_TILE_ROWS_GPU 16
/// The least and the most rows and columns of a block, which are a power of
/// two.
#define TDM_LAUNCH_MIN_BLOCK 16
#define TDM_LAUNCH_MAX_BLOCK 256
/// The totals past the last one of a row, column or block that a kernel may
/// read, as it loads whole vectors.
#define TDM_LAUNCH_PADDING 64
/// The most reductions of a kernel, and the most metrics.
#define TDM_LAUNCH_MAX_SUMS 4096
/// The most threads of a GPU's block. Each function except the prologue, which
/// a single thread runs, can be launched with as many.
#define TDM_LAUNCH_BLOCK_THREADS 256

//===----------------------------------------------------------------------===//
// Names of functions
//===----------------------------------------------------------------------===//

/// The prologue's name is that of the kernel's main function with this suffix;
/// an epilogue's has TDM_LAUNCH_EPILOGUE, for rows, columns and blocks followed
/// by "_rows", "_columns" or "_blocks".
#define TDM_LAUNCH_PROLOGUE "_prologue"
#define TDM_LAUNCH_EPILOGUE "_commit"
/// Further functions of a launch on a GPU: what makes the totals of its
/// reductions over tensors and over the model, along rows and along columns,
/// and the launch of it and those fused with it, over bands.
#define TDM_LAUNCH_TOTALS "_totals"
#define TDM_LAUNCH_MODEL "_model"
#define TDM_LAUNCH_ROW_TOTALS "_row_totals"
#define TDM_LAUNCH_COLUMN_TOTALS "_column_totals"
#define TDM_LAUNCH_BANDS "_bands"

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

/// A value that the prologue has computed for a row of scalars: the bits of at
/// most 32-bit integers and floats.
typedef uint32_t tdm_launch_scalar;

/// The result of a reduction of a tensor, row, column or block: the bits of an
/// f32 sum, or an unsigned maximum or minimum.
typedef uint32_t tdm_launch_total;

/// The contribution of a chunk to a reduction of its tensor (the lower 32 bits)
/// or to a metric (an f64).
typedef uint64_t tdm_launch_part;

/// The words that `flags` points to. On a CPU each thread has its own.
typedef struct tdm_launch_flags {
  /// Bit 0: a gradient had a NaN or an infinity.
  uint32_t raised;
  /// On a GPU: unless this is 0, a kernel neither reads nor writes a plane.
  uint32_t skip;
} tdm_launch_flags;

/// A tensor's record. After it come the addresses of its planes, one for each
/// plane of the kernel, then those of the parts of its reductions, one for each
/// reduction of the kernel. For a reduction along rows (columns) the parts are
/// a total for each row (column) from each tile that has a share in it; once
/// the reduction is known, it replaces the parts of the first tile. For a
/// reduction over blocks they are a total for each block, row by row. Kernels
/// may read TDM_LAUNCH_PADDING totals past the last. For any other reduction
/// the address is NULL.
///
/// A flat tensor is one row, unless its groups would reach beyond the ends of
/// its rows.
typedef struct tdm_launch_tensor {
  /// The size. Elements of a row are consecutive.
  int64_t rows, columns;
  /// The number of elements of the unsharded tensor or, in a kernel of
  /// matrices, of its rows.
  int64_t num_elements;
  /// The number of the first element in the unsharded tensor: random bits and
  /// groups count from there.
  int64_t first;
  /// The key of the tensor's random bits, of which 32 bits count.
  int64_t key;
  /// The row of scalars.
  int64_t scalar_row;
  /// A total for each reduction of the kernel; NULL if there is none.
  tdm_launch_total *totals;
  /// The chunks, from the first up to but excluding `end_chunk`: of elements
  /// if the kernel takes flat tensors, otherwise of rows.
  int64_t first_chunk, end_chunk;
  /// The chunks of columns, in a kernel of matrices.
  int64_t first_column_chunk, end_column_chunk;
  /// In a kernel of matrices, how many tiles a row and a column have parts
  /// from.
  int64_t tiles_across, tiles_down;
} tdm_launch_tensor;

/// Kernels in CUDA C++ call functions of this header, too.
#ifdef __CUDACC__
#define TDM_LAUNCH_FUNCTION static inline __host__ __device__
#else
#define TDM_LAUNCH_FUNCTION static inline
#endif

/// The bytes of a tensor's record with its addresses.
TDM_LAUNCH_FUNCTION int64_t tdm_launch_tensor_size(int64_t planes,
                                                   int64_t reductions) {
  return (int64_t)sizeof(tdm_launch_tensor) +
         (planes + reductions) * (int64_t)sizeof(void *);
}

/// A range of a row's elements or, in a launch over rows, columns or blocks of
/// a matrix, of these. It begins at a multiple of a power of two, at least
/// 4096, that depends on the sizes of the tensors only; less where the shards
/// of a tensor begin at smaller multiples and the kernel adds them up.
typedef struct tdm_launch_chunk {
  int64_t tensor;
  /// The row that `begin` and `end` count the elements of; 0 in launches over
  /// rows, columns and blocks.
  int64_t row;
  int64_t begin, end;
} tdm_launch_chunk;

/// A rectangle of a matrix: at most TDM_LAUNCH_TILE_COLUMNS columns and
/// TDM_LAUNCH_TILE_ROWS rows, or as many rows as a block has in a kernel of
/// blocks. It begins at multiples of powers of two.
typedef struct tdm_launch_tile {
  int64_t tensor;
  int64_t first_row, end_row, first_column, end_column;
  /// The distance of the tile's first part of rows (columns), in entries, from
  /// that of the tensor.
  int64_t row_parts, column_parts;
} tdm_launch_tile;

#ifdef __cplusplus
}
#endif

#endif // TANDEM_RUNTIME_TANDEM_LAUNCH_H
