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

using namespace tandem::runtime;

tdm_status Plan::update(const tdm_tensor *list, int64_t count) {
  if (tensors.holds(*kernel, list, count))
    return TDM_OK;
  if (tdm_status status = staged.assign(*kernel, list, count))
    return status;
  if (!staged.sameElements(tensors)) {
    ChunkTable newChunks;
    newChunks.assign(staged);
    std::vector<double> newWorkspace(newChunks.size() * kernel->numMetrics);
    chunks = std::move(newChunks);
    workspace = std::move(newWorkspace);
    launched = false;
  }
  std::swap(tensors, staged);
  return TDM_OK;
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
  CPULaunch cpu{kernel->entry,  tensors.data(),   chunks.data(),
                scalars.data(), workspace.data(), chunks.size()};
  int participants = cpu.run(threads);
  launched = true;
  if (info) {
    info->flags = cpu.flags.load(std::memory_order_relaxed);
    info->threads = participants;
    info->chunks = chunks.size();
  }
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// Metrics
//===----------------------------------------------------------------------===//

double Plan::tensorMetric(int64_t tensor, int64_t metric) const {
  PairwiseSum sum;
  int64_t end = chunks.firstOf(tensor + 1);
  for (int64_t chunk = chunks.firstOf(tensor); chunk < end; ++chunk)
    sum.add(workspace[chunk * kernel->numMetrics + metric]);
  return sum.result();
}

double Plan::totalMetric(int64_t metric) const {
  PairwiseSum sum;
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
