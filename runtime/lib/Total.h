//===- Total.h - The total of a reduction -----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file defines the total of a reduction's parts from all chunks.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_TOTAL_H
#define TANDEM_RUNTIME_LIB_TOTAL_H

#include "PairwiseSum.h"
#include "tandem-runtime/tandem_runtime.h"

#include <algorithm>
#include <cstring>

namespace tandem::runtime {

/// The total of one reduction.
class Total {
public:
  explicit Total(tdm_reduction_kind kind)
      : kind(kind), extreme(kind == TDM_REDUCTION_MIN ? UINT32_MAX : 0) {}

  void add(uint32_t part) {
    float value;
    std::memcpy(&value, &part, sizeof(value));
    if (kind == TDM_REDUCTION_SUM)
      sum.add(value);
    else
      extreme = kind == TDM_REDUCTION_MAX ? std::max(extreme, part)
                                          : std::min(extreme, part);
  }

  uint32_t result() const {
    if (kind != TDM_REDUCTION_SUM)
      return extreme;
    float value = sum.result();
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }

private:
  tdm_reduction_kind kind;
  uint32_t extreme;
  PairwiseSum<float> sum;
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_TOTAL_H
