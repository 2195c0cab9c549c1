//===- PackageKernel.cpp - A kernel of a package --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the reading of a kernel's manifest, field by field. The
// bytes are a valid FlatBuffer; what they mean is checked here.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"
#include "Package.h"
#include "SHA256.h"

#include <cstring>
#include <utility>

using namespace tandem;
using namespace tandem::runtime;

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

// The schema's enumerations and those of the C interface have the same values.
static_assert(int(package::Role::MAX) == TDM_ROLE_RESTORED);
static_assert(int(package::Granularity::MAX) == TDM_PER_BLOCK);
static_assert(int(package::ReductionKind::MAX) == TDM_REDUCTION_SUM);
static_assert(int(package::Scope::MAX) == TDM_SCOPE_BLOCK);
static_assert(int(package::ImageKind::MAX) == TDM_IMAGE_LIBRARY);

/// Whether a value is one that the enumeration names.
template <typename Enum>
static bool isKnown(Enum value) {
  return value >= Enum::MIN && value <= Enum::MAX;
}

static bool areKnown(const package::Plane &plane) {
  return isKnown(plane.per()) && isKnown(plane.kind());
}
static bool areKnown(const package::Integer &integer) {
  return isKnown(integer.kind());
}
static bool areKnown(const package::Reduction &reduction) {
  return isKnown(reduction.kind()) && isKnown(reduction.scope());
}
static bool areKnown(const package::Part &part) {
  return isKnown(part.per()) && part.entry()->size();
}
static bool areKnown(const package::Image &image) {
  return isKnown(image.kind()) && image.target()->size() &&
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

/// Whether there are launches, and at most one commit of a kind.
static bool hasValidParts(const package::Kernel &kernel) {
  constexpr auto Element = package::Granularity::Element;
  bool seen[numGranularities] = {};
  for (const package::Part *part : *kernel.commits())
    if (std::exchange(seen[size_t(part->per())], true))
      return false;
  uint32_t count = kernel.phases()->size();
  return count && kernel.phases()->Get(count - 1)->per() == Element &&
         kernel.prologue()->size();
}

static bool hasValidFields(const package::Kernel &kernel) {
  return areKnown(*kernel.planes()) && areKnown(*kernel.integers()) &&
         areKnown(*kernel.reductions()) && areKnown(*kernel.phases()) &&
         areKnown(*kernel.commits()) && areKnown(*kernel.images()) &&
         hasValidParts(kernel);
}

/// Stands for code where only a description is checked.
static void noCode() {}

/// Checks the description as the creation of the kernel will.
static tdm_status checkDesc(const PackedKernel &packed) {
  PackedKernel::Bound bound;
  packed.bind([](const char *) { return reinterpret_cast<void *>(noCode); },
              bound);
  std::shared_ptr<const Kernel> kernel;
  return createKernel(&bound.desc, kernel);
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
  kernels.push_back(std::make_unique<PackedKernel>(kernel));
  if (checkDesc(*kernels.back()) == TDM_OK)
    return TDM_OK;
  std::string reason = lastMessage();
  return fail(TDM_INVALID_PACKAGE) << reason;
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

static tdm_plane_desc decode(const package::Plane &plane) {
  tdm_plane_desc desc = {};
  desc.name = plane.name()->c_str();
  desc.bits = plane.bits();
  desc.access = plane.access();
  desc.group = plane.group();
  desc.values = plane.values();
  desc.per = static_cast<uint32_t>(plane.per());
  desc.rows = plane.rows();
  desc.transposed = plane.transposed();
  return desc;
}

static tdm_plane_info decodeInfo(const package::Plane &plane) {
  return {plane.role()->c_str(), static_cast<tdm_role>(plane.kind()),
          plane.type()->c_str(), plane.visible(), plane.kept()};
}

static tdm_hyper_desc decode(const package::Hyper &hyper) {
  tdm_hyper_desc desc = {};
  desc.name = hyper.name()->c_str();
  desc.min = hyper.min();
  desc.max = hyper.max();
  desc.min_open = hyper.min_open();
  desc.max_open = hyper.max_open();
  desc.min_positive = hyper.min_positive();
  return desc;
}

static tdm_hyper_info decodeInfo(const package::Hyper &hyper) {
  auto value = hyper.default_value();
  return {value.has_value(), value.value_or(0.0)};
}

static tdm_integer_desc decode(const package::Integer &integer) {
  return {integer.name()->c_str(), integer.min()};
}

static tdm_reduction_desc decode(const package::Reduction &reduction) {
  return {static_cast<tdm_reduction_kind>(reduction.kind()), reduction.phase(),
          static_cast<tdm_scope>(reduction.scope())};
}

static tdm_part_info decode(const package::Part &part) {
  return {part.entry()->c_str(), static_cast<tdm_granularity>(part.per()),
          part.continues()};
}

static tdm_image decode(const package::Image &image) {
  return {static_cast<tdm_image_kind>(image.kind()), image.target()->c_str(),
          image.data()->data(), image.data()->size(), image.sha256()->data()};
}

static tdm_image_info decodeInfo(const package::Image &image) {
  const flatbuffers::String *assembler = image.assembler();
  return {assembler ? assembler->c_str() : "", image.level()};
}

template <typename Table, typename Desc>
static void
decodeAll(const flatbuffers::Vector<flatbuffers::Offset<Table>> &tables,
          std::vector<Desc> &result) {
  for (const Table *table : tables)
    result.push_back(decode(*table));
}

PackedKernel::PackedKernel(const package::Kernel &kernel) {
  desc.struct_size = sizeof(desc);
  desc.name = kernel.graph()->c_str();
  desc.num_scalars = kernel.num_scalars();
  desc.workspace_doubles_per_chunk = kernel.num_metrics();
  desc.matrix = kernel.matrix();
  desc.block = kernel.block();
  addArguments(kernel);
  addParts(kernel);
  info.struct_size = sizeof(info);
  info.name = kernel.name()->c_str();
  info.graph = kernel.graph()->c_str();
  info.strategy = kernel.strategy()->c_str();
  info.compute = kernel.compute()->c_str();
  info.ir = kernel.ir()->c_str();
  info.desc = &desc;
  info.flags = kernel.flags();
  info.flat_graph = kernel.flat_graph();
  addImages(kernel);
}

void PackedKernel::addArguments(const package::Kernel &kernel) {
  decodeAll(*kernel.planes(), planes);
  for (const package::Plane *plane : *kernel.planes())
    planeInfos.push_back(decodeInfo(*plane));
  decodeAll(*kernel.hypers(), hypers);
  for (const package::Hyper *hyper : *kernel.hypers())
    hyperInfos.push_back(decodeInfo(*hyper));
  decodeAll(*kernel.integers(), integers);
  for (const package::Integer *integer : *kernel.integers())
    integerRoles.push_back(static_cast<tdm_role>(integer->kind()));
  desc.planes = planes.data();
  desc.num_planes = static_cast<uint32_t>(planes.size());
  desc.hypers = hypers.data();
  desc.num_hypers = static_cast<uint32_t>(hypers.size());
  desc.integers = integers.data();
  desc.num_integers = static_cast<uint32_t>(integers.size());
  info.planes = planeInfos.data();
  info.hypers = hyperInfos.data();
  info.integers = integerRoles.data();
}

void PackedKernel::addParts(const package::Kernel &kernel) {
  decodeAll(*kernel.reductions(), reductions);
  decodeAll(*kernel.phases(), phases);
  decodeAll(*kernel.commits(), commits);
  for (size_t i = 0; i + 1 < phases.size(); ++i)
    earlyGranularities.push_back(phases[i].per);
  for (const tdm_part_info &phase : phases)
    continues.push_back(phase.continues);
  desc.reductions = reductions.data();
  desc.num_reductions = static_cast<uint32_t>(reductions.size());
  desc.num_early_entries = static_cast<uint32_t>(earlyGranularities.size());
  desc.early_granularities = earlyGranularities.data();
  desc.continues = continues.data();
  info.prologue = kernel.prologue()->c_str();
  info.phases = phases.data();
  info.num_phases = static_cast<uint32_t>(phases.size());
  info.commits = commits.data();
  info.num_commits = static_cast<uint32_t>(commits.size());
}

void PackedKernel::addImages(const package::Kernel &kernel) {
  decodeAll(*kernel.images(), images);
  for (const package::Image *image : *kernel.images())
    imageInfos.push_back(decodeInfo(*image));
  info.images = images.data();
  info.image_infos = imageInfos.data();
  info.num_images = static_cast<uint32_t>(images.size());
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

const char *PackedKernel::bind(const FindCode &find, Bound &bound) const {
  const char *missing = nullptr;
  auto lookUp = [&](const char *name) {
    void *code = find(name);
    if (!code && !missing)
      missing = name;
    return code;
  };
  auto lookUpEntry = [&](const tdm_part_info &part) {
    return reinterpret_cast<tdm_cpu_entry>(lookUp(part.entry));
  };
  bound.desc = desc;
  bound.early.clear();
  for (size_t i = 0; i + 1 < phases.size(); ++i)
    bound.early.push_back(lookUpEntry(phases[i]));
  bound.desc.early_entries = bound.early.data();
  bound.desc.entry = lookUpEntry(phases.back());
  bound.desc.prologue =
      reinterpret_cast<tdm_cpu_prologue>(lookUp(info.prologue));
  for (const tdm_part_info &part : commits) {
    tdm_cpu_entry &place =
        part.per == TDM_PER_ROW      ? bound.desc.commit_rows
        : part.per == TDM_PER_COLUMN ? bound.desc.commit_columns
        : part.per == TDM_PER_BLOCK  ? bound.desc.commit_blocks
                                     : bound.desc.commit;
    place = lookUpEntry(part);
  }
  return missing;
}
