//===- Plan.cpp - A kernel bound to a list of tensors ---------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parts of plans that all devices share, and their C
// interface.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"

#include "CPU/FloatEnvironment.h"
#include "CPU/ThreadPool.h"
#include "PairwiseSum.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace tandem::runtime;

Layout Plan::makeLayout(int64_t count) const {
  Layout next;
  CutLimits limits = getCutLimits();
  int64_t enough = limits.enough;
  auto &[elements, rows, columns, blocks] = next.chunks;
  int64_t most;
  if (kernel->matrix) {
    next.runsByRows = kernel->hasFusedPhases() &&
                      elements.assignBandedTiles(*kernel, staged, limits);
    if (next.runsByRows)
      next.bands.assignBands(elements);
    else
      elements.assignTiles(staged, limits, kernel->block);
    rows.assign(staged, TDM_PER_ROW, enough);
    columns.assign(staged, TDM_PER_COLUMN, enough);
    blocks.assign(staged, TDM_PER_BLOCK, enough);
    // The parts of tiles are in AxisParts instead.
    most = std::max(rows.size(), columns.size());
  } else {
    elements.assignElements(*kernel, staged, enough);
    most = elements.size();
  }
  next.axisParts = AxisParts(*kernel, elements, count);
  next.workspaceSlots = most * kernel->slotsPerChunk(kernel->lastPhase());
  next.numTotals = count * static_cast<int64_t>(kernel->reductions.size());
  next.isExchanged = staged.isSharded() && kernel->spansShards();
  return next;
}

tdm_status Plan::update(const tdm_tensor *list, int64_t count) {
  if (tensors.holds(*kernel, list, count))
    return TDM_OK;
  if (tdm_status status = staged.assign(*kernel, list, count))
    return status;
  if (tdm_status status = checkStaged())
    return status;
  if (staged.sameShapes(tensors)) {
    if (tdm_status status = place(nullptr))
      return status;
  } else {
    Layout next = makeLayout(count);
    if (tdm_status status = place(&next))
      return status;
    layout = std::move(next);
    launched = false;
  }
  std::swap(tensors, staged);
  linkTensors();
  return TDM_OK;
}

tdm_status Plan::checkStaged() const {
  if (!staged.isSharded() || !kernel->spansShards() || kernel->knowsWholeSize)
    return TDM_OK;
  return kernel->fail(TDM_INVALID_ARGUMENT)
         << "tensors are sharded, which kernels of packages before version 5 "
         << "do not know; write the package again with a newer compiler";
}

void Plan::linkTensors() {
  size_t count = kernel->reductions.size();
  if (!count && !kernel->matrix)
    return;
  Places places = getPlaces();
  tdm_granularity per = kernel->matrix ? TDM_PER_ROW : TDM_PER_ELEMENT;
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor) {
    tdm_launch_tensor &record = tensors.record(tensor);
    record.totals = places.totals + tensor * count;
    record.first_chunk = layout.chunks[per].firstOf(tensor);
    record.end_chunk = layout.chunks[per].firstOf(tensor + 1);
    if (kernel->matrix)
      linkMatrix(tensor, record, places);
  }
}

void Plan::linkMatrix(int64_t tensor, tdm_launch_tensor &record,
                      const Places &places) {
  const ChunkTable &columns = layout.chunks[TDM_PER_COLUMN];
  record.first_column_chunk = columns.firstOf(tensor);
  record.end_column_chunk = columns.firstOf(tensor + 1);
  const Tiling &tiling = layout.chunks[TDM_PER_ELEMENT].tiling(tensor);
  record.tiles_across = tiling.acrossCount();
  record.tiles_down = tiling.downCount();
  layout.axisParts.link(tensor, places.axisParts, tensors.parts(tensor));
}

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
  return checkRows(rows);
}

tdm_status Plan::checkRows(int64_t rows) const {
  if (usedRows() > rows)
    return kernel->fail(TDM_INVALID_ARGUMENT)
           << TensorNumber{tensors.lastRowTensor()} << ": scalar_row is "
           << tensors.scalarRows() - 1 << " but the launch has " << rows
           << " rows; pass more rows or a lower scalar_row";
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// External steps
//===----------------------------------------------------------------------===//

tdm_status Plan::setExternal(tdm_external_fn function, void *host) {
  external = function;
  externalHost = host;
  return TDM_OK;
}

tdm_status Plan::checkHost() const {
  if (!external && !kernel->externals.empty())
    return kernel->fail(TDM_INVALID_STATE)
           << "the host computes the step '" << kernel->externals.front().name
           << "', but the plan has no function for it; call "
              "tdm_plan_set_external first";
  return checkExchange();
}

tdm_status Plan::callExternals(Phases phases, void *stream) const {
  for (size_t i = 0; i < kernel->externals.size(); ++i) {
    const External &step = kernel->externals[i];
    if (step.phase < phases.first || step.phase >= phases.end)
      continue;
    if (external(externalHost, static_cast<uint32_t>(i), stream))
      return kernel->fail(TDM_EXCHANGE_ERROR)
             << "the external step '" << step.name
             << "' failed; the host knows why";
  }
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// Results of launches
//===----------------------------------------------------------------------===//

double Plan::tensorMetric(const uint64_t *workspace, int64_t tensor,
                          int64_t metric) const {
  if (!tensors.sharding(tensor).isWhole())
    return shardMetrics[tensor * kernel->numMetrics + metric];
  const ChunkTable &chunks = layout.chunks[TDM_PER_ELEMENT];
  return chunkMetric(workspace, metric, chunks.firstOf(tensor),
                     chunks.firstOf(tensor + 1));
}

double Plan::totalMetric(const uint64_t *workspace, int64_t metric) const {
  PairwiseSum<double> sum;
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor)
    sum.add(tensorMetric(workspace, tensor, metric));
  return sum.result();
}

/// Returns \p value, with any NaN replaced by one NaN: processors differ in the
/// sign and payload of the NaN that a sum produces.
static double canonicalizeNaN(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

tdm_status Plan::checkLaunched() const {
  if (launched)
    return TDM_OK;
  return kernel->fail(TDM_INVALID_STATE)
         << "no launch has run over the plan's tensors; launch it first";
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
  if (tdm_status status = checkLaunched())
    return status;
  const uint64_t *workspace = nullptr;
  if (tdm_status status = readWorkspace(workspace))
    return status;
  if (layout.isExchanged)
    if (tdm_status status = exchangeMetrics(workspace))
      return status;
  FloatEnvironment environment;
  for (int64_t metric = 0; metric < count; ++metric)
    values[metric] = canonicalizeNaN(
        tensor == TDM_ALL_TENSORS ? totalMetric(workspace, metric)
                                  : tensorMetric(workspace, tensor, metric));
  return TDM_OK;
}

tdm_status Plan::checkSum(int64_t tensor, int64_t reduction) const {
  int64_t count = kernel->reductions.size();
  if (reduction < 0 || reduction >= count)
    return kernel->fail(TDM_INVALID_ARGUMENT)
           << "there is no reduction " << reduction << " in a kernel of "
           << count;
  const Reduction &made = kernel->reductions[reduction];
  if (made.kind != TDM_REDUCTION_SUM || made.isWithinMatrix())
    return kernel->fail(TDM_INVALID_ARGUMENT)
           << "reduction " << reduction
           << " is not a sum over a tensor or the model";
  if (tensor < 0 || tensor >= tensors.size())
    return kernel->fail(TDM_INVALID_ARGUMENT)
           << "there is no tensor " << tensor << " in a plan of "
           << tensors.size();
  return checkLaunched();
}

tdm_status Plan::sum(int64_t tensor, int64_t reduction, float &total) {
  if (tdm_status status = checkSum(tensor, reduction))
    return status;
  uint32_t bits = 0;
  int64_t count = kernel->reductions.size();
  if (tdm_status status = readTotal(tensor * count + reduction, bits))
    return status;
  std::memcpy(&total, &bits, sizeof(total));
  if (std::isnan(total))
    total = std::numeric_limits<float>::quiet_NaN();
  return TDM_OK;
}

tdm_status Plan::flags(uint32_t &flags) {
  if (tdm_status status = checkLaunched())
    return status;
  return readFlags(flags);
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
    auto handle = std::make_unique<tdm_plan>();
    handle->plan = kernel->kernel->executable->createPlan(kernel->kernel);
    if (tdm_status status = handle->plan->update(tensors, count))
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
    return plan->plan->exclusively(
        [&] { return plan->plan->update(tensors, count); });
  });
}

tdm_status tdm_plan_launch(tdm_plan *plan, const double *hypers,
                           const int64_t *integers, int64_t rows,
                           int32_t threads, tdm_launch_info *info) {
  if (!plan)
    return failNullPlan("tdm_plan_launch");
  return guarded("tdm_plan_launch", [&] {
    return plan->plan->exclusively([&] {
      return plan->plan->launch(hypers, integers, rows, threads, info);
    });
  });
}

tdm_status tdm_plan_set_exchange(tdm_plan *plan, tdm_exchange_fn exchange,
                                 void *host) {
  if (!plan)
    return failNullPlan("tdm_plan_set_exchange");
  return guarded("tdm_plan_set_exchange", [&] {
    return plan->plan->exclusively(
        [&] { return plan->plan->setExchange(exchange, host); });
  });
}

tdm_status tdm_plan_set_external(tdm_plan *plan, tdm_external_fn external,
                                 void *host) {
  if (!plan)
    return failNullPlan("tdm_plan_set_external");
  return guarded("tdm_plan_set_external", [&] {
    return plan->plan->exclusively(
        [&] { return plan->plan->setExternal(external, host); });
  });
}

static tdm_status checkArgs(const tdm_async_args *args) {
  if (!args)
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_plan_launch_async: args is NULL; pass a tdm_async_args";
  if (args->struct_size != sizeof(tdm_async_args))
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_plan_launch_async: struct_size is " << args->struct_size
           << " but this runtime's is " << sizeof(tdm_async_args)
           << "; set it to sizeof(tdm_async_args) of the matching header";
  return TDM_OK;
}

tdm_status tdm_plan_launch_async(tdm_plan *plan, const tdm_async_args *args) {
  if (!plan)
    return failNullPlan("tdm_plan_launch_async");
  if (tdm_status status = checkArgs(args))
    return status;
  return guarded("tdm_plan_launch_async", [&] {
    return plan->plan->exclusively(
        [&] { return plan->plan->launchAsync(*args); });
  });
}

tdm_status tdm_plan_flags(tdm_plan *plan, uint32_t *flags) {
  if (!plan)
    return failNullPlan("tdm_plan_flags");
  if (!flags)
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_plan_flags: flags is NULL; pass where to store them";
  return guarded("tdm_plan_flags", [&] {
    return plan->plan->exclusively([&] { return plan->plan->flags(*flags); });
  });
}

tdm_status tdm_plan_sum(tdm_plan *plan, int64_t tensor, int64_t reduction,
                        float *total) {
  if (!plan)
    return failNullPlan("tdm_plan_sum");
  if (!total)
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_plan_sum: total is NULL; pass where to store it";
  return guarded("tdm_plan_sum", [&] {
    return plan->plan->exclusively(
        [&] { return plan->plan->sum(tensor, reduction, *total); });
  });
}

tdm_status tdm_plan_metrics(tdm_plan *plan, int64_t tensor, double *values,
                            int64_t count) {
  if (!plan)
    return failNullPlan("tdm_plan_metrics");
  return guarded("tdm_plan_metrics", [&] {
    return plan->plan->exclusively(
        [&] { return plan->plan->metrics(tensor, values, count); });
  });
}

void tdm_plan_destroy(tdm_plan *plan) { delete plan; }
