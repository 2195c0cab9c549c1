//===- CPUPlan.cpp - Plans on the CPU -------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements plans on the CPU.
//
//===----------------------------------------------------------------------===//

#include "CPUPlan.h"

#include "FloatEnvironment.h"
#include "Launch.h"
#include "Total.h"

using namespace tandem::runtime;

tdm_status CPUPlan::place(const Layout *next) {
  if (!next)
    return TDM_OK;
  std::vector<uint64_t> newWorkspace(next->workspaceSlots);
  std::vector<uint32_t> newTotals(next->numTotals);
  std::vector<uint32_t> newParts(next->axisParts.size());
  workspace = std::move(newWorkspace);
  totals = std::move(newTotals);
  axisParts = std::move(newParts);
  return TDM_OK;
}

tdm_status CPUPlan::readWorkspace(const uint64_t *&slots) {
  slots = workspace.data();
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

void CPUPlan::reduce(size_t index) {
  const Reduction &reduction = kernel->reductions[index];
  size_t count = kernel->reductions.size();
  const ChunkTable &chunks = layout.chunks[kernel->phases[reduction.phase].per];
  Total all(reduction.kind);
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor) {
    uint32_t &total = totals[tensor * count + index];
    if (isExchanged(index, tensor))
      joinParts(index, tensor, getValues());
    else if (reduction.isWithinMatrix())
      layout.axisParts.reduce(tensor, index, reduction.kind, axisParts.data());
    else
      total = reduceChunks(index, chunks.firstOf(tensor),
                           chunks.firstOf(tensor + 1), getValues());
    all.add(total);
  }
  if (reduction.scope == TDM_SCOPE_MODEL)
    for (int64_t tensor = 0; tensor < tensors.size(); ++tensor)
      totals[tensor * count + index] = all.result();
}

tdm_status CPUPlan::reduceAll(Phases phases) {
  if (tdm_status status = exchangeParts(phases, getValues()))
    return status;
  FloatEnvironment environment;
  for (size_t i = 0; i < kernel->reductions.size(); ++i)
    if (isMadeAfter(phases, i))
      reduce(i);
  return TDM_OK;
}

/// A launch of one phase.
class CPUPlan::ChunkLaunch : public CPULaunch {
public:
  ChunkLaunch(CPUPlan &plan, const HostPart &part)
      : CPULaunch(plan.layout.chunks[part.per].size()), plan(plan), part(part) {
  }

private:
  void runChunks(int64_t begin, int64_t end, uint32_t *flags) override {
    plan.runRange(part, begin, end, flags);
  }

  CPUPlan &plan;
  const HostPart &part;
};

/// A launch of fused phases: its chunks are bands.
class CPUPlan::BandLaunch : public CPULaunch {
public:
  BandLaunch(CPUPlan &plan, Phases phases)
      : CPULaunch(plan.layout.bands.size()), plan(plan), phases(phases) {}

private:
  void runChunks(int64_t begin, int64_t end, uint32_t *flags) override {
    for (int64_t band = begin; band < end; ++band)
      plan.runBand(phases, band, flags);
  }

  CPUPlan &plan;
  Phases phases;
};

void CPUPlan::runRange(const HostPart &part, int64_t begin, int64_t end,
                       uint32_t *flags) {
  part.entry(tensors.data(), layout.chunks[part.per].data(), scalars.data(),
             workspace.data(), flags, begin, end);
}

/// Runs all phases over a band before the next band starts, so that the rows
/// that they read stay in the thread's cache.
void CPUPlan::runBand(Phases phases, int64_t band, uint32_t *flags) {
  const Tile &rows = layout.bands.tile(band);
  auto [firstTile, endTile] = layout.chunks[TDM_PER_ELEMENT].tilesOf(rows);
  for (uint32_t number = phases.first; number < phases.end; ++number) {
    runRange(executable.phases[number], firstTile, endTile, flags);
    for (size_t i = 0; i < kernel->reductions.size(); ++i) {
      const Reduction &reduction = kernel->reductions[i];
      if (reduction.phase == number && reduction.scope == TDM_SCOPE_ROW)
        layout.axisParts.reduceRows(i, reduction.kind, rows, axisParts.data());
    }
  }
}

int CPUPlan::runByRows(Phases phases, int threads, uint32_t &flags) {
  BandLaunch cpu(*this, phases);
  int participants = cpu.run(threads);
  flags |= cpu.getFlags();
  return participants;
}

int CPUPlan::run(const HostPart &part, int threads, uint32_t &flags) {
  ChunkLaunch cpu(*this, part);
  int participants = cpu.run(threads);
  flags |= cpu.getFlags();
  return participants;
}

tdm_status CPUPlan::runPhases(int threads, uint32_t &flags, int &participants) {
  for (Phases phases = launchFrom(0); phases.first < kernel->phases.size();
       phases = launchFrom(phases.end)) {
    participants = phases.areByRows()
                       ? runByRows(phases, threads, flags)
                       : run(executable.phases[phases.first], threads, flags);
    if (tdm_status status = reduceAll(phases))
      return status;
    if (tdm_status status = callExternals(phases, nullptr))
      return status;
  }
  for (const HostPart &epilogue : executable.epilogues)
    if (epilogue.per == TDM_PER_ELEMENT)
      runTensors(epilogue.entry, flags);
    else
      run(epilogue, threads, flags);
  return TDM_OK;
}

void CPUPlan::runTensors(tdm_cpu_entry entry, uint32_t &flags) {
  FloatEnvironment environment;
  entry(tensors.data(), layout.chunks[TDM_PER_ELEMENT].data(), scalars.data(),
        workspace.data(), &flags, 0, tensors.size());
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

tdm_status CPUPlan::launch(const double *hypers, const int64_t *integers,
                           int64_t rows, int32_t threads,
                           tdm_launch_info *info) {
  if (tdm_status status = kernel->checkArguments(hypers, integers, rows))
    return status;
  if (tdm_status status = checkLaunch(rows, threads, info))
    return status;
  if (tdm_status status = checkHost())
    return status;
  int64_t usedRows = this->usedRows();
  size_t numScalars = usedRows * kernel->numScalars;
  if (scalars.size() < numScalars)
    scalars.resize(numScalars);
  if (usedRows) {
    FloatEnvironment environment;
    executable.prologue(hypers, integers, scalars.data(), usedRows);
  }
  uint32_t flags = 0;
  int participants = 1;
  if (tdm_status status = runPhases(threads, flags, participants))
    return status;
  launched = true;
  latestFlags = flags;
  if (info) {
    info->flags = flags;
    info->threads = participants;
    info->chunks = layout.chunks[TDM_PER_ELEMENT].size();
  }
  return TDM_OK;
}

tdm_status CPUPlan::launchAsync(const tdm_async_args &) {
  return kernel->fail(TDM_INVALID_STATE)
         << "the kernel runs on the CPU, which has no streams; call "
         << "tdm_plan_launch";
}

tdm_status CPUPlan::readTotal(int64_t index, uint32_t &total) {
  total = totals[index];
  return TDM_OK;
}

tdm_status CPUPlan::readFlags(uint32_t &flags) {
  flags = latestFlags;
  return TDM_OK;
}
