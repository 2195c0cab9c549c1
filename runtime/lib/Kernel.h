//===- Kernel.h - A compiled kernel and its description ---------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the checked copy of a kernel description.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_KERNEL_H
#define TANDEM_RUNTIME_LIB_KERNEL_H

#include "Device.h"
#include "tandem-runtime/tandem_package.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace tandem::runtime {

class Plan;

/// The consecutive rows, or columns, that share an entry of a plane: a power of
/// two, TDM_WHOLE_AXIS for all of them, or 0 if entries are those of the other
/// axis.
class EntrySpan {
public:
  explicit EntrySpan(int64_t size);

  int64_t size() const { return count; }
  bool areAll() const { return !count || count == TDM_WHOLE_AXIS; }
  /// Returns the number of entries for a number of rows or columns, without a
  /// division, since updates must be fast.
  int64_t entriesFor(int64_t places) const {
    return count ? (places >> shift) + ((places & (count - 1)) != 0) : 1;
  }

private:
  int64_t count;
  /// The binary logarithm of the count.
  int shift = 0;
};

/// One array of a tensor.
struct Plane {
  std::string name;
  int64_t bits;
  bool written;
  /// The rows and the columns that share an entry.
  EntrySpan rows, columns;
  /// Values of an entry.
  int64_t values;
  /// The elements of a tensor, at most, whose bytes can be counted.
  int64_t maxElements;

  bool isWholeTensor() const { return rows.size() == TDM_WHOLE_AXIS; }

  /// The bytes that an element is aligned to, a power of two.
  int64_t alignment() const { return bits < 8 ? 1 : bits / 8; }
};

/// The number of tdm_granularity values, each of which has chunks of its own.
constexpr int numGranularities = TDM_NUM_VALUES(TDM_GRANULARITIES);

/// A hyperparameter and its domain.
struct Hyper {
  std::string name;
  double min, max;
  bool minOpen, maxOpen;
  double minPositive;

  /// Whether \p value lies inside of the ends, which NaN never does.
  bool contains(double value) const;
};

/// An integer argument.
struct Integer {
  std::string name;
  int64_t min;
};

/// A reduction over a tensor, the model, or each row or column.
struct Reduction {
  tdm_reduction_kind kind;
  uint32_t phase;
  tdm_scope scope;

  bool isAlongAxis() const {
    return scope == TDM_SCOPE_ROW || scope == TDM_SCOPE_COLUMN;
  }
  /// Whether a matrix has several results of it.
  bool isWithinMatrix() const {
    return isAlongAxis() || scope == TDM_SCOPE_BLOCK;
  }
};

/// The code of a kernel on a device.
class Executable {
public:
  virtual ~Executable() = default;

  virtual std::unique_ptr<Plan>
  createPlan(std::shared_ptr<const Kernel> kernel) const = 0;
};

/// A part of the kernel that runs over all chunks of elements, rows or columns.
struct Phase {
  tdm_granularity per;
  /// Whether it can run over some rows when the phase before it has.
  bool fusedWithPrevious = false;
};

/// A kernel, immutable once it is created.
struct Kernel {
  std::string name;
  std::vector<Plane> planes;
  std::vector<Hyper> hypers;
  std::vector<Integer> integers;
  int64_t numScalars;
  int64_t numMetrics;
  /// The phases, of which the last one writes.
  std::vector<Phase> phases;
  std::vector<Reduction> reductions;
  /// Whether the order of a reduction's elements matters.
  bool hasSums() const {
    return std::any_of(reductions.begin(), reductions.end(),
                       [](const Reduction &reduction) {
                         return reduction.kind == TDM_REDUCTION_SUM;
                       });
  }
  /// Whether the shards of a tensor have to tell each other their parts of a
  /// reduction: not those of whole rows or blocks, or of what all shards have.
  bool spansShards(const Reduction &reduction) const {
    if (reduction.isWithinMatrix())
      return reduction.scope == TDM_SCOPE_COLUMN;
    return phases[reduction.phase].per != TDM_PER_COLUMN;
  }
  /// Whether shards of tensors have anything to tell each other.
  bool spansShards() const {
    return numMetrics || std::any_of(reductions.begin(), reductions.end(),
                                     [&](const Reduction &reduction) {
                                       return spansShards(reduction);
                                     });
  }
  /// Whether the code knows how many rows an unsharded tensor has.
  bool knowsWholeSize = true;
  bool matrix;
  /// Whether any plane is transposed.
  bool transposes = false;
  /// The rows and columns of a block, or 0.
  int64_t block;
  std::shared_ptr<const Executable> executable;

  uint32_t lastPhase() const {
    return static_cast<uint32_t>(phases.size()) - 1;
  }
  /// The phase after those that can be one launch, which begins with \p phase.
  uint32_t endOfLaunch(uint32_t phase) const {
    do
      ++phase;
    while (phase < phases.size() && phases[phase].fusedWithPrevious);
    return phase;
  }
  /// Whether any phase is fused with the previous one.
  bool hasFusedPhases() const {
    return std::any_of(phases.begin(), phases.end(), [](const Phase &phase) {
      return phase.fusedWithPrevious;
    });
  }
  /// Whether any reduction is along columns.
  bool reducesColumns() const {
    return std::any_of(reductions.begin(), reductions.end(),
                       [](const Reduction &reduction) {
                         return reduction.scope == TDM_SCOPE_COLUMN;
                       });
  }
  /// Slots of 8 bytes that each chunk has in a phase; only the last measures.
  int64_t slotsPerChunk(uint32_t phase) const {
    int64_t parts = static_cast<int64_t>(reductions.size());
    return phase == lastPhase() ? parts + numMetrics : parts;
  }

  /// The most rows of arguments that a launch takes.
  static constexpr int64_t maxRows = int64_t(1) << 31;

  /// A plane's name in a message.
  PlaneName getPlaneName(int64_t plane) const {
    return {plane, planes[plane].name.c_str()};
  }

  /// A failure whose message begins with the kernel's name.
  Failure fail(tdm_status status) const;
  /// Puts the kernel's name before the latest failure's message.
  tdm_status failAgain(tdm_status status) const;
  /// The failure of code that lacks a function.
  tdm_status failMissing(const char *function) const;

  /// Checks \p rows rows of arguments against their domains.
  tdm_status checkArguments(const double *hypers, const int64_t *integers,
                            int64_t rows) const;

private:
  tdm_status checkHyper(size_t index, double value, int64_t row) const;
  tdm_status checkInteger(size_t index, int64_t value, int64_t row) const;
};

/// Checks \p desc, which has its code, and copies it to \p kernel.
tdm_status createKernel(const tdm_kernel_desc *desc,
                        std::shared_ptr<const Kernel> &kernel);

/// Checks what \p info says of a kernel, and copies it, without code.
tdm_status describeKernel(const tdm_kernel_info &info, Kernel &kernel);

/// Creates the kernel on a device. Images for a target other than \p target are
/// passed over, unless it is NULL.
tdm_status loadKernel(const tdm_device &device, const tdm_kernel_info &info,
                      const char *target,
                      std::shared_ptr<const Kernel> &kernel);

} // namespace tandem::runtime

/// The C interface's handle. Plans share the kernel.
struct tdm_kernel {
  std::shared_ptr<const tandem::runtime::Kernel> kernel;
};

#endif // TANDEM_RUNTIME_LIB_KERNEL_H
