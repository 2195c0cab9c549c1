//===- Plan.h - A kernel bound to a list of tensors -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the plan, which keeps the tables of a kernel's launches.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_PLAN_H
#define TANDEM_RUNTIME_LIB_PLAN_H

#include "Matrices.h"

#include <atomic>

namespace tandem::runtime {

/// A kernel bound to a list of tensors.
class Plan {
public:
  explicit Plan(std::shared_ptr<const Kernel> kernel)
      : kernel(std::move(kernel)) {}

  /// Replaces the tensor list.
  tdm_status update(const tdm_tensor *list, int64_t count);

  /// Runs the kernel over all tensors.
  tdm_status launch(const double *hypers, const int64_t *integers, int64_t rows,
                    int32_t threads, tdm_launch_info *info);

  /// Sums up what the latest launch left in the workspace.
  tdm_status metrics(int64_t tensor, double *values, int64_t count);

  /// Runs \p body unless another thread is in the middle of a call.
  template <typename Body>
  tdm_status exclusively(Body body) {
    if (busy.test_and_set(std::memory_order_acquire))
      return kernel->fail(TDM_INVALID_STATE)
             << "another thread is using the plan; make one plan per thread";
    Release release{busy};
    return body();
  }

private:
  struct Release {
    std::atomic_flag &busy;
    ~Release() { busy.clear(std::memory_order_release); }
  };

  tdm_status checkLaunch(int64_t rows, int32_t threads,
                         const tdm_launch_info *info) const;
  /// Runs the chunks of all phases, then what each tensor ends with.
  int runPhases(int threads, uint32_t &flags);
  int run(const Phase &phase, int threads, uint32_t &flags);
  void reduce(size_t reduction);
  void linkTensors();
  double tensorMetric(int64_t tensor, int64_t metric) const;
  double totalMetric(int64_t metric) const;

  std::shared_ptr<const Kernel> kernel;
  TensorTable tensors;
  /// Where an update builds its list, so that one that fails changes nothing
  /// and one that succeeds need not allocate.
  TensorTable staged;
  /// Of elements or tiles, and in a matrix kernel of rows, columns and blocks.
  ChunkTable chunks[4];
  AxisParts axisParts;
  std::vector<uint32_t> scalars;
  /// Slots of 8 bytes, which hold doubles, floats or 32-bit integers.
  std::vector<uint64_t> workspace;
  /// One for each tensor and reduction.
  std::vector<uint32_t> totals;
  bool launched = false;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
};

} // namespace tandem::runtime

/// The C interface's handle.
struct tdm_plan {
  tandem::runtime::Plan plan;
};

#endif // TANDEM_RUNTIME_LIB_PLAN_H
