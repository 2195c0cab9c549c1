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

/// The number of consecutive rows, or columns, that share an entry of a plane:
/// a power of two, TDM_WHOLE_AXIS for all of them, or 0 if the plane has
/// entries only for the other axis.
class EntrySpan {
public:
  explicit EntrySpan(int64_t size);

  int64_t size() const { return count; }
  bool areAll() const { return !count || count == TDM_WHOLE_AXIS; }
  /// Returns the number of entries for a number of rows or columns. It does not
  /// divide, since updates must be fast.
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
  tdm_role kind;
  /// The numbers of rows and of columns that share an entry.
  EntrySpan rows, columns;
  /// The number of values in an entry.
  int64_t values;
  /// The number of elements from which the size of a tensor in bytes may
  /// overflow.
  int64_t maxElements;

  bool isWholeTensor() const { return rows.size() == TDM_WHOLE_AXIS; }

  /// Returns the alignment of an element in bytes, a power of two.
  int64_t alignment() const { return bits < 8 ? 1 : bits / 8; }
};

/// The number of tdm_granularity values, each of which has its own chunks.
constexpr int numGranularities = TDM_NUM_VALUES(TDM_GRANULARITIES);

/// A hyperparameter and its domain.
struct Hyper {
  std::string name;
  double min, max;
  bool minOpen, maxOpen;
  double minPositive;

  /// Returns whether \p value is in the domain, which NaN never is.
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
  /// Returns whether the reduction has several results for a matrix.
  bool isWithinMatrix() const {
    return isAlongAxis() || scope == TDM_SCOPE_BLOCK;
  }
};

/// A step that the host computes after a phase.
struct External {
  std::string name;
  uint32_t phase;
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
  /// Whether it can run over some rows as soon as the phase before it has.
  bool fusedWithPrevious = false;
};

/// A kernel, which is immutable after its creation.
struct Kernel {
  std::string name;
  /// The target of the image that the code is from; empty if there is none.
  std::string target;
  std::vector<Plane> planes;
  std::vector<Hyper> hypers;
  std::vector<Integer> integers;
  int64_t numScalars;
  int64_t numMetrics;
  /// The phases, the last of which writes.
  std::vector<Phase> phases;
  std::vector<Reduction> reductions;
  std::vector<External> externals;
  /// Returns whether the kernel has reductions whose result depends on the
  /// order of the elements.
  bool hasSums() const {
    return std::any_of(reductions.begin(), reductions.end(),
                       [](const Reduction &reduction) {
                         return reduction.kind == TDM_REDUCTION_SUM;
                       });
  }
  /// Returns whether the kernel has sums of any kind, metrics among them, which
  /// depend on how tensors are cut.
  bool hasAnySums() const { return hasSums() || numMetrics; }
  /// Returns whether ranks must exchange a tensor's parts of a reduction. They
  /// need not if a shard has whole rows or blocks, or if all shards have the
  /// same values.
  bool spansShards(const Reduction &reduction) const {
    if (reduction.isWithinMatrix())
      return reduction.scope == TDM_SCOPE_COLUMN;
    return phases[reduction.phase].per != TDM_PER_COLUMN;
  }
  /// Returns whether ranks must exchange any parts or metrics.
  bool spansShards() const {
    return numMetrics || std::any_of(reductions.begin(), reductions.end(),
                                     [&](const Reduction &reduction) {
                                       return spansShards(reduction);
                                     });
  }
  /// Whether the code knows the number of rows of an unsharded tensor.
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
  /// Returns the phase after those that can share the launch that begins with
  /// \p phase.
  uint32_t endOfLaunch(uint32_t phase) const {
    do
      ++phase;
    while (phase < phases.size() && phases[phase].fusedWithPrevious);
    return phase;
  }
  /// Returns whether any phase is fused with the previous one.
  bool hasFusedPhases() const {
    return std::any_of(phases.begin(), phases.end(), [](const Phase &phase) {
      return phase.fusedWithPrevious;
    });
  }
  /// Returns whether any reduction is along columns.
  bool reducesColumns() const {
    return std::any_of(reductions.begin(), reductions.end(),
                       [](const Reduction &reduction) {
                         return reduction.scope == TDM_SCOPE_COLUMN;
                       });
  }
  /// Returns the number of 8-byte slots that each chunk has in a phase. Only
  /// the last phase has metrics.
  int64_t slotsPerChunk(uint32_t phase) const {
    int64_t parts = static_cast<int64_t>(reductions.size());
    return phase == lastPhase() ? parts + numMetrics : parts;
  }

  /// The maximum number of rows of arguments of a launch.
  static constexpr int64_t maxRows = int64_t(1) << 31;

  /// Returns a plane's name for a message.
  PlaneName getPlaneName(int64_t plane) const {
    return {plane, planes[plane].name.c_str()};
  }

  /// Returns a failure whose message begins with the kernel's name.
  Failure fail(tdm_status status) const;
  /// Prepends the kernel's name to the latest failure's message.
  tdm_status failAgain(tdm_status status) const;
  /// Returns the failure of code that does not have a function.
  tdm_status failMissing(const char *function) const;

  /// Checks \p rows rows of arguments against their domains.
  tdm_status checkArguments(const double *hypers, const int64_t *integers,
                            int64_t rows) const;

private:
  tdm_status checkHyper(size_t index, double value, int64_t row) const;
  tdm_status checkInteger(size_t index, int64_t value, int64_t row) const;
};

/// Checks \p desc, whose functions are set, and copies it to \p kernel.
tdm_status createKernel(const tdm_kernel_desc *desc,
                        std::shared_ptr<const Kernel> &kernel);

/// Checks the description in \p info and copies it to \p kernel, without code.
tdm_status describeKernel(const tdm_kernel_info &info, Kernel &kernel);

/// Creates the kernel on a device. If \p target is not NULL, images for other
/// targets are ignored.
tdm_status loadKernel(const tdm_device &device, const tdm_kernel_info &info,
                      const char *target,
                      std::shared_ptr<const Kernel> &kernel);

} // namespace tandem::runtime

/// The C interface's handle. Plans share the kernel.
struct tdm_kernel {
  std::shared_ptr<const tandem::runtime::Kernel> kernel;
};

#endif // TANDEM_RUNTIME_LIB_KERNEL_H
