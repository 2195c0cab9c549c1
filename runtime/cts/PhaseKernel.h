//===- PhaseKernel.h - A kernel of two phases -------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file describes a kernel of two phases, which reduces tensors.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_PHASEKERNEL_H
#define TANDEM_RUNTIME_CTS_PHASEKERNEL_H

#include "TestDevice.h"

namespace tandem::cts {

/// Returns the sum of \p count values by a balanced tree, neighbours first.
inline float treeSum(const float *values, int64_t count) {
  if (count <= 0)
    return -0.0f;
  if (count == 1)
    return values[0];
  int64_t half = 1;
  while (2 * half < count)
    half *= 2;
  return treeSum(values, half) + treeSum(values + half, count - half);
}

inline const tdm_cpu_entry reductionEntries[] = {phases::reduceEntry};
inline const tdm_reduction_desc reductions[] = {
    {TDM_REDUCTION_SUM, 0, TDM_SCOPE_TENSOR},
    {TDM_REDUCTION_MAX, 0, TDM_SCOPE_MODEL},
    {TDM_REDUCTION_MIN, 0, TDM_SCOPE_TENSOR}};

inline tdm_kernel_desc phasesDesc() {
  constexpr uint32_t access = TDM_ACCESS_READ | TDM_ACCESS_WRITE;
  static const tdm_plane_desc planes[] = {
      {"value", 32, access, 1}, {"entry", 32, access, TDM_WHOLE_TENSOR}};
  tdm_kernel_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.name = "phases";
  desc.num_planes = phases::numPlanes;
  desc.planes = planes;
  desc.entry = phases::writeEntry;
  desc.reduction_entries = reductionEntries;
  desc.num_reduction_entries = 1;
  desc.reductions = reductions;
  desc.num_reductions = phases::numReductions;
  desc.epilogue = phases::epilogueEntry;
  return desc;
}

inline const Totals phasesTotals = {{"_phase0_totals", phases::totalsEntry},
                                    {"_phase0_model", phases::modelEntry}};

} // namespace tandem::cts

#endif // TANDEM_RUNTIME_CTS_PHASEKERNEL_H
