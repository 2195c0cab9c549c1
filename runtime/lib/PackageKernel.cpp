//===- PackageKernel.cpp - A kernel of a package --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the reading of a kernel's description. The bytes are a
// valid FlatBuffer; their meaning is checked here.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"
#include "Package.h"
#include "SHA256.h"

#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

using namespace tandem;
using namespace tandem::runtime;

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static bool areKnown(const package::Plane &plane) {
  return plane.per() < TDM_NUM_VALUES(TDM_GRANULARITIES) &&
         plane.kind() < TDM_NUM_VALUES(TDM_ROLES);
}
static bool areKnown(const package::Integer &integer) {
  return integer.kind() < TDM_NUM_VALUES(TDM_ROLES);
}
static bool areKnown(const package::Reduction &reduction) {
  return reduction.kind() < TDM_NUM_VALUES(TDM_REDUCTION_KINDS) &&
         reduction.scope() < TDM_NUM_VALUES(TDM_SCOPES);
}
static bool areKnown(const package::Part &part) {
  return part.per() < TDM_NUM_VALUES(TDM_GRANULARITIES) && part.entry()->size();
}
#define KIND(name) name,
static constexpr const char *numberedKinds[] = {TDM_NUMBERED_IMAGE_KINDS(KIND)};

static bool areKnown(const package::Image &image) {
  bool isNumbered = image.kind() < std::size(numberedKinds);
  bool isNamed = image.kind() == std::size(numberedKinds) &&
                 image.kind_name() && image.kind_name()->size();
  return (isNumbered || isNamed) && image.target()->size() &&
         image.sha256()->size() == std::tuple_size_v<Digest>;
}

template <typename Table>
static bool
areKnown(const flatbuffers::Vector<flatbuffers::Offset<Table>> &tables) {
  for (const Table *table : tables)
    if (!areKnown(*table))
      return false;
  return true;
}

/// Returns whether there are phases, and at most one epilogue per granularity.
static bool hasValidParts(const package::Kernel &kernel) {
  bool seen[numGranularities] = {};
  for (const package::Part *part : *kernel.epilogues())
    if (std::exchange(seen[part->per()], true))
      return false;
  uint32_t count = kernel.phases()->size();
  return count && kernel.phases()->Get(count - 1)->per() == TDM_PER_ELEMENT &&
         kernel.prologue()->size();
}

static bool hasValidFields(const package::Kernel &kernel) {
  return areKnown(*kernel.planes()) && areKnown(*kernel.integers()) &&
         areKnown(*kernel.reductions()) && areKnown(*kernel.phases()) &&
         areKnown(*kernel.epilogues()) && areKnown(*kernel.images()) &&
         hasValidParts(kernel);
}

tdm_status Package::addKernel(const package::Kernel &kernel) {
  if (!hasValidFields(kernel))
    return fail(TDM_INVALID_PACKAGE)
           << "describes kernel '" << kernel.name()->c_str()
           << "' by values that the format does not know; write it again with "
              "a compiler of this version";
  for (const auto &other : kernels)
    if (!std::strcmp(other->getInfo().name, kernel.name()->c_str()))
      return fail(TDM_INVALID_PACKAGE)
             << "has two kernels '" << kernel.name()->c_str()
             << "'; write it again with names of their own";
  kernels.push_back(std::make_unique<PackedKernel>(kernel, version));
  Kernel checked;
  if (describeKernel(kernels.back()->getInfo(), checked) == TDM_OK)
    return TDM_OK;
  return failAgain(TDM_INVALID_PACKAGE);
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

static void read(const flatbuffers::String *value, const char *&field) {
  field = value ? value->c_str() : "";
}
template <typename Value, typename Field>
static void read(Value value, Field &field) {
  field = static_cast<Field>(value);
}

namespace {
/// Converts to a value of any type.
struct AnyValue {
  template <typename T>
  operator T() const;
};

/// Whether a struct can be initialized from this number of values.
template <typename Struct, typename Values, typename = void>
struct Takes : std::false_type {};
template <typename Struct, size_t... I>
struct Takes<Struct, std::index_sequence<I...>,
             std::void_t<decltype(Struct{(void(I), AnyValue())...})>>
    : std::true_type {};

template <typename Struct, size_t N>
constexpr bool hasFields =
    Takes<Struct, std::make_index_sequence<N>>::value &&
    !Takes<Struct, std::make_index_sequence<N + 1>>::value;
} // namespace

// Check that the lists of fields are complete.
#define COUNT(name) +1
static_assert(hasFields<tdm_plane_desc, 0 TDM_PLANE_FIELDS(COUNT, COUNT)>);
static_assert(hasFields<tdm_hyper_desc, 2 TDM_HYPER_FIELDS(COUNT, COUNT)>);
static_assert(hasFields<tdm_integer_desc, 0 TDM_INTEGER_FIELDS(COUNT, COUNT)>);
static_assert(
    hasFields<tdm_reduction_desc, 0 TDM_REDUCTION_FIELDS(COUNT, COUNT)>);
static_assert(
    hasFields<tdm_external_desc, 0 TDM_EXTERNAL_FIELDS(COUNT, COUNT)>);
static_assert(hasFields<tdm_part_info, 0 TDM_PART_FIELDS(COUNT, COUNT)>);
static_assert(
    hasFields<tdm_tensor_info, 0 TDM_TENSOR_INFO_FIELDS(COUNT, COUNT)>);

/// Reads one field of `desc`; the table has one of the same name.
#define READ(name) read(table.name(), desc.name);

static void decode(const package::Plane &table, tdm_plane_desc &desc) {
  TDM_PLANE_FIELDS(READ, READ)
}

static void decode(const package::Hyper &table, tdm_hyper_desc &desc) {
  TDM_HYPER_FIELDS(READ, READ)
  auto value = table.default_value();
  desc.has_default = value.has_value();
  desc.default_value = value.value_or(0.0);
}

static void decode(const package::Integer &table, tdm_integer_desc &desc) {
  TDM_INTEGER_FIELDS(READ, READ)
}

static void decode(const package::Reduction &table, tdm_reduction_desc &desc) {
  TDM_REDUCTION_FIELDS(READ, READ)
}

static void decode(const package::External &table, tdm_external_desc &desc) {
  TDM_EXTERNAL_FIELDS(READ, READ)
}

static void decode(const package::Part &table, tdm_part_info &desc) {
  TDM_PART_FIELDS(READ, READ)
}

static void decode(const package::Tensor &table, tdm_tensor_info &desc) {
  TDM_TENSOR_INFO_FIELDS(READ, READ)
}

static void decode(const package::Image &table, tdm_image &desc) {
  desc.kind = table.kind() < std::size(numberedKinds)
                  ? numberedKinds[table.kind()]
                  : table.kind_name()->c_str();
  READ(target)
  READ(assembler)
  READ(level)
  desc.data = table.data()->data();
  desc.size = table.data()->size();
  desc.sha256 = table.sha256()->data();
}

static void decode(const package::Kernel &table, tdm_kernel_desc &desc) {
  desc.struct_size = sizeof(desc);
  desc.name = table.graph()->c_str();
  TDM_KERNEL_DESC_FIELDS(READ, READ)
}

static void decode(const package::Kernel &table, tdm_kernel_info &desc) {
  desc.struct_size = sizeof(desc);
  TDM_KERNEL_INFO_FIELDS(READ, READ)
}

template <typename Table, typename Desc>
static void
decodeAll(const flatbuffers::Vector<flatbuffers::Offset<Table>> &tables,
          std::vector<Desc> &result) {
  for (const Table *table : tables)
    decode(*table, result.emplace_back());
}

PackedKernel::PackedKernel(const package::Kernel &kernel, uint32_t version) {
  decode(kernel, desc);
  decode(kernel, info);
  info.desc = &desc;
  info.format = version;
  addArguments(kernel);
  addParts(kernel);
  decodeAll(*kernel.images(), images);
  info.images = images.data();
  info.num_images = static_cast<uint32_t>(images.size());
  if (kernel.tensors())
    decodeAll(*kernel.tensors(), tensors);
  info.tensors = tensors.data();
  info.num_tensors = static_cast<uint32_t>(tensors.size());
}

void PackedKernel::addArguments(const package::Kernel &kernel) {
  decodeAll(*kernel.planes(), planes);
  decodeAll(*kernel.hypers(), hypers);
  decodeAll(*kernel.integers(), integers);
  desc.planes = planes.data();
  desc.num_planes = static_cast<uint32_t>(planes.size());
  desc.hypers = hypers.data();
  desc.num_hypers = static_cast<uint32_t>(hypers.size());
  desc.integers = integers.data();
  desc.num_integers = static_cast<uint32_t>(integers.size());
}

void PackedKernel::addParts(const package::Kernel &kernel) {
  decodeAll(*kernel.reductions(), reductions);
  decodeAll(*kernel.phases(), phases);
  decodeAll(*kernel.epilogues(), epilogues);
  for (size_t i = 0; i + 1 < phases.size(); ++i)
    reductionGranularities.push_back(phases[i].per);
  for (const tdm_part_info &phase : phases)
    fusedWithPrevious.push_back(phase.fused_with_previous);
  desc.reductions = reductions.data();
  desc.num_reductions = static_cast<uint32_t>(reductions.size());
  desc.num_reduction_entries =
      static_cast<uint32_t>(reductionGranularities.size());
  desc.reduction_granularities = reductionGranularities.data();
  desc.fused_with_previous = fusedWithPrevious.data();
  if (kernel.externals())
    decodeAll(*kernel.externals(), externals);
  desc.externals = externals.data();
  desc.num_externals = static_cast<uint32_t>(externals.size());
  info.phases = phases.data();
  info.num_phases = static_cast<uint32_t>(phases.size());
  info.epilogues = epilogues.data();
  info.num_epilogues = static_cast<uint32_t>(epilogues.size());
}
