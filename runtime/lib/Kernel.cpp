//===- Kernel.cpp - A compiled kernel and its description -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the checks of kernel descriptions and of the arguments
// of a launch.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"

#include "CPU/HostExecutable.h"
#include "tandem-runtime/tandem_launch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

using namespace tandem::runtime;

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

static constexpr uint32_t maxMetrics = TDM_LAUNCH_MAX_SUMS;
/// Chunks begin at multiples of this, so that none splits a group.
static constexpr uint32_t maxGroup = 4096;
static constexpr uint32_t maxValues = 1 << 16;

/// Checks the fields of a plane that hold in any kernel.
static tdm_status checkFields(const Kernel &kernel, const tdm_plane_desc &plane,
                              const PlaneName &name) {
  bool powerOfTwo = plane.bits && !(plane.bits & (plane.bits - 1));
  if (!powerOfTwo || plane.bits > 64)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "plane '" << name << "' has " << plane.bits
           << " bits per element; use 1, 2, 4, 8, 16, 32 or 64";
  if (!plane.access || plane.access & ~(TDM_ACCESS_READ | TDM_ACCESS_WRITE))
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "plane '" << name << "' has access " << plane.access
           << "; use TDM_ACCESS_READ, TDM_ACCESS_WRITE or both";
  bool isSize = plane.group != TDM_WHOLE_TENSOR && plane.group != TDM_WHOLE_ROW;
  if (isSize && (plane.group & (plane.group - 1) || plane.group > maxGroup))
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "plane '" << name << "' has an entry for each " << plane.group
           << " elements; use a power of two of at most " << maxGroup
           << ", TDM_WHOLE_ROW or TDM_WHOLE_TENSOR";
  if (plane.per > TDM_PER_COLUMN)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "plane '" << name << "' has granularity " << int(plane.per)
           << "; use a tdm_granularity";
  if (plane.history > maxValues)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "plane '" << name << "' has " << plane.history
           << " values an entry; use at most " << maxValues;
  return TDM_OK;
}

/// Checks the fields that only planes of matrices use.
static tdm_status checkRows(const Kernel &kernel, const tdm_plane_desc &plane,
                            const PlaneName &name) {
  if (plane.per != TDM_PER_ELEMENT && !kernel.matrix)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "plane '" << name << "' has entries for rows or columns, "
           << "which only a matrix kernel knows; set tdm_kernel_desc.matrix";
  if (plane.group == TDM_WHOLE_ROW &&
      (!kernel.matrix || plane.per != TDM_PER_ELEMENT))
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "plane '" << name << "' has an entry for each row, which "
           << "only the elements of a matrix kernel have; set "
           << "tdm_kernel_desc.matrix and TDM_PER_ELEMENT";
  bool isBlock = plane.rows == plane.group && plane.rows == kernel.block &&
                 plane.per == TDM_PER_ELEMENT;
  if (plane.rows > 1 && !isBlock)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "plane '" << name << "' has an entry for each " << plane.rows
           << " rows of " << plane.group << " elements, but the "
           << "kernel's blocks are of " << kernel.block
           << "; set rows and group to tdm_kernel_desc.block";
  bool hasElements = kernel.matrix && plane.per == TDM_PER_ELEMENT &&
                     plane.group <= 1 && plane.history <= 1;
  if (plane.transposed && !hasElements)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "plane '" << name << "' is transposed, but has no entry for "
           << "each element of a matrix; set tdm_kernel_desc.matrix and group "
              "1";
  return TDM_OK;
}

static tdm_status checkPlane(const Kernel &kernel, const tdm_plane_desc &plane,
                             uint32_t index) {
  if (!plane.name)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "plane " << index << " has no name; set tdm_plane_desc.name";
  PlaneName name{index, plane.name};
  if (tdm_status status = checkFields(kernel, plane, name))
    return status;
  return checkRows(kernel, plane, name);
}

static tdm_status checkHyperDesc(const Kernel &kernel,
                                 const tdm_hyper_desc &hyper, uint32_t index) {
  if (!hyper.name)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "hyper " << index << " has no name; set tdm_hyper_desc.name";
  HyperName name{index, hyper.name};
  bool open = hyper.min_open || hyper.max_open;
  if (!(hyper.min < hyper.max) && !(hyper.min == hyper.max && !open))
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "hyper '" << name << "' has an empty domain from " << hyper.min
           << " to " << hyper.max << "; set min below max";
  if (!(hyper.min_positive >= 0))
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "hyper '" << name << "' has min_positive " << hyper.min_positive
           << "; use 0 or a positive value";
  return TDM_OK;
}

EntrySpan::EntrySpan(int64_t size) : count(size) {
  while (int64_t(1) << shift < size)
    ++shift;
}

static tdm_status copyPlanes(Kernel &kernel, const tdm_kernel_desc &desc) {
  if (desc.num_planes && !desc.planes)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "planes is NULL but num_planes is " << desc.num_planes;
  for (uint32_t i = 0; i < desc.num_planes; ++i) {
    const tdm_plane_desc &plane = desc.planes[i];
    kernel.transposes |= plane.transposed != 0;
    if (tdm_status status = checkPlane(kernel, plane, i))
      return status;
    bool written = plane.access & TDM_ACCESS_WRITE;
    tdm_plane_sharing sharing;
    tdm_plane_get_sharing(&plane, &sharing);
    constexpr int64_t max = std::numeric_limits<int64_t>::max();
    int64_t eighths =
        std::min(max / (plane.bits * sharing.values), max / 8) - 8;
    kernel.planes.push_back({plane.name, int64_t(plane.bits), written,
                             plane.kind, EntrySpan(sharing.rows),
                             EntrySpan(sharing.columns), sharing.values,
                             8 * eighths});
  }
  return TDM_OK;
}

static tdm_status copyHypers(Kernel &kernel, const tdm_kernel_desc &desc) {
  if (desc.num_hypers && !desc.hypers)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "hypers is NULL but num_hypers is " << desc.num_hypers;
  for (uint32_t i = 0; i < desc.num_hypers; ++i) {
    const tdm_hyper_desc &hyper = desc.hypers[i];
    if (tdm_status status = checkHyperDesc(kernel, hyper, i))
      return status;
    kernel.hypers.push_back({hyper.name, hyper.min, hyper.max,
                             hyper.min_open != 0, hyper.max_open != 0,
                             hyper.min_positive});
  }
  return TDM_OK;
}

static tdm_status copyIntegers(Kernel &kernel, const tdm_kernel_desc &desc) {
  if (desc.num_integers && !desc.integers)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "integers is NULL but num_integers is " << desc.num_integers;
  for (uint32_t i = 0; i < desc.num_integers; ++i) {
    const tdm_integer_desc &integer = desc.integers[i];
    if (!integer.name)
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << "integer " << i << " has no name; set tdm_integer_desc.name";
    kernel.integers.push_back({integer.name, integer.min});
  }
  return TDM_OK;
}

static tdm_status copySizes(Kernel &kernel, const tdm_kernel_desc &desc) {
  if (desc.workspace_doubles_per_chunk > maxMetrics)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "workspace_doubles_per_chunk is "
           << desc.workspace_doubles_per_chunk << "; use at most "
           << maxMetrics;
  kernel.numScalars = desc.num_scalars;
  kernel.numMetrics = desc.workspace_doubles_per_chunk;
  if (kernel.matrix && kernel.numMetrics)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "a matrix kernel records no metrics; set "
           << "workspace_doubles_per_chunk to 0";
  return TDM_OK;
}

static tdm_status checkFunctions(Kernel &kernel, const tdm_kernel_desc &desc) {
  if (!desc.entry)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "entry is NULL; pass the compiled function";
  if (desc.num_scalars && !desc.prologue)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "prologue is NULL but num_scalars is " << desc.num_scalars
           << "; pass the compiled prologue";
  return TDM_OK;
}

/// Checks which phases are fused with the previous ones.
static tdm_status checkFusedPhases(const Kernel &kernel) {
  for (size_t i = 0; i < kernel.phases.size(); ++i) {
    auto isOfElements = [&](size_t phase) {
      return kernel.phases[phase].per == TDM_PER_ELEMENT;
    };
    bool isPossible =
        kernel.matrix && i > 0 && isOfElements(i) && isOfElements(i - 1);
    if (kernel.phases[i].fusedWithPrevious && !isPossible)
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << "phase " << i
             << " is fused with the previous one; only a phase "
             << "over the elements of a matrix can be, after another one";
  }
  return TDM_OK;
}

static constexpr const char *granularityRemedy =
    "; use a tdm_granularity, and TDM_PER_ELEMENT except in a matrix kernel";

static tdm_status copyPhases(Kernel &kernel, const tdm_kernel_desc &desc) {
  if (desc.num_reduction_entries && !desc.reduction_entries)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "reduction_entries is NULL but num_reduction_entries is "
           << desc.num_reduction_entries;
  for (uint32_t i = 0; i < desc.num_reduction_entries; ++i) {
    if (!desc.reduction_entries[i])
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << "reduction entry " << i
             << " is NULL; pass the compiled function";
    uint32_t per =
        desc.reduction_granularities ? desc.reduction_granularities[i] : 0;
    if (per > TDM_PER_COLUMN || (per && !kernel.matrix))
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << "reduction entry " << i << " has granularity " << per
             << granularityRemedy;
    kernel.phases.push_back({static_cast<tdm_granularity>(per)});
  }
  kernel.phases.push_back({TDM_PER_ELEMENT});
  for (size_t i = 0; desc.fused_with_previous && i < kernel.phases.size(); ++i)
    kernel.phases[i].fusedWithPrevious = desc.fused_with_previous[i] != 0;
  return checkFusedPhases(kernel);
}

static tdm_status checkEpilogues(Kernel &kernel, const tdm_kernel_desc &desc) {
  if (desc.epilogue_blocks && !kernel.block)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "epilogue_blocks belongs to a kernel of blocks; set "
           << "tdm_kernel_desc.block";
  if ((desc.epilogue_rows || desc.epilogue_columns) && !kernel.matrix)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "epilogue_rows and epilogue_columns belong to a matrix kernel; "
              "set "
           << "tdm_kernel_desc.matrix";
  return TDM_OK;
}

static tdm_status checkPart(const Kernel &kernel, const tdm_part_info &part,
                            const char *what, uint32_t index) {
  if (!part.entry)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << what << " " << index << " has no entry; name its function";
  bool isKnown =
      part.per <= TDM_PER_COLUMN || (part.per == TDM_PER_BLOCK && kernel.block);
  if (!isKnown || (part.per != TDM_PER_ELEMENT && !kernel.matrix))
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << what << " " << index << " has granularity " << int(part.per)
           << granularityRemedy;
  return TDM_OK;
}

static tdm_status checkList(const Kernel &kernel, const void *list,
                            uint32_t count, const char *name) {
  if (count && !list)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << name << " is NULL but num_" << name << " is " << count;
  return TDM_OK;
}

static tdm_status copyParts(Kernel &kernel, const tdm_kernel_info &info) {
  const std::tuple<const void *, uint32_t, const char *> lists[] = {
      {info.phases, info.num_phases, "phases"},
      {info.epilogues, info.num_epilogues, "epilogues"}};
  for (auto [list, count, name] : lists)
    if (tdm_status status = checkList(kernel, list, count, name))
      return status;
  if (!info.num_phases ||
      info.phases[info.num_phases - 1].per != TDM_PER_ELEMENT)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "there is no last phase over elements; pass the launches of a "
           << "step";
  if (kernel.numScalars && !info.prologue)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "prologue is NULL but num_scalars is " << kernel.numScalars
           << "; name the compiled prologue";
  for (uint32_t i = 0; i < info.num_phases; ++i) {
    if (tdm_status status = checkPart(kernel, info.phases[i], "phase", i))
      return status;
    kernel.phases.push_back(
        {info.phases[i].per, info.phases[i].fused_with_previous != 0});
  }
  if (tdm_status status = checkFusedPhases(kernel))
    return status;
  for (uint32_t i = 0; i < info.num_epilogues; ++i)
    if (tdm_status status = checkPart(kernel, info.epilogues[i], "epilogue", i))
      return status;
  return TDM_OK;
}

/// Returns whether a reduction's phase can reduce its scope: in a matrix kernel
/// a phase over tiles reduces rows, columns and blocks, and a phase over rows
/// or columns reduces tensors.
static bool isInScope(const Kernel &kernel, const tdm_reduction_desc &desc) {
  if (!kernel.matrix)
    return desc.scope <= TDM_SCOPE_MODEL;
  bool isOfElements = kernel.phases[desc.phase].per == TDM_PER_ELEMENT;
  if (desc.scope == TDM_SCOPE_BLOCK)
    return kernel.block && isOfElements && desc.kind != TDM_REDUCTION_SUM;
  bool isAlongAxis =
      desc.scope == TDM_SCOPE_ROW || desc.scope == TDM_SCOPE_COLUMN;
  return desc.scope <= TDM_SCOPE_COLUMN && isAlongAxis == isOfElements;
}

static tdm_status copyReductions(Kernel &kernel, const tdm_kernel_desc &desc) {
  if (desc.num_reductions && !desc.reductions)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "reductions is NULL but num_reductions is "
           << desc.num_reductions;
  if (desc.num_reductions > maxMetrics)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "num_reductions is " << desc.num_reductions << "; use at most "
           << maxMetrics;
  for (uint32_t i = 0; i < desc.num_reductions; ++i) {
    const tdm_reduction_desc &reduction = desc.reductions[i];
    if (reduction.kind > TDM_REDUCTION_SUM)
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << "reduction " << i << " has kind " << int(reduction.kind)
             << "; use a tdm_reduction_kind";
    if (reduction.phase >= kernel.phases.size())
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << "reduction " << i << " belongs to phase " << reduction.phase
             << " of a kernel of " << kernel.phases.size() << " phases";
    if (!isInScope(kernel, reduction))
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << "reduction " << i << " has scope " << int(reduction.scope)
             << "; a phase over the elements of a matrix reduces rows, columns "
             << "and, except for sums, a kernel's blocks, any other one "
                "tensors "
             << "or the model";
    kernel.reductions.push_back(
        {reduction.kind, reduction.phase, reduction.scope});
  }
  return TDM_OK;
}

static tdm_status copyExternals(Kernel &kernel, const tdm_kernel_desc &desc) {
  if (desc.num_externals && !desc.externals)
    return kernel.fail(TDM_INVALID_ARGUMENT)
           << "externals is NULL but num_externals is " << desc.num_externals;
  uint32_t before = 0;
  for (uint32_t i = 0; i < desc.num_externals; ++i) {
    const tdm_external_desc &external = desc.externals[i];
    if (!external.name)
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << "external step " << i
             << " has no name; set tdm_external_desc.name";
    if (external.phase < before || external.phase >= kernel.lastPhase())
      return kernel.fail(TDM_INVALID_ARGUMENT)
             << "external step " << i << " follows phase " << external.phase
             << " of a kernel of " << kernel.phases.size()
             << " phases; list steps by ascending phase, before the last one";
    before = external.phase;
    kernel.externals.push_back({external.name, external.phase});
  }
  return TDM_OK;
}

static tdm_status copyBlock(Kernel &kernel, const tdm_kernel_desc &desc) {
  kernel.block = desc.block;
  bool isSize = kernel.block >= TDM_LAUNCH_MIN_BLOCK &&
                kernel.block <= TDM_LAUNCH_MAX_BLOCK &&
                !(kernel.block & (kernel.block - 1));
  if (!kernel.block || (isSize && kernel.matrix))
    return TDM_OK;
  return kernel.fail(TDM_INVALID_ARGUMENT)
         << "block is " << kernel.block << "; use a power of two from "
         << TDM_LAUNCH_MIN_BLOCK << " to " << TDM_LAUNCH_MAX_BLOCK
         << ", in a matrix kernel, or 0";
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static tdm_status checkDesc(const tdm_kernel_desc *desc) {
  if (!desc)
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_kernel_create: desc is NULL; pass a tdm_kernel_desc";
  if (desc->struct_size != sizeof(tdm_kernel_desc))
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_kernel_create: struct_size is " << desc->struct_size
           << " but this runtime's is " << sizeof(tdm_kernel_desc)
           << "; set it to sizeof(tdm_kernel_desc) of the matching header";
  if (!desc->name)
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_kernel_create: name is NULL; name the kernel";
  return TDM_OK;
}

static tdm_status copyShared(Kernel &kernel, const tdm_kernel_desc &desc) {
  kernel.name = desc.name;
  kernel.matrix = desc.matrix != 0;
  for (auto copy : {copyBlock, copyPlanes, copyHypers, copyIntegers, copySizes})
    if (tdm_status status = copy(kernel, desc))
      return status;
  return TDM_OK;
}

tdm_status
tandem::runtime::createKernel(const tdm_kernel_desc *desc,
                              std::shared_ptr<const Kernel> &kernel) {
  if (tdm_status status = checkDesc(desc))
    return status;
  auto result = std::make_shared<Kernel>();
  for (auto copy : {copyShared, checkFunctions, copyPhases, checkEpilogues,
                    copyReductions, copyExternals})
    if (tdm_status status = copy(*result, *desc))
      return status;
  result->executable = std::make_shared<HostExecutable>(*desc);
  kernel = std::move(result);
  return TDM_OK;
}

tdm_status tandem::runtime::describeKernel(const tdm_kernel_info &info,
                                           Kernel &kernel) {
  if (tdm_status status = copyShared(kernel, *info.desc))
    return status;
  if (tdm_status status = copyParts(kernel, info))
    return status;
  kernel.knowsWholeSize = !info.format || info.format >= 5;
  if (tdm_status status = copyReductions(kernel, *info.desc))
    return status;
  return copyExternals(kernel, *info.desc);
}

Failure Kernel::fail(tdm_status status) const {
  Failure failure(status);
  failure << "kernel '" << name << "': ";
  return failure;
}

tdm_status Kernel::failAgain(tdm_status status) const {
  std::string reason = lastMessage();
  return fail(status) << reason;
}

tdm_status Kernel::failMissing(const char *function) const {
  return fail(TDM_INVALID_PACKAGE)
         << "its code has no function '" << function << "'; compile it again";
}

//===----------------------------------------------------------------------===//
// Arguments of a launch
//===----------------------------------------------------------------------===//

bool Hyper::contains(double value) const {
  bool aboveMin = minOpen ? value > min : value >= min;
  bool belowMax = maxOpen ? value < max : value <= max;
  return aboveMin && belowMax;
}

/// Appends "at least 0", "less than 1" or both to \p failure.
static void describeDomain(Failure &failure, const Hyper &hyper) {
  bool hasMin = !std::isinf(hyper.min) || hyper.minOpen;
  bool hasMax = !std::isinf(hyper.max) || hyper.maxOpen;
  if (hasMin)
    failure << (hyper.minOpen ? "greater than " : "at least ") << hyper.min;
  if (hasMin && hasMax)
    failure << " and ";
  if (hasMax)
    failure << (hyper.maxOpen ? "less than " : "at most ") << hyper.max;
  if (!hasMin && !hasMax)
    failure << "a number";
}

tdm_status Kernel::checkHyper(size_t index, double value, int64_t row) const {
  const Hyper &hyper = hypers[index];
  HyperName name{int64_t(index), hyper.name.c_str()};
  if (!hyper.contains(value)) {
    Failure failure = fail(TDM_OUT_OF_DOMAIN);
    failure << "hyper '" << name << "' of " << RowNumber{row} << " is " << value
            << "; it must be ";
    describeDomain(failure, hyper);
    return failure;
  }
  if (value > 0 && value < hyper.minPositive)
    return fail(TDM_OUT_OF_DOMAIN)
           << "hyper '" << name << "' of " << RowNumber{row} << " is " << value
           << ", which this kernel's format would round to zero; use "
           << (hyper.contains(0) ? "0 or " : "") << "at least "
           << hyper.minPositive;
  return TDM_OK;
}

tdm_status Kernel::checkInteger(size_t index, int64_t value,
                                int64_t row) const {
  const Integer &integer = integers[index];
  if (value >= integer.min)
    return TDM_OK;
  return fail(TDM_OUT_OF_DOMAIN)
         << "integer '" << IntegerName{int64_t(index), integer.name.c_str()}
         << "' of " << RowNumber{row} << " is " << value
         << "; it must be at least " << integer.min;
}

tdm_status Kernel::checkArguments(const double *values, const int64_t *counts,
                                  int64_t rows) const {
  if (rows < 0 || rows > maxRows)
    return fail(TDM_INVALID_ARGUMENT)
           << "rows is " << rows << "; it must be 0 to " << maxRows;
  if (rows && !hypers.empty() && !values)
    return fail(TDM_INVALID_ARGUMENT)
           << "hypers is NULL; pass " << rows << " rows of " << hypers.size()
           << " values, the first of them '"
           << HyperName{0, hypers[0].name.c_str()} << "'";
  if (rows && !integers.empty() && !counts)
    return fail(TDM_INVALID_ARGUMENT)
           << "integers is NULL; pass " << rows << " rows of "
           << integers.size() << " values, the first of them '"
           << IntegerName{0, integers[0].name.c_str()} << "'";
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < hypers.size(); ++i)
      if (tdm_status status = checkHyper(i, *values++, row))
        return status;
    for (size_t i = 0; i < integers.size(); ++i)
      if (tdm_status status = checkInteger(i, *counts++, row))
        return status;
  }
  return TDM_OK;
}

//===----------------------------------------------------------------------===//
// C interface
//===----------------------------------------------------------------------===//

tdm_status tdm_kernel_create(const tdm_kernel_desc *desc, tdm_kernel **kernel) {
  return guarded("tdm_kernel_create", [&]() -> tdm_status {
    if (!kernel)
      return Failure(TDM_INVALID_ARGUMENT)
             << "tdm_kernel_create: kernel is NULL; pass where to store it";
    auto handle = std::make_unique<tdm_kernel>();
    if (tdm_status status = createKernel(desc, handle->kernel))
      return status;
    *kernel = handle.release();
    return TDM_OK;
  });
}

const char *tdm_kernel_target(const tdm_kernel *kernel) {
  if (!kernel || kernel->kernel->target.empty())
    return nullptr;
  return kernel->kernel->target.c_str();
}

void tdm_kernel_destroy(tdm_kernel *kernel) { delete kernel; }
