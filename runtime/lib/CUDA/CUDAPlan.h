//===- CUDAPlan.h - Plans on a GPU ------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares plans on a GPU, whose tables stay in its memory as long as
// the list of tensors does not change.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_CUDAPLAN_H
#define TANDEM_RUNTIME_LIB_CUDA_CUDAPLAN_H

#include "CUDAExecutable.h"
#include "Plan.h"
#include "Staging.h"

namespace tandem::runtime::cuda {

/// All data that a plan has in the device's memory, in one allocation.
struct Tables {
  DeviceMemory memory;
  /// The part that the host writes comes first: the words of flags, the records
  /// of tensors, then the records of chunks.
  Address words = 0, tensors = 0, chunks[numGranularities] = {}, bands = 0;
  /// The size of the host's part in bytes, and of what precedes its chunks.
  size_t hostBytes = 0, headBytes = 0;
  Address scalars = 0, workspace = 0, totals = 0, axisParts = 0;
  /// The number of rows that there is room for.
  int64_t scalarRows = 0;
  /// Whether launches have used the tables, and whether a captured graph will.
  bool isUsed = false, isCaptured = false;

  /// Lays out the tables from address 0 and returns their size in bytes.
  size_t arrange(const Kernel &kernel, const TensorTable &tensors,
                 const Layout &layout);
  /// Moves the tables into memory that is large enough.
  void settle(DeviceMemory &&room);
  tdm_status allocate(const std::shared_ptr<const CUDADevice> &device,
                      const Kernel &kernel, const TensorTable &tensors,
                      const Layout &layout);
};

/// A plan on a GPU.
class CUDAPlan : public Plan {
public:
  CUDAPlan(std::shared_ptr<const Kernel> kernel,
           const CUDAExecutable &executable)
      : Plan(std::move(kernel)), executable(executable),
        device(executable.device), driver(device->driver) {}

  tdm_status launch(const double *hypers, const int64_t *integers, int64_t rows,
                    int32_t threads, tdm_launch_info *info) override;
  tdm_status launchAsync(const tdm_async_args &args) override;

private:
  /// The arguments that all kernels of a launch share.
  struct Launch {
    Stream stream;
    Address flags;
  };

  tdm_status place(const Layout *next) override;
  tdm_status replaceTables(const Layout &next);
  Places getPlaces() override;
  CutLimits getCutLimits() const override;
  /// Returns the number of bytes of the L2 cache that a band can use.
  int64_t getBandBytes() const;
  tdm_status readWorkspace(const uint64_t *&slots) override;
  tdm_status readFlags(uint32_t &flags) override;
  tdm_status readTotal(int64_t index, uint32_t &total) override;

  tdm_status checkAsync(const tdm_async_args &args) const;
  tdm_status launchOn(const tdm_async_args &args);
  tdm_status checkCapture(const tdm_async_args &args, bool isCapturing) const;
  /// Updates the tables in the device's memory to the plan's tensors.
  tdm_status upload(Stream stream, bool isCapturing);
  tdm_status uploadAhead();
  /// Enqueues a copy of the first \p bytes of the host's part of the tables
  /// from a staging buffer.
  tdm_status copyTables(Stream stream, size_t bytes, SharedMemory *&buffer);
  void writeHostPart(char *place, size_t bytes) const;
  /// Clears the first word of flags and sets the second, which tells whether to
  /// skip the launch.
  tdm_status prepareFlags(const tdm_async_args &args, Launch &launch);
  tdm_status collectFlags(const tdm_async_args &args, Launch launch);
  tdm_status runPrologue(const tdm_async_args &args, Launch launch);
  /// Runs the phases of one launch.
  tdm_status runPhases(Phases phases, Launch launch);
  /// Exchanges the parts that phases have computed with other ranks, which
  /// waits for the device.
  tdm_status exchangeAfter(Phases phases);
  bool exchangesColumns() const;
  tdm_status downloadParts();
  /// Overwrites the totals that were computed from this rank's shards with
  /// those of all ranks: for each tensor, or for each column.
  tdm_status writeTotals(uint32_t phase);
  tdm_status writeColumns(uint32_t phase);
  /// Computes the totals of a phase's reductions, except for rows if their
  /// totals are already known.
  tdm_status runTotals(uint32_t phase, bool areRowsKnown, Launch launch);
  tdm_status runEpilogues(Launch launch);
  /// Run a part over the chunks of a table, or over tensors.
  tdm_status runChunks(const Part &part, tdm_granularity per, Launch launch);
  tdm_status runTensors(const Part &part, int64_t perBlock, Launch launch);
  tdm_status run(const Part &part, int64_t blocks, int64_t count,
                 Address chunks, Launch launch);
  tdm_status download(void *to, Address from, size_t bytes);
  tdm_status write(Address to, const void *from, size_t bytes);

  const CUDAExecutable &executable;
  const std::shared_ptr<const CUDADevice> device;
  const Driver &driver;
  Tables tables;
  /// Earlier tables that captured graphs still read.
  std::vector<Tables> retired;
  /// Whether the records of tensors, or all records, have yet to be copied to
  /// the tables.
  bool isStale = false, isEmpty = false;
  /// The memory for the flags and the parts of the latest launch.
  Address latestFlags = 0, latestWorkspace = 0;
  std::vector<uint64_t> downloaded;
  /// The totals and parts of sharded tensors' reductions.
  std::vector<uint32_t> hostTotals, hostParts;
  StagingBuffers staging;
  ArgumentRing arguments;
};

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_CUDAPLAN_H
