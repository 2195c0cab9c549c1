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

/// The total of what the chunks [first, end) have left of a reduction.
uint32_t CPUPlan::reduceChunks(size_t index, int64_t first, int64_t end) const {
  const Reduction &reduction = kernel->reductions[index];
  int64_t slots = kernel->slotsPerChunk(reduction.phase);
  Total total(reduction.kind);
  for (int64_t chunk = first; chunk < end; ++chunk)
    total.add(static_cast<uint32_t>(workspace[chunk * slots + index]));
  return total.result();
}

int64_t CPUPlan::partWords(size_t index, int64_t tensor) const {
  return kernel->reductions[index].scope == TDM_SCOPE_COLUMN
             ? tensors.sharding(tensor).rowLength
             : 1;
}

void CPUPlan::writePart(size_t index, int64_t tensor, size_t node,
                        uint32_t *words) {
  const Reduction &reduction = kernel->reductions[index];
  const ShardTree &tree = tensors.tree(tensor);
  if (reduction.scope == TDM_SCOPE_COLUMN) {
    int64_t rows = layout.chunks[TDM_PER_ELEMENT].tiling(tensor).tileRows;
    auto [first, end] = tree.chunksOf(node, rows);
    int64_t count = partWords(index, tensor);
    if (first == end)
      std::fill_n(words, count, Total(reduction.kind).result());
    else
      std::copy_n(layout.axisParts.reduceParts(tensor, index, reduction.kind,
                                               first, end, axisParts.data()),
                  count, words);
    return;
  }
  const ChunkTable &chunks = layout.chunks[kernel->phases[reduction.phase].per];
  int64_t before = chunks.firstOf(tensor);
  auto [first, end] = tree.chunksOf(node, chunks.leavesOf(tensor));
  // The chunks of kernels without sums need not be leaves of the tree.
  if (reduction.kind != TDM_REDUCTION_SUM) {
    bool isFirst = node == tree.own().first;
    first = 0;
    end = isFirst ? chunks.firstOf(tensor + 1) - before : 0;
  }
  *words = reduceChunks(index, before + first, before + end);
}

void CPUPlan::appendParts(size_t index) {
  if (!kernel->spansShards(kernel->reductions[index]))
    return;
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const ShardTree &tree = tensors.tree(tensor);
    int64_t words = partWords(index, tensor);
    size_t begin = shardParts.size();
    shardParts.resize(begin + tree.size() * words);
    for (size_t node = tree.own().first; node < tree.own().second; ++node)
      writePart(index, tensor, node, &shardParts[begin + node * words]);
  }
}

/// Makes the total of a tensor's parts in place of the first.
static void combineParts(const ShardTree &tree, tdm_reduction_kind kind,
                         int64_t count, uint32_t *words) {
  tree.combine([&](size_t left, size_t right) {
    for (int64_t i = 0; i < count; ++i)
      words[left * count + i] =
          join(kind, words[left * count + i], words[right * count + i]);
  });
}

uint32_t CPUPlan::reduceTensor(size_t index, int64_t tensor, uint32_t *&words) {
  const Reduction &reduction = kernel->reductions[index];
  const ShardTree &tree = tensors.tree(tensor);
  if (tree.isWhole() || !kernel->spansShards(reduction)) {
    const ChunkTable &chunks =
        layout.chunks[kernel->phases[reduction.phase].per];
    return reduceChunks(index, chunks.firstOf(tensor),
                        chunks.firstOf(tensor + 1));
  }
  combineParts(tree, reduction.kind, 1, words);
  uint32_t result = *words;
  words += tree.size();
  return result;
}

void CPUPlan::reduceAxis(size_t index, int64_t tensor, uint32_t *&words) {
  const Reduction &reduction = kernel->reductions[index];
  const ShardTree &tree = tensors.tree(tensor);
  if (tree.isWhole() || !kernel->spansShards(reduction))
    return layout.axisParts.reduce(tensor, index, reduction.kind,
                                   axisParts.data());
  int64_t count = partWords(index, tensor);
  combineParts(tree, reduction.kind, count, words);
  if (tensors.elements(tensor))
    std::copy_n(words, count,
                layout.axisParts.resultsOf(tensor, index, axisParts.data()));
  words += tree.size() * count;
}

uint32_t *CPUPlan::reduce(size_t index, uint32_t *words) {
  const Reduction &reduction = kernel->reductions[index];
  size_t count = kernel->reductions.size();
  Total all(reduction.kind);
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor) {
    if (reduction.isWithinMatrix()) {
      reduceAxis(index, tensor, words);
      continue;
    }
    totals[tensor * count + index] = reduceTensor(index, tensor, words);
    all.add(totals[tensor * count + index]);
  }
  if (reduction.scope == TDM_SCOPE_MODEL)
    for (int64_t tensor = 0; tensor < tensors.size(); ++tensor)
      totals[tensor * count + index] = all.result();
  return words;
}

/// Whether phases have made a reduction whose total is not known yet.
bool CPUPlan::isMadeAfter(Phases phases, size_t index) const {
  const Reduction &reduction = kernel->reductions[index];
  bool isKnown = phases.areByRows() && reduction.scope == TDM_SCOPE_ROW;
  return reduction.phase >= phases.first && reduction.phase < phases.end &&
         !isKnown;
}

tdm_status CPUPlan::reduceAll(Phases phases) {
  size_t count = kernel->reductions.size();
  shardParts.clear();
  if (layout.isExchanged) {
    FloatEnvironment environment;
    for (size_t i = 0; i < count; ++i)
      if (isMadeAfter(phases, i))
        appendParts(i);
  }
  if (tdm_status status = exchangeWords(shardParts))
    return status;
  FloatEnvironment environment;
  uint32_t *words = shardParts.data();
  for (size_t i = 0; i < count; ++i)
    if (isMadeAfter(phases, i))
      words = reduce(i, words);
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

/// Runs all phases over a band before the next band begins, so that the rows
/// which they read stay in the thread's cache.
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
  if (tdm_status status = checkExchange())
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

tdm_status CPUPlan::readFlags(uint32_t &flags) {
  flags = latestFlags;
  return TDM_OK;
}
