//===- Evaluator.h - Executes emitted PTX without a GPU ---------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares an evaluator for the PTX subset that Tandem's kernels use.
// It computes floats with SoftFloat and integers exactly, and accesses the
// host's memory within buffers that the caller names. Anything that the
// evaluator does not know is an error that names the line.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_REFERENCE_PTX_EVALUATOR_H
#define TANDEM_REFERENCE_PTX_EVALUATOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem::reference {

namespace ptx {
struct Kernel;
} // namespace ptx

/// The host buffers that a launch may touch.
class MemoryMap {
public:
  struct Region {
    uint64_t begin;
    uint64_t size;
    bool writable;
    std::string name;

    uint64_t end() const { return begin + size; }
  };

  /// Registers a buffer; `name` appears in messages. Overlapping an earlier one
  /// is an error.
  llvm::Error addWritable(llvm::StringRef name, void *data, uint64_t size);
  llvm::Error addReadOnly(llvm::StringRef name, const void *data,
                          uint64_t size);

  /// Returns the last region that begins at or before `address`, or null.
  const Region *findAtOrBefore(uint64_t address) const;

  /// Returns whether the bytes lie in one region, which must be writable if
  /// `needsWrite`.
  bool allows(uint64_t address, unsigned bytes, bool needsWrite) const;

  /// Returns the reason why `allows` refused.
  std::string explain(uint64_t address, unsigned bytes, bool needsWrite) const;

private:
  llvm::Error add(Region region);

  /// Sorted by address.
  std::vector<Region> regions;
};

/// A grid or block size, or an index in one.
struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;

  uint64_t count() const { return uint64_t(x) * y * z; }
};

/// Counts of what a launch executed, summed over threads; later launches add to
/// them.
struct ExecutionStatistics {
  /// The number of times that each opcode, modifiers included, ran with a true
  /// guard.
  llvm::StringMap<uint64_t> executed;
  uint64_t instructions = 0;
  uint64_t bytesLoaded = 0;
  uint64_t bytesStored = 0;

  uint64_t get(llvm::StringRef opcode) const { return executed.lookup(opcode); }
};

/// A parsed and decoded PTX module. Copies share the code.
class PTXModule {
public:
  /// Decodes a whole module. An unknown instruction is an error that names the
  /// line.
  static llvm::Expected<PTXModule> parse(llvm::StringRef text);

  /// Returns the `.target` of the module, for example "sm_90".
  llvm::StringRef getTarget() const { return target; }
  std::vector<std::string> getKernelNames() const;
  /// Returns the number of bytes of each of a kernel's parameters.
  std::vector<unsigned> getParameterSizes(llvm::StringRef kernel) const;
  /// Returns the number of times that each opcode occurs in a kernel's text.
  llvm::StringMap<uint64_t> getStaticCounts(llvm::StringRef kernel) const;

  /// Runs a kernel, block after block. `params` holds the bits of each
  /// parameter. A fault stops the launch and names instruction and thread.
  llvm::Error launch(llvm::StringRef kernel, llvm::ArrayRef<uint64_t> params,
                     Dim3 grid, Dim3 block, const MemoryMap &memory,
                     ExecutionStatistics *statistics = nullptr) const;

  /// Sets the number of instructions beyond which a thread is an endless loop.
  void setInstructionLimit(uint64_t limit) { instructionLimit = limit; }

private:
  std::string target;
  std::vector<std::shared_ptr<const ptx::Kernel>> kernels;
  uint64_t instructionLimit = uint64_t(1) << 32;
};

} // namespace tandem::reference

#endif // TANDEM_REFERENCE_PTX_EVALUATOR_H
