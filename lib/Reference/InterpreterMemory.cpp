//===- InterpreterMemory.cpp - What a launch reads and writes -------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the binding of tensors and scalars to a machine's state,
// with a message for everything that a launch refuses.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/InterpreterArithmetic.h"
#include "tandem/Reference/InterpreterStorage.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::tandem;
using namespace mlir::tandem::reference;

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Codes BoundTensor::read(uint64_t element) const {
  Codes codes;
  for (auto [plane, values] : llvm::zip(planes, data))
    codes.push_back(plane.isRead || plane.isKept
                        ? values->elements[element / plane.group]
                        : 0);
  return codes;
}

void BoundTensor::write(uint64_t element, ArrayRef<uint64_t> codes) const {
  for (auto [plane, values, code] : llvm::zip(planes, data, codes))
    if (plane.isWritten)
      values->elements[element / plane.group] = code;
}

uint32_t reference::getFlags(const BoundTensor &tensor,
                             ArrayRef<uint64_t> codes) {
  if (tensor.role.getKind() != RoleKind::grad)
    return 0;
  for (auto [plane, code] : llvm::zip(tensor.planes, codes)) {
    std::optional<Format> format = getFormat(plane.elementType);
    if (format && plane.isRead &&
        !SoftFloat::fromBits(*format, code).isFinite())
      return 1;
  }
  return 0;
}

namespace {
/// Binds one tensor after another; the first plane sets the size.
class Binder {
public:
  explicit Binder(MachineState &state) : state(state) {}

  llvm::Error add(RoleAttr role, StorageAttrInterface storage);
  /// Creates the planes that are only written and not there yet.
  llvm::Expected<BoundTensors> finish();

private:
  llvm::Error check(StringRef name, const Plane &plane, const PlaneData &data);

  MachineState &state;
  BoundTensors bound;
  /// The plane that set the size.
  std::string measure;
};
} // namespace

static std::string planeName(RoleAttr role, const Plane &plane) {
  return (role.getName().getValue() + plane.suffix).str();
}

static uint64_t getNumEntries(const Plane &plane, uint64_t numElements) {
  uint64_t entries = llvm::divideCeil(numElements, plane.group);
  return plane.history ? entries * plane.history : entries;
}

llvm::Error Binder::check(StringRef name, const Plane &plane,
                          const PlaneData &data) {
  unsigned width = plane.elementType.getIntOrFloatBitWidth();
  if (data.width != width)
    return makeError("plane '" + name + "' has elements of " +
                     llvm::Twine(data.width) + " bits, but " +
                     describe(plane.elementType) + " has " +
                     llvm::Twine(width));
  if (measure.empty()) {
    measure = name.str();
    bound.numElements = data.elements.size();
  }
  if (data.elements.size() == getNumEntries(plane, bound.numElements))
    return llvm::Error::success();
  std::string fix =
      plane.group == 1 ? "all planes have one size"
      : plane.history
          ? llvm::formatv("a whole tensor has a history of {0}", plane.history)
                .str()
      : plane.group == Plane::wholeTensor
          ? "a whole tensor shares one entry"
          : llvm::formatv("an entry for each {0} of them makes {1}",
                          plane.group, getNumEntries(plane, bound.numElements))
                .str();
  return makeError("plane '" + name + "' has " +
                   llvm::Twine(data.elements.size()) + " elements, but '" +
                   measure + "' has " + llvm::Twine(bound.numElements) + "; " +
                   fix);
}

llvm::Error reference::checkFirst(const MachineState &state, uint64_t group,
                                  const llvm::Twine &what) {
  if (state.first % group == 0)
    return llvm::Error::success();
  if (group == Plane::wholeTensor)
    return makeError(what +
                     " takes the whole tensor, but element 0 is number " +
                     llvm::Twine(state.first) +
                     " of the unsharded tensor; pass the unsharded tensor");
  return makeError(
      what + " counts in groups of " + llvm::Twine(group) +
      " elements, but element 0 is number " + llvm::Twine(state.first) +
      " of the unsharded tensor; begin at a multiple of " + llvm::Twine(group));
}

llvm::Error Binder::add(RoleAttr role, StorageAttrInterface storage) {
  if (llvm::Error error = checkKnown(storage))
    return error;
  BoundTensor tensor{role, storage, storage.getPlanes(), {}};
  for (const Plane &plane : tensor.planes) {
    std::string name = planeName(role, plane);
    if (llvm::Error error =
            checkFirst(state, plane.group, "plane '" + name + "'"))
      return error;
    auto found = state.planes.find(name);
    tensor.data.push_back(found == state.planes.end() ? nullptr
                                                      : &found->second);
    if (found == state.planes.end()) {
      if (plane.isRead || plane.isKept)
        return makeError("there is no plane '" + name + "'; " +
                         stringifyRoleKind(role.getKind()) + " '" +
                         role.getName().getValue() + "' stored as " +
                         describe(storage) + " needs it");
      continue;
    }
    if (llvm::Error error = check(name, plane, found->second))
      return error;
  }
  bound.tensors.push_back(std::move(tensor));
  return llvm::Error::success();
}

llvm::Expected<BoundTensors> Binder::finish() {
  for (BoundTensor &tensor : bound.tensors)
    for (auto [plane, data] : llvm::zip(tensor.planes, tensor.data)) {
      if (data)
        continue;
      PlaneData &created = state.planes[planeName(tensor.role, plane)];
      created.width = plane.elementType.getIntOrFloatBitWidth();
      created.elements.resize(getNumEntries(plane, bound.numElements));
      data = &created;
    }
  return std::move(bound);
}

llvm::Expected<BoundTensors>
reference::bindTensors(ArrayRef<RoleAttr> roles,
                       ArrayRef<StorageAttrInterface> storages,
                       MachineState &state) {
  Binder binder(state);
  for (auto [role, storage] : llvm::zip(roles, storages))
    if (llvm::Error error = binder.add(role, storage))
      return error;
  return binder.finish();
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// Why a hyperparameter's value is outside its domain; empty if it is not.
static StringRef explainDomain(Domain domain, double value,
                               ComputeAttr compute) {
  switch (domain) {
  case Domain::any:
    return "";
  case Domain::nonneg:
    return value >= 0 ? "" : "must not be negative";
  case Domain::unit:
    return value >= 0 && value < 1 ? "" : "must be in [0, 1)";
  case Domain::epsilon:
    break;
  }
  if (!(value >= 0))
    return "must be zero or positive";
  Format format = *getFormat(compute.getFormat());
  bool vanishes = value > 0 && SoftFloat::fromDouble(format, value).isZero();
  return vanishes ? "rounds to zero in the component format; take a larger one"
                  : "";
}

llvm::Error reference::checkScalar(RoleAttr role, const MachineState &state,
                                   ComputeAttr compute) {
  StringRef name = role.getName().getValue();
  if (role.getKind() == RoleKind::step && state.step < 1)
    return makeError("step '" + name + "' is " + llvm::Twine(state.step) +
                     "; steps count from 1");
  if (role.getKind() != RoleKind::hyper)
    return llvm::Error::success();
  auto hyper = state.hypers.find(name.str());
  if (hyper == state.hypers.end())
    return makeError("there is no value for the hyperparameter '" + name + "'");
  StringRef why = explainDomain(role.getDomain(), hyper->second, compute);
  if (why.empty())
    return llvm::Error::success();
  return makeError("hyperparameter '" + name + "' is " +
                   describe(llvm::format("%g", hyper->second)) + ": it " + why);
}

Number reference::getScalar(RoleAttr role, const MachineState &state) {
  if (role.getKind() == RoleKind::step)
    return Integer(64, state.step);
  if (role.getKind() == RoleKind::seed)
    return Integer(64, state.seed);
  double value = state.hypers.at(role.getName().str());
  return SoftFloat::fromDouble(Format::F64, value);
}

uint16_t reference::drawRandomBits(const MachineState &state,
                                   uint64_t element) {
  return drawRandomBits(state.seed, state.key, uint32_t(state.step),
                        uint64_t(state.first) + element);
}
