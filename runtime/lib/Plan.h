//===- Plan.h - A kernel bound to a list of tensors -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the plan, which holds the tables for a kernel's launches.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_PLAN_H
#define TANDEM_RUNTIME_LIB_PLAN_H

#include "Matrices.h"

#include <atomic>

namespace tandem::runtime {

/// The data that depend only on the shapes of a plan's tensors.
struct Layout {
  /// The chunks for each tdm_granularity: of elements (tiles in a matrix
  /// kernel) and, in a matrix kernel, of rows, columns and blocks.
  ChunkTable chunks[numGranularities];
  /// Bands of tiles, over which fused phases run.
  ChunkTable bands;
  bool runsByRows = false;
  AxisParts axisParts;
  /// The number of 8-byte slots, which hold doubles, floats or 32-bit integers.
  int64_t workspaceSlots = 0;
  /// The number of totals: one for each tensor and reduction.
  int64_t numTotals = 0;
  /// Whether ranks exchange the reductions of sharded tensors.
  bool isExchanged = false;
};

/// A kernel bound to a list of tensors.
class Plan {
public:
  virtual ~Plan() = default;

  /// Replaces the tensor list.
  tdm_status update(const tdm_tensor *list, int64_t count);

  /// Runs the kernel over all tensors and waits for it.
  virtual tdm_status launch(const double *hypers, const int64_t *integers,
                            int64_t rows, int32_t threads,
                            tdm_launch_info *info) = 0;

  /// Enqueues a launch of the kernel on the device.
  virtual tdm_status launchAsync(const tdm_async_args &args) = 0;

  /// Sets the function that exchanges words between ranks.
  tdm_status setExchange(tdm_exchange_fn function, void *host);

  /// Sets the function that computes external steps.
  tdm_status setExternal(tdm_external_fn function, void *host);

  /// Stores the flags of the latest launch.
  tdm_status flags(uint32_t &flags);

  /// Stores the metrics of the latest launch, which are summed from the
  /// workspace.
  tdm_status metrics(int64_t tensor, double *values, int64_t count);

  /// Stores the total of a sum over a tensor or the model, as the latest launch
  /// has computed it.
  tdm_status sum(int64_t tensor, int64_t reduction, float &total);

  /// Runs \p body, or fails if another thread is using the plan.
  template <typename Body>
  tdm_status exclusively(Body body) {
    if (busy.test_and_set(std::memory_order_acquire))
      return kernel->fail(TDM_INVALID_STATE)
             << "another thread is using the plan; make one plan per thread";
    Release release{busy};
    return body();
  }

protected:
  /// The phases of one launch. Several phases run by rows, over bands.
  struct Phases {
    uint32_t first, end;

    bool areByRows() const { return end > first + 1; }
  };
  /// Returns the phases of the launch that begins with \p phase.
  Phases launchFrom(uint32_t phase) const {
    return {phase, layout.runsByRows ? kernel->endOfLaunch(phase) : phase + 1};
  }

  /// The addresses of the totals and parts of a plan's reductions.
  struct Places {
    tdm_launch_total *totals, *axisParts;
  };
  /// The same data in the host's memory, with the slots of the chunks.
  struct Values {
    const uint64_t *workspace;
    uint32_t *totals, *axisParts;
  };

  explicit Plan(std::shared_ptr<const Kernel> kernel)
      : kernel(std::move(kernel)) {}

  /// Allocates memory for the tensors in `staged` and for the layout \p next,
  /// which is NULL if the layout does not change. A failure changes nothing.
  virtual tdm_status place(const Layout *next) = 0;
  virtual Places getPlaces() = 0;
  virtual CutLimits getCutLimits() const = 0;
  /// Stores the address of the slots that the latest launch has written.
  virtual tdm_status readWorkspace(const uint64_t *&slots) = 0;
  virtual tdm_status readFlags(uint32_t &flags) = 0;
  /// Stores a total of the latest launch, a number for each tensor and
  /// reduction.
  virtual tdm_status readTotal(int64_t index, uint32_t &total) = 0;

  /// Writes the addresses of totals and parts and the ranges of chunks to the
  /// tensors' records.
  void linkTensors();
  void linkMatrix(int64_t tensor, tdm_launch_tensor &record,
                  const Places &places);
  /// Check arguments in ways that do not depend on the device.
  tdm_status checkRows(int64_t rows) const;
  tdm_status checkLaunch(int64_t rows, int32_t threads,
                         const tdm_launch_info *info) const;
  /// Checks that the host has set the functions that a launch calls.
  tdm_status checkHost() const;
  /// Lets the host compute the external steps that follow \p phases.
  tdm_status callExternals(Phases phases, void *stream) const;
  /// Returns whether \p phases have computed the parts of a reduction, but not
  /// its totals.
  bool isMadeAfter(Phases phases, size_t reduction) const;
  /// Returns whether ranks exchange their parts of a tensor's reduction.
  bool isExchanged(size_t reduction, int64_t tensor) const {
    return !tensors.tree(tensor).isWhole() &&
           kernel->spansShards(kernel->reductions[reduction]);
  }
  /// Exchanges with other ranks the parts of the reductions of \p phases.
  tdm_status exchangeParts(Phases phases, const Values &values);
  /// Computes a tensor's total of a reduction from the parts of all ranks.
  /// Calls follow the order in which the parts were appended.
  void joinParts(size_t reduction, int64_t tensor, const Values &values);
  /// Returns the total of a reduction's parts from the chunks [first, end).
  uint32_t reduceChunks(size_t reduction, int64_t first, int64_t end,
                        const Values &values) const;
  /// Returns the number of rows of scalars that the tensors use.
  int64_t usedRows() const {
    return kernel->numScalars ? tensors.scalarRows() : 0;
  }

  std::shared_ptr<const Kernel> kernel;
  TensorTable tensors;
  /// The list that an update builds. A failed update thus changes nothing, and
  /// a successful one need not allocate.
  TensorTable staged;
  Layout layout;
  bool launched = false;

private:
  struct Release {
    std::atomic_flag &busy;
    ~Release() { busy.clear(std::memory_order_release); }
  };

  Layout makeLayout(int64_t count) const;
  tdm_status checkStaged() const;
  tdm_status checkExchange() const;
  tdm_status checkLaunched() const;
  tdm_status checkSum(int64_t tensor, int64_t reduction) const;
  double chunkMetric(const uint64_t *workspace, int64_t metric, int64_t first,
                     int64_t end) const;
  double tensorMetric(const uint64_t *workspace, int64_t tensor,
                      int64_t metric) const;
  double totalMetric(const uint64_t *workspace, int64_t metric) const;
  void appendMetricParts(const uint64_t *workspace);
  void appendMetricParts(const uint64_t *workspace, int64_t tensor);
  void joinMetricParts(int64_t tensor);
  /// Computes the metrics of sharded tensors from those of all ranks.
  tdm_status exchangeMetrics(const uint64_t *workspace);

  /// Sums the words over the ranks of each group, if there are any.
  tdm_status exchangeWords();
  /// Appends this rank's parts of a reduction to the words for all ranks.
  void appendParts(size_t reduction, const Values &values);
  void writePart(size_t reduction, int64_t tensor, size_t node, uint32_t *words,
                 const Values &values) const;
  void writeColumns(size_t reduction, int64_t tensor, size_t node,
                    uint32_t *words, const Values &values) const;
  /// Returns the number of words of a part of a reduction: one, or one for each
  /// column.
  int64_t partWords(size_t reduction, int64_t tensor) const;

  /// The words of an exchange, before and after it.
  ShardWords words;
  tdm_exchange_fn exchange = nullptr;
  void *exchangeHost = nullptr;
  tdm_external_fn external = nullptr;
  void *externalHost = nullptr;
  /// The metrics of sharded tensors: for each node of each tensor, all metrics.
  std::vector<double> shardMetrics;
  std::atomic_flag busy = ATOMIC_FLAG_INIT;
};

} // namespace tandem::runtime

/// The C interface's handle.
struct tdm_plan {
  std::unique_ptr<tandem::runtime::Plan> plan;
};

#endif // TANDEM_RUNTIME_LIB_PLAN_H
