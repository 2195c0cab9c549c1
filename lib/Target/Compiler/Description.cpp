//===- Description.cpp - Descriptions of kernels --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file derives the description of a kernel from its storages and roles.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Description.h"
#include "tandem/Conversion/LaunchABI.h"
#include "tandem/Support/FloatFormat.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

// The dialect's enumerators have the same values as the runtime's.
#define CHECK_ROLE(value, name)                                                \
  static_assert(int(RoleKind::name) == int(value));
#define CHECK_GRANULARITY(value, name)                                         \
  static_assert(int(Granularity::name) == int(value));
#define CHECK_REDUCTION(value, name)                                           \
  static_assert(int(ReduceKind::name) == int(value));
TDM_ROLES(CHECK_ROLE)
TDM_GRANULARITIES(CHECK_GRANULARITY)
TDM_REDUCTION_KINDS(CHECK_REDUCTION)
static_assert(getMaxEnumValForRoleKind() == TDM_NUM_VALUES(TDM_ROLES) - 1);
static_assert(getMaxEnumValForReduceKind() ==
              TDM_NUM_VALUES(TDM_REDUCTION_KINDS) - 1);

RoleKind tandem::getRoleKind(tdm_role kind) {
  return static_cast<RoleKind>(kind);
}

static tdm_granularity getRuntimeGranularity(Granularity per) {
  return static_cast<tdm_granularity>(per);
}

static tdm_scope getRuntimeScope(Granularity scope) {
  switch (scope) {
#define CASE(value, name)                                                      \
  case Granularity::name:                                                      \
    return value;
    TDM_SCOPES(CASE)
#undef CASE
  default:
    llvm_unreachable("a group is reduced within a launch");
  }
}

//===----------------------------------------------------------------------===//
// Planes
//===----------------------------------------------------------------------===//

/// Prints a type or attribute as MLIR spells it.
template <typename T>
static std::string print(T value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

static uint32_t getRuntimeGroup(Group group) {
  return group.isTensor() ? TDM_WHOLE_TENSOR
         : group.isRow()  ? TDM_WHOLE_ROW
                          : uint32_t(group.columns);
}

/// Spells the type of an entry: "i4x2" for two codes of four bits in a byte.
static std::string printEntryType(const Plane &plane) {
  if (plane.packed == 1)
    return print(plane.elementType);
  unsigned bits = plane.elementType.getIntOrFloatBitWidth() / plane.packed;
  return ("i" + Twine(bits) + "x" + Twine(plane.packed)).str();
}

static uint32_t getAccess(bool isRead, bool isWritten) {
  return (isRead ? TDM_ACCESS_READ : 0u) | (isWritten ? TDM_ACCESS_WRITE : 0u);
}

tdm_plane_desc tandem::describePlane(const Plane &plane, StringRef role,
                                     bool isVisible, DescriptionTexts &texts) {
  tdm_plane_desc desc = {};
  desc.name = texts.add(role + plane.suffix);
  desc.bits = plane.elementType.getIntOrFloatBitWidth();
  desc.access = getAccess(plane.isRead || plane.isPersistent, plane.isWritten);
  desc.group = getRuntimeGroup(plane.group);
  desc.history = plane.history;
  desc.per = TDM_PER_ELEMENT;
  desc.rows = plane.group.isBlock() ? plane.group.rows : 1;
  desc.transposed = plane.isTransposed;
  desc.role = texts.add(role);
  desc.kind = TDM_ROLE_STATE;
  desc.type = texts.add(printEntryType(plane));
  desc.visible = isVisible;
  desc.persistent = plane.isPersistent;
  desc.doc = desc.external = "";
  return desc;
}

/// Describes a tensor in words.
static std::string describeTensor(RoleAttr role) {
  switch (role.getMoment()) {
  case Moment::none:
    return stringifyRoleKind(role.getKind()).str();
  case Moment::first:
    return "first moment of the gradients";
  case Moment::second:
    return "second moment of the gradients";
  case Moment::slow:
    return "first moment of the gradients over many steps";
  case Moment::average:
    return "average of the weights over steps";
  }
  llvm_unreachable("every moment is listed");
}

void KernelDescription::addPlanes(KernelOp kernel, unsigned tensor) {
  RoleAttr role = kernel.getTensorRole(tensor);
  StorageAttrInterface storage = kernel.getTensorType(tensor).getStorage();
  const char *doc =
      texts.add(describeTensor(role) + ", stored as " + print(storage));
  for (auto [index, plane] : llvm::enumerate(storage.getPlanes())) {
    planes.push_back(describePlane(plane, role.getName(),
                                   storage.getVisiblePlane() == index, texts));
    tdm_plane_desc &desc = planes.back();
    desc.kind = static_cast<tdm_role>(role.getKind());
    desc.access = getAccess(role.readsPlane(plane), role.writesPlane(plane));
    desc.per = getRuntimeGranularity(role.getPer());
    desc.doc = doc;
    if (StringAttr external = role.getExternal())
      desc.external = texts.add(external.strref());
  }
}

std::string tandem::getSharingText(const tdm_plane_desc &plane) {
  tdm_plane_sharing sharing;
  tdm_plane_get_sharing(&plane, &sharing);
  return sharing.text;
}

double tandem::getBitsPerElement(const tdm_plane_desc &plane) {
  int64_t elements = tdm_plane_elements_per_entry(&plane);
  return elements ? double(plane.bits) / double(elements) : 0.0;
}

double tandem::getBytesPerParameter(const tdm_kernel_info &info) {
  double bits = 0;
  for (const tdm_plane_desc &plane : getPlanes(info))
    if (!*plane.external)
      bits += getBitsPerElement(plane);
  return bits / 8.0;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// Returns the smallest number that does not round to zero. Numbers up to half
/// the smallest subnormal round to zero (ties to even).
static double getSmallestNonzero(Type format) {
  FloatFormat f = FloatFormat::get(format);
  double tie = std::ldexp(1.0, f.minExponent() - int(f.mantissaBits) - 1);
  return std::nextafter(tie, 1.0);
}

static tdm_hyper_desc getHyper(RoleAttr role, const char *name,
                               double smallest) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  bool isAny = role.getDomain() == Domain::any;
  tdm_hyper_desc desc = {};
  desc.name = name;
  desc.min = isAny ? -infinity : 0.0;
  desc.max = role.getDomain() == Domain::unit ? 1.0 : infinity;
  desc.min_open = isAny;
  desc.max_open = true;
  desc.min_positive = role.getDomain() == Domain::epsilon ? smallest : 0.0;
  if (FloatAttr value = role.getDefaultValue()) {
    desc.has_default = true;
    desc.default_value = value.getValueAsDouble();
  }
  return desc;
}

void KernelDescription::addScalars(KernelOp kernel) {
  double smallest = getSmallestNonzero(kernel.getCompute().getFormat());
  for (auto role : kernel.getScalarRoles().getAsRange<RoleAttr>()) {
    const char *name = texts.add(role.getName().strref());
    int64_t min = role.getKind() == RoleKind::step ? 1 : INT64_MIN;
    if (role.getKind() == RoleKind::hyper)
      hypers.push_back(getHyper(role, name, smallest));
    else
      integers.push_back({name, min, static_cast<tdm_role>(role.getKind())});
  }
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Returns whether a tensor is a second moment, which is never negative.
static bool isSecondMoment(RoleAttr role) {
  return role.getKind() == RoleKind::state &&
         role.getMoment() == Moment::second &&
         role.getDomain() == Domain::nonneg;
}

void KernelDescription::addTensors(KernelOp kernel) {
  for (unsigned i = 0; i < kernel.getNumTensors(); ++i) {
    RoleAttr role = kernel.getTensorRole(i);
    tensors.push_back({texts.add(role.getName().strref()),
                       texts.add(print(kernel.getTensorType(i).getStorage())),
                       isSecondMoment(role)});
  }
  info.tensors = tensors.data();
  info.num_tensors = tensors.size();
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Returns whether the graph declares its tensors with one dimension.
static bool isFlat(KernelOp kernel) {
  for (unsigned i = 0; i < kernel.getNumTensors(); ++i)
    if (kernel.getTensorRole(i).getPer() != Granularity::element ||
        kernel.getTensorType(i).getLogical().getRank() != 1)
      return false;
  return true;
}

KernelDescription::KernelDescription(KernelOp kernel, StringRef strategy) {
  for (unsigned i = 0; i < kernel.getNumTensors(); ++i)
    addPlanes(kernel, i);
  addScalars(kernel);
  desc.struct_size = sizeof(desc);
  desc.name = texts.add(kernel.getSymName());
  desc.planes = planes.data();
  desc.num_planes = planes.size();
  desc.hypers = hypers.data();
  desc.num_hypers = hypers.size();
  desc.integers = integers.data();
  desc.num_integers = integers.size();
  desc.num_scalars = kernel.getUniforms().size();
  desc.workspace_doubles_per_chunk = kernel.getNumMetrics();
  desc.matrix = kernel.isMatrix();
  desc.block = kernel.getBlockSize();
  desc.flat_graph = isFlat(kernel);
  info.struct_size = sizeof(info);
  info.name = info.graph = desc.name;
  info.strategy = texts.add(strategy);
  ComputeAttr compute = kernel.getCompute();
  info.compute = texts.add(stringifyPolicy(compute.getPolicy()) + " " +
                           print(compute.getFormat()));
  info.desc = &desc;
  info.prologue = texts.add(getPrologueName(desc.name));
  bool hasFlags = !kernel.getBodyBlock().getOps<SetFlagOp>().empty();
  info.flags = hasFlags ? TDM_FLAG_NON_FINITE : 0;
  addTensors(kernel);
}

tdm_part_info KernelDescription::getPart(LaunchOp launch) {
  // In the runtime, an epilogue per tensor is one per element.
  Granularity per =
      launch.isPerTensor() ? Granularity::element : launch.getPer();
  return {texts.add(getEntryName(launch.getFunctionName())),
          getRuntimeGranularity(per), uint32_t(launch.getFusedWithPrevious())};
}

void KernelDescription::addLaunches(StepOp step) {
  reductions.resize(step.getReductions());
  for (LaunchOp launch : step.getLaunchOps()) {
    if (launch.getRole() == LaunchRole::epilogue) {
      epilogues.push_back(getPart(launch));
      continue;
    }
    uint32_t phase = phases.size();
    for (auto op : launch.getBodyBlock().getOps<PartialOp>())
      reductions[op.getIndex()] = {
          static_cast<tdm_reduction_kind>(op.getKind()), phase,
          getRuntimeScope(op.getScope())};
    if (ArrayAttr names = launch.getExternalsAttr())
      for (auto name : names.getAsRange<StringAttr>())
        externals.push_back({texts.add(name.strref()), phase});
    phases.push_back(getPart(launch));
    reductionGranularities.push_back(phases.back().per);
    fusedWithPrevious.push_back(phases.back().fused_with_previous);
  }
  desc.reductions = reductions.data();
  desc.num_reductions = reductions.size();
  desc.num_reduction_entries = phases.size() - 1;
  desc.reduction_granularities = reductionGranularities.data();
  desc.fused_with_previous = fusedWithPrevious.data();
  desc.externals = externals.data();
  desc.num_externals = externals.size();
  info.phases = phases.data();
  info.num_phases = phases.size();
  info.epilogues = epilogues.data();
  info.num_epilogues = epilogues.size();
}

void KernelDescription::addImage(Image added) {
  const Image &code = codes.emplace_back(std::move(added));
  tdm_image image = {};
  image.kind = code.kind.c_str();
  image.target = code.target.c_str();
  image.data = code.data.data();
  image.size = code.data.size();
  image.assembler = code.assembler.c_str();
  image.level = code.level;
  images.push_back(image);
  info.images = images.data();
  info.num_images = images.size();
}

std::string tandem::getTitle(const tdm_kernel_info &info) {
  std::string name = info.graph;
  return *info.strategy ? name + " under " + info.strategy : name;
}
