//===- KernelCode.cu - The code of the tests' kernels for GPUs ------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the entries of the tests' kernels on a real GPU. One
// thread of a block calls the same function as the CPU, for one chunk at a
// time: these kernels test the runtime and not the speed of a GPU.
//
//===----------------------------------------------------------------------===//

#include "KernelCode.h"

using namespace tandem::cts;

#define PARAMETERS                                                             \
  const void *tensors, const void *chunks, const uint32_t *scalars,            \
      void *workspace, uint32_t *flags, int64_t begin, int64_t end

/// Defines an entry. A launch is skipped if the second word of its flags is not
/// 0.
#define ENTRY(NAME, FUNCTION)                                                  \
  extern "C" __global__ void __launch_bounds__(256) NAME(PARAMETERS) {         \
    if (threadIdx.x || flags[1])                                               \
      return;                                                                  \
    for (int64_t c = begin + blockIdx.x; c < end; c += gridDim.x)              \
      FUNCTION(tensors, chunks, scalars, workspace, flags, c, c + 1);          \
  }

/// Defines an entry that processes all tensors in one call.
#define WHOLE_ENTRY(NAME, FUNCTION)                                            \
  extern "C" __global__ void __launch_bounds__(256) NAME(PARAMETERS) {         \
    if (!threadIdx.x && !blockIdx.x && !flags[1])                              \
      FUNCTION(tensors, chunks, scalars, workspace, flags, begin, end);        \
  }

#define PROLOGUE(NAME, FUNCTION)                                               \
  extern "C" __global__ void __launch_bounds__(1)                              \
      NAME(const double *hypers, const int64_t *integers, uint32_t *scalars,   \
           int64_t rows) {                                                     \
    FUNCTION(hypers, integers, scalars, rows);                                 \
  }

PROLOGUE(tandem_sgd_prologue, code::sgdPrologue)
ENTRY(tandem_sgd, code::sgdEntry)
ENTRY(tandem_count, code::countEntry)
PROLOGUE(tandem_constant_prologue, code::constantPrologue)
ENTRY(tandem_constant, code::constantEntry)
ENTRY(tandem_sum, code::sumEntry)
ENTRY(tandem_group, code::groupEntry)

ENTRY(tandem_phases_phase0, phases::reduceEntry)
ENTRY(tandem_phases_phase0_totals, phases::totalsEntry)
WHOLE_ENTRY(tandem_phases_phase0_model, phases::modelEntry)
ENTRY(tandem_phases, phases::writeEntry)
ENTRY(tandem_phases_commit, phases::epilogueEntry)

ENTRY(tandem_matrix_phase0, matrices::sumTiles)
ENTRY(tandem_matrix_phase0_row_totals, matrices::rowTotals)
ENTRY(tandem_matrix_phase0_column_totals, matrices::columnTotals)
ENTRY(tandem_matrix_phase1, matrices::sumRows)
ENTRY(tandem_matrix_phase1_totals, matrices::tensorTotals)
ENTRY(tandem_matrix, matrices::fillTiles)
ENTRY(tandem_matrix_commit_rows, matrices::epilogueRows)
ENTRY(tandem_matrix_commit_columns, matrices::epilogueColumns)

ENTRY(tandem_rowwise_phase0, matrices::sumTiles)
ENTRY(tandem_rowwise_phase0_row_totals, matrices::rowTotals)
ENTRY(tandem_rowwise_phase0_column_totals, matrices::columnTotals)
ENTRY(tandem_rowwise_phase0_bands, matrices::goThroughBands)
ENTRY(tandem_rowwise, matrices::fillRows)
ENTRY(tandem_rowwise_commit_rows, matrices::epilogueRows)
ENTRY(tandem_rowwise_commit_columns, matrices::epilogueColumns)
