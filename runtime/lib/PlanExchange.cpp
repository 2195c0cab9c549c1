//===- PlanExchange.cpp - Reductions of sharded tensors -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the exchange between ranks that plans on all devices
// share: of parts of reductions after each launch, and of metrics.
//
//===----------------------------------------------------------------------===//

#include "CPU/FloatEnvironment.h"
#include "PairwiseSum.h"
#include "Plan.h"
#include "Total.h"

#include <algorithm>
#include <cstring>

using namespace tandem::runtime;

tdm_status Plan::setExchange(tdm_exchange_fn function, void *host) {
  exchange = function;
  exchangeHost = host;
  return TDM_OK;
}

tdm_status Plan::checkExchange() const {
  if (exchange || !layout.isExchanged)
    return TDM_OK;
  return kernel->fail(TDM_INVALID_STATE)
         << "tensors are sharded and the kernel reduces them, but the plan has "
         << "no exchange between ranks; call tdm_plan_set_exchange first";
}

tdm_status Plan::exchangeWords() {
  return words.exchangeEach(
      [&](int64_t group, std::vector<uint32_t> &list) -> tdm_status {
        if (!exchange(exchangeHost, group, list.data(), list.size()))
          return TDM_OK;
        return kernel->fail(TDM_EXCHANGE_ERROR)
               << "the exchange of " << list.size()
               << " words between ranks failed; the host knows why";
      });
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

bool Plan::isMadeAfter(Phases phases, size_t index) const {
  const Reduction &reduction = kernel->reductions[index];
  bool isKnown = phases.areByRows() && reduction.scope == TDM_SCOPE_ROW;
  return reduction.phase >= phases.first && reduction.phase < phases.end &&
         !isKnown;
}

uint32_t Plan::reduceChunks(size_t index, int64_t first, int64_t end,
                            const Values &values) const {
  const Reduction &reduction = kernel->reductions[index];
  int64_t slots = kernel->slotsPerChunk(reduction.phase);
  Total total(reduction.kind);
  for (int64_t chunk = first; chunk < end; ++chunk)
    total.add(static_cast<uint32_t>(values.workspace[chunk * slots + index]));
  return total.result();
}

int64_t Plan::partWords(size_t index, int64_t tensor) const {
  return kernel->reductions[index].scope == TDM_SCOPE_COLUMN
             ? tensors.sharding(tensor).rowLength
             : 1;
}

void Plan::writeColumns(size_t index, int64_t tensor, size_t node, uint32_t *to,
                        const Values &values) const {
  tdm_reduction_kind kind = kernel->reductions[index].kind;
  int64_t rows = layout.chunks[TDM_PER_ELEMENT].tiling(tensor).tileRows;
  auto [first, end] = tensors.tree(tensor).chunksOf(node, rows);
  int64_t count = partWords(index, tensor);
  if (first == end)
    std::fill_n(to, count, Total(kind).result());
  else
    std::copy_n(layout.axisParts.reduceParts(tensor, index, kind, first, end,
                                             values.axisParts),
                count, to);
}

void Plan::writePart(size_t index, int64_t tensor, size_t node, uint32_t *to,
                     const Values &values) const {
  const Reduction &reduction = kernel->reductions[index];
  if (reduction.scope == TDM_SCOPE_COLUMN)
    return writeColumns(index, tensor, node, to, values);
  const ShardTree &tree = tensors.tree(tensor);
  const ChunkTable &chunks = layout.chunks[kernel->phases[reduction.phase].per];
  int64_t before = chunks.firstOf(tensor);
  auto [first, end] = tree.chunksOf(node, chunks.leavesOf(tensor));
  // Without sums, chunks need not be leaves of the tree, so the first node gets
  // the parts of all chunks.
  if (reduction.kind != TDM_REDUCTION_SUM) {
    bool isFirst = node == tree.own().first;
    first = 0;
    end = isFirst ? chunks.firstOf(tensor + 1) - before : 0;
  }
  *to = reduceChunks(index, before + first, before + end, values);
}

void Plan::appendParts(size_t index, const Values &values) {
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor) {
    if (!isExchanged(index, tensor))
      continue;
    const ShardTree &tree = tensors.tree(tensor);
    int64_t count = partWords(index, tensor);
    uint32_t *place =
        words.append(tensors.sharding(tensor).group, tree.size() * count);
    for (size_t node = tree.own().first; node < tree.own().second; ++node)
      writePart(index, tensor, node, place + node * count, values);
  }
}

tdm_status Plan::exchangeParts(Phases phases, const Values &values) {
  words.clear();
  if (!layout.isExchanged)
    return TDM_OK;
  {
    FloatEnvironment environment;
    for (size_t i = 0; i < kernel->reductions.size(); ++i)
      if (isMadeAfter(phases, i))
        appendParts(i, values);
  }
  return exchangeWords();
}

void Plan::joinParts(size_t index, int64_t tensor, const Values &values) {
  const Reduction &reduction = kernel->reductions[index];
  const ShardTree &tree = tensors.tree(tensor);
  int64_t count = partWords(index, tensor);
  uint32_t *parts =
      words.take(tensors.sharding(tensor).group, tree.size() * count);
  tree.combine([&](size_t left, size_t right) {
    for (int64_t i = 0; i < count; ++i)
      parts[left * count + i] = join(reduction.kind, parts[left * count + i],
                                     parts[right * count + i]);
  });
  if (reduction.scope != TDM_SCOPE_COLUMN)
    values.totals[tensor * kernel->reductions.size() + index] = *parts;
  else if (tensors.elements(tensor))
    std::copy_n(parts, count,
                layout.axisParts.resultsOf(tensor, index, values.axisParts));
}

//===----------------------------------------------------------------------===//
// Metrics
//===----------------------------------------------------------------------===//

double Plan::chunkMetric(const uint64_t *workspace, int64_t metric,
                         int64_t first, int64_t end) const {
  PairwiseSum<double> sum;
  int64_t slot = kernel->reductions.size() + metric;
  int64_t slots = kernel->slotsPerChunk(kernel->lastPhase());
  for (int64_t chunk = first; chunk < end; ++chunk) {
    double part;
    std::memcpy(&part, &workspace[chunk * slots + slot], sizeof(part));
    sum.add(part);
  }
  return sum.result();
}

/// Appends this rank's metrics of a tensor's nodes to the words for all ranks.
void Plan::appendMetricParts(const uint64_t *workspace, int64_t tensor) {
  int64_t count = kernel->numMetrics;
  const ChunkTable &chunks = layout.chunks[TDM_PER_ELEMENT];
  const ShardTree &tree = tensors.tree(tensor);
  int64_t before = chunks.firstOf(tensor);
  uint32_t *place =
      words.append(tensors.sharding(tensor).group, 2 * count * tree.size());
  for (size_t node = tree.own().first; node < tree.own().second; ++node) {
    auto [first, end] = tree.chunksOf(node, chunks.leavesOf(tensor));
    for (int64_t metric = 0; metric < count; ++metric) {
      double part =
          chunkMetric(workspace, metric, before + first, before + end);
      std::memcpy(place + 2 * (node * count + metric), &part, sizeof(part));
    }
  }
}

void Plan::appendMetricParts(const uint64_t *workspace) {
  FloatEnvironment environment;
  words.clear();
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor)
    if (!tensors.tree(tensor).isWhole())
      appendMetricParts(workspace, tensor);
}

/// Computes a tensor's metrics from those of all ranks.
void Plan::joinMetricParts(int64_t tensor) {
  int64_t count = kernel->numMetrics;
  const ShardTree &tree = tensors.tree(tensor);
  std::vector<double> parts(count * tree.size());
  std::memcpy(parts.data(),
              words.take(tensors.sharding(tensor).group, 2 * parts.size()),
              parts.size() * sizeof(double));
  tree.combine([&](size_t left, size_t right) {
    for (int64_t metric = 0; metric < count; ++metric)
      parts[left * count + metric] += parts[right * count + metric];
  });
  std::copy_n(parts.data(), count, &shardMetrics[tensor * count]);
}

tdm_status Plan::exchangeMetrics(const uint64_t *workspace) {
  if (tdm_status status = checkExchange())
    return status;
  appendMetricParts(workspace);
  if (tdm_status status = exchangeWords())
    return status;
  FloatEnvironment environment;
  shardMetrics.assign(tensors.size() * kernel->numMetrics, -0.0);
  for (int64_t tensor = 0; tensor < tensors.size(); ++tensor)
    if (!tensors.tree(tensor).isWhole())
      joinMetricParts(tensor);
  return TDM_OK;
}
