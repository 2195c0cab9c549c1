//===- CUDAPlan.cpp - Plans on a GPU --------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements plans on a GPU.
//
//===----------------------------------------------------------------------===//

#include "CUDAPlan.h"

#include "CPU/FloatEnvironment.h"

#include <algorithm>
#include <cstring>

using namespace tandem::runtime;
using namespace tandem::runtime::cuda;

/// The words of flags: two pairs of 16 bytes each. A launch that cannot be
/// skipped uses the second pair, whose second word is always 0.
static constexpr size_t pairBytes = 16, wordsBytes = 2 * pairBytes;

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

size_t Tables::arrange(const Kernel &kernel, const TensorTable &table,
                       const Layout &layout) {
  size_t size = 0;
  // Kernels load vectors from the tables.
  auto add = [&](size_t bytes) {
    size_t begin = (size + 255) / 256 * 256;
    size = begin + bytes;
    return begin;
  };
  words = add(wordsBytes);
  tensors = add(table.bytes());
  headBytes = size;
  for (int per = 0; per < numGranularities; ++per)
    chunks[per] = add(layout.chunks[per].bytes());
  bands = add(layout.bands.bytes());
  hostBytes = size;
  scalarRows = table.scalarRows();
  scalars = add(scalarRows * kernel.numScalars * sizeof(uint32_t));
  workspace = add(layout.workspaceSlots * sizeof(uint64_t));
  totals = add(layout.numTotals * sizeof(uint32_t));
  axisParts = add(layout.axisParts.size() * sizeof(uint32_t));
  return size;
}

void Tables::settle(DeviceMemory &&room) {
  memory = std::move(room);
  for (Address *address :
       {&words, &tensors, &bands, &scalars, &workspace, &totals, &axisParts})
    *address += memory.address();
  for (Address &table : chunks)
    table += memory.address();
}

tdm_status Tables::allocate(const std::shared_ptr<const CUDADevice> &device,
                            const Kernel &kernel, const TensorTable &table,
                            const Layout &layout) {
  DeviceMemory room;
  if (tdm_status status = room.allocate(device, arrange(kernel, table, layout)))
    return status;
  settle(std::move(room));
  return TDM_OK;
}

tdm_status CUDAPlan::place(const Layout *next) {
  bool fits = !next && tables.memory.address() && !tables.isCaptured &&
              staged.scalarRows() <= tables.scalarRows;
  isStale = true;
  if (fits)
    return TDM_OK;
  if (tables.isCaptured)
    retired.reserve(retired.size() + 1);
  return device->inContext(
      [&] { return replaceTables(next ? *next : layout); });
}

tdm_status CUDAPlan::replaceTables(const Layout &next) {
  Tables fresh;
  DeviceMemory room;
  size_t size = fresh.arrange(*kernel, staged, next);
  if (!tables.isCaptured && size <= tables.memory.size()) {
    // Copies to the tables and launches that read them follow each other in a
    // stream, whereas freeing memory would wait for all of them.
    room = std::move(tables.memory);
    fresh.isUsed = tables.isUsed;
  } else if (tdm_status status = room.allocate(device, size)) {
    return status;
  }
  fresh.settle(std::move(room));
  if (tables.isCaptured)
    retired.push_back(std::move(tables));
  else
    launched = false;
  tables = std::move(fresh);
  isEmpty = true;
  return TDM_OK;
}

Plan::Places CUDAPlan::getPlaces() {
  return {reinterpret_cast<tdm_launch_total *>(tables.totals),
          reinterpret_cast<tdm_launch_total *>(tables.axisParts)};
}

/// The bands of all blocks that run at a time share the L2 cache. A quarter of
/// it is left for what they write and for other streams.
int64_t CUDAPlan::getBandBytes() const {
  int64_t mostBlocks = 1;
  for (const PhaseParts &parts : executable.phases)
    if (parts.bands.function)
      mostBlocks = std::max(mostBlocks, parts.bands.mostBlocks);
  return device->getCacheBytes() / 4 * 3 / mostBlocks;
}

CutLimits CUDAPlan::getCutLimits() const {
  // With eight blocks per multiprocessor, each block gets several chunks, so
  // that none waits long for the others at the end. A tile costs more to start,
  // and it writes a part of each column's sum, which should be few compared
  // with the elements of the column.
  int64_t perMultiprocessor = 64;
  if (kernel->matrix)
    perMultiprocessor = kernel->reducesColumns() ? 4 : 16;
  // Kernels store eight transposed rows at once.
  int64_t minRows = kernel->transposes ? 8 : 1;
  return {device->getMultiprocessors() * perMultiprocessor,
          TDM_LAUNCH_TILE_ROWS_GPU, minRows, getBandBytes()};
}

//===----------------------------------------------------------------------===//
// Upload
//===----------------------------------------------------------------------===//

void CUDAPlan::writeHostPart(char *place, size_t bytes) const {
  auto write = [&](Address at, const void *data, size_t size) {
    if (size)
      std::memcpy(place + (at - tables.words), data, size);
  };
  std::memset(place, 0, wordsBytes);
  write(tables.tensors, tensors.data(), tensors.bytes());
  if (bytes != tables.hostBytes)
    return;
  for (int per = 0; per < numGranularities; ++per)
    write(tables.chunks[per], layout.chunks[per].data(),
          layout.chunks[per].bytes());
  write(tables.bands, layout.bands.data(), layout.bands.bytes());
}

tdm_status CUDAPlan::copyTables(Stream stream, size_t bytes,
                                SharedMemory *&buffer) {
  if (tdm_status status = staging.take(device, bytes, buffer))
    return status;
  writeHostPart(buffer->data(), bytes);
  if (tdm_status status =
          driver.call(driver.memcpyHtoDAsync, tables.words,
                      static_cast<const void *>(buffer->data()), bytes, stream))
    return status;
  tdm_status status = buffer->use(stream);
  // A buffer that is not marked as in use must be free immediately.
  if (status)
    driver.streamSynchronize(stream);
  return status;
}

tdm_status CUDAPlan::upload(Stream stream, bool isCapturing) {
  if (!isStale)
    return TDM_OK;
  if (isCapturing)
    return uploadAhead();
  SharedMemory *buffer = nullptr;
  size_t bytes = isEmpty ? tables.hostBytes : tables.headBytes;
  if (tdm_status status = copyTables(stream, bytes, buffer))
    return status;
  isStale = isEmpty = false;
  return TDM_OK;
}

/// Copies the tables now, so that a graph does not repeat the copy whenever it
/// is launched.
tdm_status CUDAPlan::uploadAhead() {
  if (tables.isUsed) {
    // Earlier launches may still read the old tables.
    Tables fresh;
    retired.reserve(retired.size() + 1);
    if (tdm_status status = fresh.allocate(device, *kernel, tensors, layout))
      return status;
    retired.push_back(std::move(tables));
    tables = std::move(fresh);
    linkTensors();
  }
  SharedMemory *buffer = nullptr;
  if (tdm_status status =
          copyTables(device->getCopyStream(), tables.hostBytes, buffer))
    return status;
  if (tdm_status status = buffer->wait())
    return status;
  isStale = isEmpty = false;
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

tdm_status CUDAPlan::run(const Part &part, int64_t blocks, int64_t count,
                         Address chunks, Launch launch) {
  if (!count)
    return TDM_OK;
  int64_t begin = 0;
  void *parameters[] = {
      &tables.tensors, &chunks, &tables.scalars, &tables.workspace,
      &launch.flags,   &begin,  &count};
  auto grid = static_cast<unsigned>(std::min(blocks, part.mostBlocks));
  return driver.call(driver.launchKernel, part.function, grid, 1u, 1u,
                     unsigned(blockThreads), 1u, 1u, 0u, launch.stream,
                     parameters, nullptr);
}

tdm_status CUDAPlan::runChunks(const Part &part, tdm_granularity per,
                               Launch launch) {
  int64_t count = layout.chunks[per].size();
  return run(part, count, count, tables.chunks[per], launch);
}

tdm_status CUDAPlan::runTensors(const Part &part, int64_t perBlock,
                                Launch launch) {
  int64_t count = tensors.size();
  return run(part, (count + perBlock - 1) / perBlock, count, tables.chunks[0],
             launch);
}

tdm_status CUDAPlan::runPhases(Phases phases, Launch launch) {
  const PhaseParts &parts = executable.phases[phases.first];
  int64_t bands = layout.bands.size();
  if (tdm_status status =
          phases.areByRows()
              ? run(parts.bands, bands, bands, tables.bands, launch)
              : runChunks(parts.entry, kernel->phases[phases.first].per,
                          launch))
    return status;
  if (tdm_status status = exchangeAfter(phases))
    return status;
  for (uint32_t phase = phases.first; phase < phases.end; ++phase)
    if (tdm_status status = runTotals(phase, phases.areByRows(), launch))
      return status;
  return callExternals(phases, launch.stream);
}

tdm_status CUDAPlan::runTotals(uint32_t phase, bool areRowsKnown,
                               Launch launch) {
  const PhaseParts &parts = executable.phases[phase];
  if (parts.totals.function)
    if (tdm_status status = runTensors(parts.totals, 1, launch))
      return status;
  if (tdm_status status = writeTotals(phase))
    return status;
  if (parts.model.function)
    if (tdm_status status =
            run(parts.model, 1, tensors.size(), tables.chunks[0], launch))
      return status;
  if (parts.rowTotals.function && !areRowsKnown)
    if (tdm_status status = runChunks(parts.rowTotals, TDM_PER_ROW, launch))
      return status;
  if (parts.columnTotals.function)
    if (tdm_status status =
            runChunks(parts.columnTotals, TDM_PER_COLUMN, launch))
      return status;
  return writeColumns(phase);
}

tdm_status CUDAPlan::runEpilogues(Launch launch) {
  for (const EpiloguePart &epilogue : executable.epilogues) {
    tdm_status status = epilogue.per == TDM_PER_ELEMENT
                            ? runTensors(epilogue.part, blockThreads, launch)
                            : runChunks(epilogue.part, epilogue.per, launch);
    if (status)
      return status;
  }
  return TDM_OK;
}

tdm_status CUDAPlan::runPrologue(const tdm_async_args &args, Launch launch) {
  int64_t rows = usedRows();
  if (!rows)
    return TDM_OK;
  const void *hypers = args.hypers, *integers = args.integers;
  size_t hyperBytes = rows * kernel->hypers.size() * sizeof(double);
  size_t integerBytes = rows * kernel->integers.size() * sizeof(int64_t);
  // Scalars may be constants, which need no arguments.
  bool takesArguments = !args.on_device && hyperBytes + integerBytes;
  if (takesArguments) {
    char *place = nullptr;
    if (tdm_status status =
            arguments.take(device, hyperBytes + integerBytes, place))
      return status;
    if (hyperBytes)
      std::memcpy(place, hypers, hyperBytes);
    if (integerBytes)
      std::memcpy(place + hyperBytes, integers, integerBytes);
    hypers = place;
    integers = place + hyperBytes;
  }
  void *parameters[] = {&hypers, &integers, &tables.scalars, &rows};
  if (tdm_status status =
          driver.call(driver.launchKernel, executable.prologue.function, 1u, 1u,
                      1u, 1u, 1u, 1u, 0u, launch.stream, parameters, nullptr))
    return status;
  return takesArguments ? arguments.use(launch.stream) : TDM_OK;
}

//===----------------------------------------------------------------------===//
// Exchange between ranks
//===----------------------------------------------------------------------===//

bool CUDAPlan::exchangesColumns() const {
  return layout.isExchanged && kernel->reducesColumns();
}

/// Downloads the parts of reductions. The host needs those of columns only if
/// they are exchanged between ranks.
tdm_status CUDAPlan::downloadParts() {
  downloaded.resize(layout.workspaceSlots);
  hostTotals.resize(layout.numTotals);
  if (tdm_status status = download(downloaded.data(), tables.workspace,
                                   downloaded.size() * sizeof(uint64_t)))
    return status;
  if (!exchangesColumns())
    return TDM_OK;
  hostParts.resize(layout.axisParts.size());
  return download(hostParts.data(), tables.axisParts,
                  hostParts.size() * sizeof(uint32_t));
}

tdm_status CUDAPlan::exchangeAfter(Phases phases) {
  auto goesToRanks = [&](size_t i) {
    return isMadeAfter(phases, i) && kernel->spansShards(kernel->reductions[i]);
  };
  size_t count = kernel->reductions.size(), first = 0;
  while (first < count && !goesToRanks(first))
    ++first;
  if (!layout.isExchanged || first == count)
    return TDM_OK;
  if (tdm_status status = downloadParts())
    return status;
  Values values{downloaded.data(), hostTotals.data(), hostParts.data()};
  if (tdm_status status = exchangeParts(phases, values))
    return status;
  FloatEnvironment environment;
  for (size_t i = first; i < count; ++i)
    for (int64_t tensor = 0; goesToRanks(i) && tensor < tensors.size();
         ++tensor)
      if (isExchanged(i, tensor))
        joinParts(i, tensor, values);
  return TDM_OK;
}

tdm_status CUDAPlan::writeTotals(uint32_t phase) {
  size_t count = kernel->reductions.size(), bytes = hostTotals.size() * 4;
  auto isOfPhase = [&](const Reduction &reduction) {
    return reduction.phase == phase && !reduction.isWithinMatrix() &&
           kernel->spansShards(reduction);
  };
  const auto &all = kernel->reductions;
  if (!layout.isExchanged || std::none_of(all.begin(), all.end(), isOfPhase))
    return TDM_OK;
  std::vector<uint32_t> merged(layout.numTotals);
  if (tdm_status status = download(merged.data(), tables.totals, bytes))
    return status;
  for (size_t i = 0; i < merged.size(); ++i)
    if (isOfPhase(all[i % count]) && isExchanged(i % count, i / count))
      merged[i] = hostTotals[i];
  return write(tables.totals, merged.data(), bytes);
}

tdm_status CUDAPlan::writeColumns(uint32_t phase) {
  for (size_t i = 0; exchangesColumns() && i < kernel->reductions.size(); ++i) {
    const Reduction &reduction = kernel->reductions[i];
    if (reduction.phase != phase || reduction.scope != TDM_SCOPE_COLUMN)
      continue;
    for (int64_t tensor = 0; tensor < tensors.size(); ++tensor) {
      if (!isExchanged(i, tensor) || !tensors.elements(tensor))
        continue;
      uint32_t *from = layout.axisParts.resultsOf(tensor, i, hostParts.data());
      Address to = tables.axisParts + (from - hostParts.data()) * 4;
      if (tdm_status status = write(to, from, tensors.columns(tensor) * 4))
        return status;
    }
  }
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Prepares the flags of a launch that decide whether other launches are
/// skipped.
tdm_status CUDAPlan::collectFlags(const tdm_async_args &args, Launch launch) {
  auto skip = reinterpret_cast<Address>(args.skip);
  size_t kept = skip ? 1 : 0;
  if (skip && skip != launch.flags)
    if (tdm_status status = driver.call(driver.memcpyDtoDAsync, launch.flags,
                                        skip, sizeof(uint32_t), launch.stream))
      return status;
  return driver.call(driver.memsetD32Async,
                     launch.flags + kept * sizeof(uint32_t), 0u, 2 - kept,
                     launch.stream);
}

tdm_status CUDAPlan::prepareFlags(const tdm_async_args &args, Launch &launch) {
  launch.flags = args.flags ? reinterpret_cast<Address>(args.flags)
                            : tables.words + (args.skip ? 0 : pairBytes);
  latestFlags = launch.flags;
  latestWorkspace = tables.workspace;
  if (args.flags)
    return collectFlags(args, launch);
  if (executable.flags)
    if (tdm_status status = driver.call(driver.memsetD32Async, launch.flags, 0u,
                                        size_t(1), launch.stream))
      return status;
  if (!args.skip)
    return TDM_OK;
  return driver.call(driver.memcpyDtoDAsync, launch.flags + sizeof(uint32_t),
                     reinterpret_cast<Address>(args.skip), sizeof(uint32_t),
                     launch.stream);
}

tdm_status CUDAPlan::checkCapture(const tdm_async_args &args,
                                  bool isCapturing) const {
  if (isCapturing && layout.isExchanged)
    return kernel->fail(TDM_INVALID_STATE)
           << "the stream is being captured, but tensors are sharded, and the "
           << "host exchanges between ranks what the kernel reduces; launch it "
           << "outside of the graph";
  bool hasArguments = !kernel->hypers.empty() || !kernel->integers.empty();
  if (isCapturing && hasArguments && usedRows() && !args.on_device)
    return kernel->fail(TDM_INVALID_STATE)
           << "the stream is being captured, and a graph would repeat the "
           << "hyperparameters of this call; pass them in the device's memory";
  return TDM_OK;
}

tdm_status CUDAPlan::checkAsync(const tdm_async_args &args) const {
  bool areGiven = (args.hypers || kernel->hypers.empty()) &&
                  (args.integers || kernel->integers.empty());
  if (reinterpret_cast<Address>(args.flags) % sizeof(uint32_t))
    return kernel->fail(TDM_INVALID_ARGUMENT)
           << "flags is at " << args.flags
           << ", which is not aligned to words of 4 bytes; align it";
  // Arguments that lie on the device cannot be checked here.
  int64_t rows = args.on_device && areGiven ? 0 : args.rows;
  if (tdm_status status =
          kernel->checkArguments(args.hypers, args.integers, rows))
    return status;
  if (tdm_status status = checkHost())
    return status;
  return checkRows(args.rows);
}

tdm_status CUDAPlan::launchOn(const tdm_async_args &args) {
  // A plan that has never had tensors has no tables.
  if (!tables.memory.address())
    return TDM_OK;
  Launch launch{static_cast<Stream>(args.stream), 0};
  CaptureStatus capture = CaptureStatus::None;
  if (tdm_status status =
          driver.call(driver.streamIsCapturing, launch.stream, &capture))
    return status;
  bool isCapturing = capture != CaptureStatus::None;
  if (tdm_status status = checkCapture(args, isCapturing))
    return status;
  if (tdm_status status = upload(launch.stream, isCapturing))
    return status;
  tables.isUsed = true;
  tables.isCaptured |= isCapturing;
  if (tdm_status status = prepareFlags(args, launch))
    return status;
  if (tdm_status status = runPrologue(args, launch))
    return status;
  for (Phases phases = launchFrom(0); phases.first < executable.phases.size();
       phases = launchFrom(phases.end))
    if (tdm_status status = runPhases(phases, launch))
      return status;
  return runEpilogues(launch);
}

tdm_status CUDAPlan::launchAsync(const tdm_async_args &args) {
  if (tdm_status status = checkAsync(args))
    return status;
  if (tdm_status status = device->inContext([&] { return launchOn(args); }))
    return status;
  launched = true;
  return TDM_OK;
}

tdm_status CUDAPlan::launch(const double *hypers, const int64_t *integers,
                            int64_t rows, int32_t threads,
                            tdm_launch_info *info) {
  if (tdm_status status = checkLaunch(rows, threads, info))
    return status;
  tdm_async_args args = {sizeof(args), nullptr, hypers,  integers,
                         rows,         0,       nullptr, nullptr};
  if (tdm_status status = launchAsync(args))
    return status;
  if (tdm_status status = device->inContext(
          [&] { return driver.call(driver.streamSynchronize, Stream()); }))
    return status;
  if (!info)
    return TDM_OK;
  info->threads = 0;
  info->chunks = layout.chunks[TDM_PER_ELEMENT].size();
  return readFlags(info->flags);
}

//===----------------------------------------------------------------------===//
// Results of launches
//===----------------------------------------------------------------------===//

tdm_status CUDAPlan::download(void *to, Address from, size_t bytes) {
  return device->copy(to, reinterpret_cast<const void *>(from), bytes);
}

tdm_status CUDAPlan::write(Address to, const void *from, size_t bytes) {
  return device->copy(reinterpret_cast<void *>(to), from, bytes);
}

tdm_status CUDAPlan::readTotal(int64_t index, uint32_t &total) {
  return download(&total, tables.totals + index * sizeof(total), sizeof(total));
}

tdm_status CUDAPlan::readFlags(uint32_t &flags) {
  uint32_t raised = 0;
  if (executable.flags && latestFlags)
    if (tdm_status status = download(&raised, latestFlags, sizeof(raised)))
      return status;
  flags = raised;
  return TDM_OK;
}

tdm_status CUDAPlan::readWorkspace(const uint64_t *&slots) {
  downloaded.resize(layout.workspaceSlots);
  slots = downloaded.data();
  return download(downloaded.data(), latestWorkspace,
                  downloaded.size() * sizeof(uint64_t));
}
