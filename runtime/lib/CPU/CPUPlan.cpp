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
#include "PairwiseSum.h"

#include <algorithm>
#include <cstring>

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
void CPUPlan::reduce(size_t index) {
  const Reduction &reduction = kernel->reductions[index];
  if (reduction.isWithinMatrix())
    return layout.axisParts.reduce(index, reduction.kind, axisParts.data());
  const ChunkTable &chunks = layout.chunks[kernel->phases[reduction.phase].per];
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

void CPUPlan::reduceAll(Phases phases) {
  FloatEnvironment environment;
  for (size_t i = 0; i < kernel->reductions.size(); ++i) {
    const Reduction &reduction = kernel->reductions[i];
    bool isKnown = phases.areByRows() && reduction.scope == TDM_SCOPE_ROW;
    if (reduction.phase >= phases.first && reduction.phase < phases.end &&
        !isKnown)
      reduce(i);
  }
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

/// A launch of phases that continue each other: its chunks are bands.
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

/// Runs all phases over a band before the next band begins, so that the rows
/// which they read stay in the thread's cache.
void CPUPlan::runBand(Phases phases, int64_t band, uint32_t *flags) {
  const Tile &rows = layout.bands.tile(band);
  auto [firstTile, endTile] = layout.chunks[TDM_PER_ELEMENT].tilesOf(rows);
  for (uint32_t number = phases.first; number < phases.end; ++number) {
    runRange(code.phases[number], firstTile, endTile, flags);
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

int CPUPlan::runPhases(int threads, uint32_t &flags) {
  int participants = 1;
  for (Phases phases = launchFrom(0); phases.first < kernel->phases.size();
       phases = launchFrom(phases.end)) {
    participants = phases.areByRows()
                       ? runByRows(phases, threads, flags)
                       : run(code.phases[phases.first], threads, flags);
    reduceAll(phases);
  }
  for (const HostPart &epilogue : code.epilogues)
    if (epilogue.per == TDM_PER_ELEMENT)
      runTensors(epilogue.entry, flags);
    else
      run(epilogue, threads, flags);
  return participants;
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
  int64_t usedRows = this->usedRows();
  size_t numScalars = usedRows * kernel->numScalars;
  if (scalars.size() < numScalars)
    scalars.resize(numScalars);
  if (usedRows) {
    FloatEnvironment environment;
    code.prologue(hypers, integers, scalars.data(), usedRows);
  }
  uint32_t flags = 0;
  int participants = runPhases(threads, flags);
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

tdm_status CPUPlan::readFlags(uint32_t &flags) {
  flags = latestFlags;
  return TDM_OK;
}
