//===- Signature.cpp - Kernel signatures ----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file derives a kernel's signature from its storages and roles.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/FloatFormat.h"
#include "tandem/Target/Compiler.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::tandem;

static std::string print(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

std::string KernelSignature::getTitle() const {
  return strategy.empty() ? name : name + " under " + strategy;
}

KernelSignature::PlaneEntry KernelSignature::PlaneEntry::get(const Plane &plane,
                                                             bool isVisible) {
  return {plane.suffix,
          /*role=*/"",
          RoleKind::state,
          print(plane.elementType),
          plane.elementType.getIntOrFloatBitWidth(),
          plane.isRead || plane.isKept,
          plane.isWritten,
          isVisible,
          plane.group,
          plane.isKept,
          plane.history,
          Granularity::element,
          plane.isTransposed};
}

std::string KernelSignature::PlaneEntry::getSharers() const {
  if (group.isTensor())
    return "the tensor";
  if (group.isRow())
    return "each row";
  std::string size = std::to_string(group.columns);
  if (per == Granularity::element)
    return "each " + (group.isBlock() ? size + "x" + size : size);
  std::string place = stringifyGranularity(per).str();
  return "each " + (group == Group() ? place : size + " " + place + "s");
}

int64_t KernelSignature::PlaneEntry::getNumEntries(int64_t rows,
                                                   int64_t columns) const {
  auto divide = [&](int64_t places, int64_t group) {
    int64_t entries = places / group + (places % group != 0);
    return entries * std::max<int64_t>(1, history);
  };
  if (per == Granularity::row)
    return divide(rows, group.columns);
  if (per == Granularity::column)
    return divide(columns, group.columns);
  if (group.isTensor())
    return divide(rows * columns, Group::all);
  return divide(rows, group.rows) * divide(columns, group.columns);
}

double KernelSignature::getBytesPerParameter() const {
  double bits = 0;
  for (const PlaneEntry &plane : planes)
    if (plane.per == Granularity::element)
      bits += double(plane.bits) /
              (double(plane.group.columns) * double(plane.group.rows));
  return bits / 8.0;
}

/// Values up to half the smallest subnormal round to zero (ties to even).
static double getSmallestNonzero(Type format) {
  FloatFormat f = FloatFormat::get(format);
  double tie = std::ldexp(1.0, f.minExponent() - int(f.mantissaBits) - 1);
  return std::nextafter(tie, 1.0);
}

static void addPlanes(KernelOp kernel, unsigned tensor,
                      std::vector<KernelSignature::PlaneEntry> &planes) {
  RoleAttr role = kernel.getTensorRole(tensor);
  StorageAttrInterface storage = kernel.getTensorType(tensor).getStorage();
  for (auto [index, plane] : llvm::enumerate(storage.getPlanes())) {
    auto entry = KernelSignature::PlaneEntry::get(
        plane, storage.getVisiblePlane() == index);
    entry.role = role.getName().str();
    entry.name = entry.role + plane.suffix;
    entry.kind = role.getKind();
    entry.isRead = role.readsPlane(plane);
    entry.isWritten = role.writesPlane(plane);
    entry.per = role.getPer();
    planes.push_back(std::move(entry));
  }
}

/// Whether tensors are written with one dimension.
static bool isFlat(KernelOp kernel) {
  for (unsigned i = 0; i < kernel.getNumTensors(); ++i)
    if (kernel.getTensorRole(i).getPer() != Granularity::element ||
        cast<RankedTensorType>(kernel.getTensorType(i).getLogical())
                .getRank() != 1)
      return false;
  return true;
}

static KernelSignature::Hyper getHyper(std::string name,
                                       std::optional<double> defaultValue,
                                       Domain domain, double smallest) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  bool isAny = domain == Domain::any;
  return {std::move(name),         defaultValue,
          isAny ? -infinity : 0.0, domain == Domain::unit ? 1.0 : infinity,
          /*minOpen=*/isAny,
          /*maxOpen=*/true,        domain == Domain::epsilon ? smallest : 0.0};
}

KernelSignature KernelSignature::get(KernelOp kernel, StringRef strategy) {
  KernelSignature signature;
  signature.name = kernel.getSymName().str();
  signature.strategy = strategy.str();
  Type format = kernel.getCompute().getFormat();
  signature.compute = stringifyPolicy(kernel.getCompute().getPolicy()).str() +
                      " " + print(format);
  for (unsigned i = 0; i < kernel.getNumTensors(); ++i)
    addPlanes(kernel, i, signature.planes);
  for (auto role : kernel.getScalarRoles().getAsRange<RoleAttr>()) {
    std::string name = role.getName().str();
    if (role.getKind() != RoleKind::hyper) {
      signature.integers.push_back({name, role.getKind()});
      continue;
    }
    std::optional<double> value;
    if (role.getDefaultValue())
      value = role.getDefaultValue().getValueAsDouble();
    signature.hypers.push_back(
        getHyper(name, value, role.getDomain(), getSmallestNonzero(format)));
  }
  signature.numScalars = kernel.getUniforms().size();
  signature.numMetrics = kernel.getNumMetrics();
  signature.isMatrix = kernel.getMatrix();
  signature.isFlatGraph = isFlat(kernel);
  signature.block = kernel.getBlock();
  signature.hasFlags = !kernel.getBodyBlock().getOps<RaiseOp>().empty();
  return signature;
}

void KernelSignature::addParts(ModuleOp module) {
  phases.clear();
  for (auto kernel : module.getOps<KernelOp>()) {
    if (kernel.getPart() == KernelPart::commit) {
      commits.push_back(kernel.getPer());
      continue;
    }
    reductions.resize(kernel.getReductions());
    for (auto op : kernel.getBodyBlock().getOps<PartialOp>())
      reductions[op.getIndex()] = {op.getKind(), unsigned(phases.size()),
                                   op.getScope()};
    phases.push_back({kernel.getPer(), bool(kernel.getContinues())});
  }
}

std::string mlir::tandem::getPhaseName(const KernelSignature &signature,
                                       unsigned phase) {
  if (phase + 1 == signature.phases.size())
    return signature.name;
  return signature.name + "_phase" + std::to_string(phase);
}

std::string mlir::tandem::getCommitName(const KernelSignature &signature,
                                        Granularity per) {
  StringRef suffix = per == Granularity::row      ? "_rows"
                     : per == Granularity::column ? "_columns"
                     : per == Granularity::block  ? "_blocks"
                                                  : "";
  return (signature.name + "_commit" + suffix).str();
}
