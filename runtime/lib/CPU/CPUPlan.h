//===- CPUPlan.h - Plans on the CPU -----------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares plans on the CPU.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CPU_CPUPLAN_H
#define TANDEM_RUNTIME_LIB_CPU_CPUPLAN_H

#include "HostExecutable.h"
#include "Plan.h"
#include "tandem-runtime/tandem_launch.h"

#include <limits>

namespace tandem::runtime {

/// A plan whose launches distribute the chunks over threads.
class CPUPlan : public Plan {
public:
  /// Creates a plan of \p kernel, which owns \p executable.
  CPUPlan(std::shared_ptr<const Kernel> kernel,
          const HostExecutable &executable)
      : Plan(std::move(kernel)), executable(executable) {}

  tdm_status launch(const double *hypers, const int64_t *integers, int64_t rows,
                    int32_t threads, tdm_launch_info *info) override;
  tdm_status launchAsync(const tdm_async_args &args) override;

private:
  tdm_status place(const Layout *next) override;
  Places getPlaces() override { return {totals.data(), axisParts.data()}; }
  Values getValues() {
    return {workspace.data(), totals.data(), axisParts.data()};
  }
  CutLimits getCutLimits() const override {
    return {64, TDM_LAUNCH_TILE_ROWS, 1, std::numeric_limits<int64_t>::max()};
  }
  tdm_status readWorkspace(const uint64_t *&slots) override;
  tdm_status readFlags(uint32_t &flags) override;
  tdm_status readTotal(int64_t index, uint32_t &total) override;

  class ChunkLaunch;
  class BandLaunch;

  /// Runs the chunks of all phases, then the epilogues.
  tdm_status runPhases(int threads, uint32_t &flags, int &participants);
  int run(const HostPart &part, int threads, uint32_t &flags);
  /// Runs the phases of one launch over bands of rows.
  int runByRows(Phases phases, int threads, uint32_t &flags);
  void runBand(Phases phases, int64_t band, uint32_t *flags);
  void runRange(const HostPart &part, int64_t begin, int64_t end,
                uint32_t *flags);
  /// Computes the totals of the phases' reductions, except those that the bands
  /// have computed.
  tdm_status reduceAll(Phases phases);
  /// Computes a reduction's total for each tensor.
  void reduce(size_t reduction);
  /// Runs an epilogue over tensors.
  void runTensors(tdm_cpu_entry entry, uint32_t &flags);

  const HostExecutable &executable;
  std::vector<uint32_t> scalars;
  std::vector<uint64_t> workspace;
  std::vector<uint32_t> totals, axisParts;
  uint32_t latestFlags = 0;
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CPU_CPUPLAN_H
