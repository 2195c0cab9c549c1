//===- Plan.cpp - A kernel bound to a list of tensors ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements plans and their C interface.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include "CPU/FloatEnvironment.h"
#include "CPU/Launch.h"
#include "CPU/ThreadPool.h"
#include "PairwiseSum.h"

#include <algorithm>
#include <cstring>

using namespace tandem::runtime;

/// Fills the tables that a kernel has, and returns the most chunks of any.
static int64_t assignChunks(const Kernel &kernel, const TensorTable &tensors,
                            ChunkTable (&chunks)[4]) {
  if (!kernel.matrix) {
    chunks[TDM_PER_ELEMENT].assign(tensors, TDM_PER_ELEMENT);
    return chunks[TDM_PER_ELEMENT].size();
  }
  chunks[TDM_PER_ELEMENT].assignTiles(tensors, kernel.block);
  chunks[TDM_PER_ROW].assign(tensors, TDM_PER_ROW);
  chunks[TDM_PER_COLUMN].assign(tensors, TDM_PER_COLUMN);
  chunks[TDM_PER_BLOCK].assign(tensors, TDM_PER_BLOCK);
  // The parts of tiles lie elsewhere.
  return std::max(chunks[TDM_PER_ROW].size(), chunks[TDM_PER_COLUMN].size());
}

tdm_status Plan::update(const tdm_tensor *list, int64_t count) {
  if (tensors.holds(*kernel, list, count))
    return TDM_OK;
  if (tdm_status status = staged.assign(*kernel, list, count))
    return status;
  if (!staged.sameShapes(tensors)) {
    ChunkTable newChunks[4];
    int64_t most = assignChunks(*kernel, staged, newChunks);
    std::vector<uint64_t> newWorkspace(
        most * kernel->slotsPerChunk(kernel->lastPhase()));
    std::vector<uint32_t> newTotals(count * kernel->reductions.size());
    AxisParts newParts(*kernel, newChunks[TDM_PER_ELEMENT], count);
    std::move(std::begin(newChunks), std::end(newChunks), std::begin(chunks));
    workspace = std::move(newWorkspace);
    totals = std::move(newTotals);
    axisParts = std::move(newParts);
    launched = false;
  }
  std::swap(tensors, staged);
  linkTensors();
  return TDM_OK;
}

void Plan::linkTensors() {
  size_t count = kernel->reductions.size();
  if (!count && !kernel->matrix)
    return;
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor) {
    int64_t *tail = tensors.tail(tensor);
    *tail++ = reinterpret_cast<int64_t>(totals.data() + tensor * count);
    for (auto per : {TDM_PER_ELEMENT, TDM_PER_ROW, TDM_PER_COLUMN})
      if ((per != TDM_PER_ELEMENT) == kernel->matrix) {
        *tail++ = chunks[per].firstOf(tensor);
        *tail++ = chunks[per].firstOf(tensor + 1);
      }
    if (kernel->matrix)
      axisParts.link(tensor, chunks[TDM_PER_ELEMENT].tiling(tensor), tail);
  }
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

namespace {
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
} // namespace

/// Makes the totals of one reduction from what the chunks have left.
void Plan::reduce(size_t index) {
  const Reduction &reduction = kernel->reductions[index];
  if (reduction.isWithinMatrix())
    return axisParts.reduce(index, reduction.kind);
  const ChunkTable &chunks = this->chunks[kernel->phases[reduction.phase].per];
  size_t count = kernel->reductions.size();
  int64_t slots = kernel->slotsPerChunk(reduction.phase);
  Total all(reduction.kind);
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor) {
    Total total(reduction.kind);
    int64_t end = chunks.firstOf(tensor + 1);
    for (int64_t chunk = chunks.firstOf(tensor); chunk < end; ++chunk)
      total.add(static_cast<uint32_t>(workspace[chunk * slots + index]));
    totals[tensor * count + index] = total.result();
    all.add(total.result());
  }
  if (reduction.scope == TDM_SCOPE_MODEL)
    for (int64_t tensor = 0; tensor < tensors.size(); ++tensor)
      totals[tensor * count + index] = all.result();
}

int Plan::run(const Phase &phase, int threads, uint32_t &flags) {
  const ChunkTable &table = chunks[phase.per];
  CPULaunch cpu{phase.entry,    tensors.data(),   table.data(),
                scalars.data(), workspace.data(), table.size()};
  int participants = cpu.run(threads);
  flags |= cpu.flags.load(std::memory_order_relaxed);
  return participants;
}

int Plan::runPhases(int threads, uint32_t &flags) {
  int participants = 1;
  for (uint32_t phase = 0; phase < kernel->phases.size(); ++phase) {
    participants = run(kernel->phases[phase], threads, flags);
    FloatEnvironment environment;
    for (size_t i = 0; i < kernel->reductions.size(); ++i)
      if (kernel->reductions[i].phase == phase)
        reduce(i);
  }
  for (const Phase &commit : kernel->axisCommits)
    run(commit, threads, flags);
  if (kernel->commit) {
    FloatEnvironment environment;
    kernel->commit(tensors.data(), chunks[TDM_PER_ELEMENT].data(),
                   scalars.data(), workspace.data(), &flags, 0, tensors.size());
  }
  return participants;
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

tdm_status Plan::checkLaunch(int64_t rows, int32_t threads,
                             const tdm_launch_info *info) const {
  if (threads < 0 || threads > ThreadPool::maxThreads)
    return kernel->fail(TDM_INVALID_ARGUMENT)
           << "threads is " << threads << "; pass 0 for one per core, or 1 to "
           << ThreadPool::maxThreads;
  if (info && info->struct_size != sizeof(tdm_launch_info))
    return kernel->fail(TDM_INVALID_ARGUMENT)
           << "info's struct_size is " << info->struct_size
           << " but this runtime's is " << sizeof(tdm_launch_info)
           << "; set it to sizeof(tdm_launch_info) of the matching header";
  if (kernel->numScalars && tensors.scalarRows() > rows)
    return kernel->fail(TDM_INVALID_ARGUMENT)
           << "tensor " << tensors.lastRowTensor() << ": scalar_row is "
           << tensors.scalarRows() - 1 << " but the launch has " << rows
           << " rows; pass more rows or a lower scalar_row";
  return TDM_OK;
}

tdm_status Plan::launch(const double *hypers, const int64_t *integers,
                        int64_t rows, int32_t threads, tdm_launch_info *info) {
  if (tdm_status status = kernel->checkArguments(hypers, integers, rows))
    return status;
  if (tdm_status status = checkLaunch(rows, threads, info))
    return status;
  int64_t usedRows = kernel->numScalars ? tensors.scalarRows() : 0;
  size_t numScalars = usedRows * kernel->numScalars;
  if (scalars.size() < numScalars)
    scalars.resize(numScalars);
  if (usedRows) {
    FloatEnvironment environment;
    kernel->prologue(hypers, integers, scalars.data(), usedRows);
  }
  uint32_t flags = 0;
  int participants = runPhases(threads, flags);
  launched = true;
  if (info) {
    info->flags = flags;
    info->threads = participants;
    info->chunks = chunks[TDM_PER_ELEMENT].size();
  }
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// Metrics
//===----------------------------------------------------------------------===//

double Plan::tensorMetric(int64_t tensor, int64_t metric) const {
  PairwiseSum<double> sum;
  int64_t slot = kernel->reductions.size() + metric;
  int64_t slots = kernel->slotsPerChunk(kernel->lastPhase());
  const ChunkTable &chunks = this->chunks[TDM_PER_ELEMENT];
  int64_t end = chunks.firstOf(tensor + 1);
  for (int64_t chunk = chunks.firstOf(tensor); chunk < end; ++chunk) {
    double part;
    std::memcpy(&part, &workspace[chunk * slots + slot], sizeof(part));
    sum.add(part);
  }
  return sum.result();
}

double Plan::totalMetric(int64_t metric) const {
  PairwiseSum<double> sum;
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor)
    sum.add(tensorMetric(tensor, metric));
  return sum.result();
}

tdm_status Plan::metrics(int64_t tensor, double *values, int64_t count) {
  if (count != kernel->numMetrics)
    return kernel->fail(TDM_INVALID_ARGUMENT)
           << "the number of metrics asked for is " << count
           << " but the kernel records " << kernel->numMetrics;
  if (count && !values)
    return kernel->fail(TDM_INVALID_ARGUMENT)
           << "values is NULL; pass room for " << count << " doubles";
  if (tensor != TDM_ALL_TENSORS && (tensor < 0 || tensor >= tensors.size()))
    return kernel->fail(TDM_INVALID_ARGUMENT)
           << "there is no tensor " << tensor << " in a plan of "
           << tensors.size() << "; pass one of them or TDM_ALL_TENSORS";
  if (!launched)
    return kernel->fail(TDM_INVALID_STATE)
           << "no launch has run over the plan's tensors; launch it first";
  FloatEnvironment environment;
  for (int64_t metric = 0; metric < count; ++metric)
    values[metric] = tensor == TDM_ALL_TENSORS ? totalMetric(metric)
                                               : tensorMetric(tensor, metric);
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// C interface
//===----------------------------------------------------------------------===//

static tdm_status failNullPlan(const char *function) {
  return Failure(TDM_INVALID_ARGUMENT)
         << function << ": plan is NULL; pass one from tdm_plan_create";
}

tdm_status tdm_plan_create(const tdm_kernel *kernel, const tdm_tensor *tensors,
                           int64_t count, tdm_plan **plan) {
  return guarded("tdm_plan_create", [&]() -> tdm_status {
    if (!kernel)
      return Failure(TDM_INVALID_ARGUMENT)
             << "tdm_plan_create: kernel is NULL; pass one from "
             << "tdm_kernel_create";
    if (!plan)
      return kernel->kernel->fail(TDM_INVALID_ARGUMENT)
             << "plan is NULL; pass where to store it";
    std::unique_ptr<tdm_plan> handle(
        new tdm_plan{tandem::runtime::Plan(kernel->kernel)});
    if (tdm_status status = handle->plan.update(tensors, count))
      return status;
    *plan = handle.release();
    return TDM_OK;
  });
}

tdm_status tdm_plan_update(tdm_plan *plan, const tdm_tensor *tensors,
                           int64_t count) {
  if (!plan)
    return failNullPlan("tdm_plan_update");
  return guarded("tdm_plan_update", [&] {
    return plan->plan.exclusively(
        [&] { return plan->plan.update(tensors, count); });
  });
}

tdm_status tdm_plan_launch(tdm_plan *plan, const double *hypers,
                           const int64_t *integers, int64_t rows,
                           int32_t threads, tdm_launch_info *info) {
  if (!plan)
    return failNullPlan("tdm_plan_launch");
  return guarded("tdm_plan_launch", [&] {
    return plan->plan.exclusively([&] {
      return plan->plan.launch(hypers, integers, rows, threads, info);
    });
  });
}

tdm_status tdm_plan_metrics(tdm_plan *plan, int64_t tensor, double *values,
                            int64_t count) {
  if (!plan)
    return failNullPlan("tdm_plan_metrics");
  return guarded("tdm_plan_metrics", [&] {
    return plan->plan.exclusively(
        [&] { return plan->plan.metrics(tensor, values, count); });
  });
}

void tdm_plan_destroy(tdm_plan *plan) { delete plan; }
