//===- Memory.cpp - What a launch reads and writes ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the binding of tensors and scalars to a machine's state,
// with an error for everything that a launch refuses.
//
//===----------------------------------------------------------------------===//

#include "tandem/Reference/Interpreter/Arithmetic.h"
#include "tandem/Reference/Interpreter/Storage.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::reference;

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

/// Returns the number of bits of each of an entry's codes.
static unsigned getCodeBits(const Plane &plane) {
  return plane.elementType.getIntOrFloatBitWidth() / plane.packed;
}

unsigned BoundTensor::getShift(const Plane &plane, uint64_t element) const {
  return element % columns % plane.packed * getCodeBits(plane);
}

uint64_t BoundTensor::readPlane(unsigned index, uint64_t element) const {
  const Plane &plane = planes[index];
  uint64_t entry = data[index]->elements[getEntry(plane, element)];
  if (plane.packed == 1)
    return entry;
  return entry >> getShift(plane, element) &
         llvm::maskTrailingOnes<uint64_t>(getCodeBits(plane));
}

void BoundTensor::writePlane(unsigned index, uint64_t element,
                             uint64_t code) const {
  const Plane &plane = planes[index];
  uint64_t &entry = data[index]->elements[getEntry(plane, element)];
  if (plane.packed == 1) {
    entry = code;
    return;
  }
  // The codes of elements past the end of a row are 0.
  unsigned shift = getShift(plane, element);
  bool isLast = (element + 1) % columns == 0;
  uint64_t own = llvm::maskTrailingOnes<uint64_t>(getCodeBits(plane)) << shift;
  uint64_t kept = isLast ? llvm::maskTrailingOnes<uint64_t>(shift) : ~own;
  entry = (entry & kept) | code << shift;
}

Codes BoundTensor::read(uint64_t element) const {
  Codes codes;
  for (auto [index, plane] : llvm::enumerate(planes))
    codes.push_back(role.readsPlane(plane) ? readPlane(index, element) : 0);
  return codes;
}

void BoundTensor::write(uint64_t element, ArrayRef<uint64_t> codes) const {
  // The state of delayed scaling, in the last planes, has no codes.
  for (auto [index, code] : llvm::enumerate(codes))
    if (planes[index].isWritten)
      writePlane(index, element, code);
}

uint64_t BoundTensor::getNumEntries(const Plane &plane) const {
  if (plane.group.isTensor() || numElements == 0)
    return (numElements != 0) * std::max<uint64_t>(1, plane.history);
  uint64_t rows = llvm::divideCeil(numElements / columns, plane.group.rows);
  return rows * llvm::divideCeil(columns, plane.group.columns);
}

uint64_t BoundTensor::getEntry(const Plane &plane, uint64_t element) const {
  if (plane.group.isTensor())
    return 0;
  if (plane.isTransposed)
    return element % columns * (numElements / columns) + element / columns;
  return element / columns / plane.group.rows *
             llvm::divideCeil(columns, plane.group.columns) +
         element % columns / plane.group.columns;
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
/// Binds one tensor after another, and then determines how many elements they
/// have.
class Binder {
public:
  explicit Binder(MachineState &state) : state(state) {}

  llvm::Error add(RoleAttr role, StorageAttrInterface storage);
  /// Takes the size of flat tensors from the first plane with an entry for each
  /// element, or else from the first with one for several.
  void measureFlat();
  /// Takes the numbers of rows and columns from the first matrix.
  llvm::Error measureMatrices();
  /// Compares all planes with the size, and creates missing planes that are
  /// only written.
  llvm::Expected<BoundTensors> finish();

private:
  llvm::Error measure(const BoundTensor &matrix);
  void setSize(BoundTensor &tensor) const;
  llvm::Error checkEntries(const BoundTensor &tensor, unsigned plane) const;
  std::string explainEntries(const BoundTensor &tensor,
                             const Plane &plane) const;

  MachineState &state;
  BoundTensors bound;
  llvm::StringSet<> names;
  /// The plane that determined the size.
  std::string measuredBy;
  bool isMatrix = false;
};
} // namespace

static std::string planeName(RoleAttr role, const Plane &plane) {
  return (role.getName().getValue() + plane.suffix).str();
}

static llvm::Error checkWidth(StringRef name, const Plane &plane,
                              const PlaneData &data) {
  unsigned width = plane.elementType.getIntOrFloatBitWidth();
  if (data.width == width)
    return llvm::Error::success();
  return makeError("plane '" + name + "' has elements of " +
                   llvm::Twine(data.width) + " bits, but " +
                   describe(plane.elementType) + " has " + llvm::Twine(width));
}

llvm::Error reference::checkFirst(const MachineState &state, uint64_t group,
                                  const llvm::Twine &what) {
  if (state.first % group == 0)
    return llvm::Error::success();
  if (group == uint64_t(Group::all))
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
  // A function that only reads a tensor does not read its transposed copy.
  if (!role.isDestination())
    llvm::erase_if(tensor.planes,
                   [](const Plane &plane) { return plane.isTransposed; });
  for (const Plane &plane : tensor.planes) {
    std::string name = planeName(role, plane);
    if (!names.insert(name).second)
      return makeError("plane '" + name +
                       "' is one of two tensors; give one of their roles "
                       "another name");
    if (llvm::Error error =
            checkFirst(state, plane.group.columns, "plane '" + name + "'"))
      return error;
    auto found = state.planes.find(name);
    tensor.data.push_back(found == state.planes.end() ? nullptr
                                                      : &found->second);
    if (found == state.planes.end()) {
      if (role.readsPlane(plane))
        return makeError("there is no plane '" + name + "'; " +
                         stringifyRoleKind(role.getKind()) + " '" +
                         role.getName().getValue() + "' stored as " +
                         describe(storage) + " needs it");
      continue;
    }
    if (llvm::Error error = checkWidth(name, plane, found->second))
      return error;
  }
  tensor.number = bound.tensors.size();
  bound.tensors.push_back(std::move(tensor));
  return llvm::Error::success();
}

void Binder::measureFlat() {
  // Entries of several codes may hold some past the end, so that other planes
  // say more.
  for (bool isPacked : {false, true})
    for (const BoundTensor &tensor : bound.tensors)
      for (auto [plane, data] : llvm::zip(tensor.planes, tensor.data)) {
        if (!data || !measuredBy.empty() || !plane.isOfElements() ||
            (plane.packed > 1) != isPacked)
          continue;
        measuredBy = planeName(tensor.role, plane);
        bound.numElements = bound.columns =
            data->elements.size() * plane.packed;
      }
}

llvm::Error Binder::measureMatrices() {
  isMatrix = true;
  for (const BoundTensor &tensor : bound.tensors)
    if (tensor.role.getPer() == Granularity::element)
      if (llvm::Error error = measure(tensor))
        return error;
  if (!measuredBy.empty())
    return llvm::Error::success();
  return makeError("no tensor of the graph is a matrix, whose plane would say "
                   "how many rows and columns there are");
}

/// Takes the shape of the first matrix, and checks that all others have the
/// same.
llvm::Error Binder::measure(const BoundTensor &matrix) {
  for (auto [plane, data] : llvm::zip(matrix.planes, matrix.data)) {
    if (!data || !(plane.group == Group()))
      continue;
    std::string name = planeName(matrix.role, plane);
    if (data->shape.size() != 2)
      return makeError("plane '" + name +
                       "' belongs to a matrix, but its array has no rows and "
                       "columns; pass one of two dimensions");
    uint64_t rows = data->shape[0], columns = data->shape[1];
    if (plane.isTransposed)
      std::swap(rows, columns);
    if (measuredBy.empty()) {
      measuredBy = name;
      bound.rows = rows, bound.columns = columns;
      bound.numElements = rows * columns;
    }
    if (rows != bound.rows || columns != bound.columns)
      return makeError(llvm::formatv(
          "plane '{0}' is {6} of {1} x {2}, but '{3}' is one of {4} x {5}; "
          "all matrices have one shape",
          name, rows, columns, measuredBy, bound.rows, bound.columns,
          plane.isTransposed ? "the transpose of a matrix" : "a matrix"));
  }
  return llvm::Error::success();
}

void Binder::setSize(BoundTensor &tensor) const {
  tensor.numElements = bound.numElements;
  tensor.columns = bound.columns;
  Granularity per = tensor.role.getPer();
  if (isMatrix && per != Granularity::element)
    tensor.numElements = tensor.columns =
        per == Granularity::row ? bound.rows : bound.columns;
}

std::string Binder::explainEntries(const BoundTensor &tensor,
                                   const Plane &plane) const {
  Granularity per = tensor.role.getPer();
  if (plane.history)
    return llvm::formatv("a whole tensor has a history of {0}", plane.history);
  if (plane.group.isTensor())
    return "a whole tensor shares one entry";
  if (plane.group.isRow())
    return "it has an entry for each row";
  if (plane.group.isBlock())
    return llvm::formatv("an entry for each block of {0}x{1} makes {2}",
                         plane.group.rows, plane.group.columns,
                         tensor.getNumEntries(plane));
  if (plane.group == Group() && isMatrix)
    return "it has an entry for each " + stringifyGranularity(per).str();
  if (plane.group == Group())
    return "all planes have one size";
  bool isInRows = isMatrix && per == Granularity::element;
  return llvm::formatv("an entry for each {0} of {1} makes {2}",
                       plane.group.columns, isInRows ? "a row" : "them",
                       tensor.getNumEntries(plane));
}

llvm::Error Binder::checkEntries(const BoundTensor &tensor,
                                 unsigned index) const {
  const Plane &plane = tensor.planes[index];
  size_t got = tensor.data[index]->elements.size();
  if (got == tensor.getNumEntries(plane))
    return llvm::Error::success();
  std::string size =
      isMatrix
          ? llvm::formatv("is a matrix of {0} x {1}", bound.rows, bound.columns)
                .str()
          : llvm::formatv("has {0}", bound.numElements).str();
  return makeError("plane '" + planeName(tensor.role, plane) + "' has " +
                   llvm::Twine(got) + " elements, but '" + measuredBy + "' " +
                   size + "; " + explainEntries(tensor, plane));
}

llvm::Expected<BoundTensors> Binder::finish() {
  for (BoundTensor &tensor : bound.tensors) {
    setSize(tensor);
    for (auto [index, plane] : llvm::enumerate(tensor.planes)) {
      PlaneData *&data = tensor.data[index];
      if (!data) {
        data = &state.planes[planeName(tensor.role, plane)];
        data->width = plane.elementType.getIntOrFloatBitWidth();
        data->elements.resize(tensor.getNumEntries(plane));
      }
      if (llvm::Error error = checkEntries(tensor, index))
        return error;
    }
  }
  return std::move(bound);
}

static llvm::Expected<Binder>
addTensors(ArrayRef<RoleAttr> roles, ArrayRef<StorageAttrInterface> storages,
           MachineState &state) {
  Binder binder(state);
  for (auto [role, storage] : llvm::zip(roles, storages))
    if (llvm::Error error = binder.add(role, storage))
      return error;
  return binder;
}

llvm::Expected<BoundTensors>
reference::bindTensors(ArrayRef<RoleAttr> roles,
                       ArrayRef<StorageAttrInterface> storages,
                       MachineState &state) {
  llvm::Expected<Binder> binder = addTensors(roles, storages, state);
  if (!binder)
    return binder.takeError();
  binder->measureFlat();
  return binder->finish();
}

llvm::Expected<BoundTensors>
reference::bindMatrices(ArrayRef<RoleAttr> roles,
                        ArrayRef<StorageAttrInterface> storages,
                        MachineState &state) {
  if (state.first != 0)
    return makeError("element 0 is number " + llvm::Twine(state.first) +
                     " of the unsharded tensor, but a graph of matrices takes "
                     "whole ones; pass the unsharded tensor");
  llvm::Expected<Binder> binder = addTensors(roles, storages, state);
  if (!binder)
    return binder.takeError();
  if (llvm::Error error = binder->measureMatrices())
    return error;
  return binder->finish();
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// Returns why a hyperparameter's value is outside its domain, or "" if it is
/// inside.
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

uint16_t BoundTensor::drawBits(const MachineState &state,
                               uint64_t element) const {
  element += uint64_t(state.first);
  switch (storage.getRounding()) {
  case RoundingMode::stochastic:
    return drawRandomBits(state.seed, state.key, uint32_t(state.step), element);
  case RoundingMode::dither:
    return drawDitherBits(state.seed, state.key, number, uint32_t(state.step),
                          element);
  case RoundingMode::nearest:
  case RoundingMode::toward_zero:
    return 0;
  }
  llvm_unreachable("every rounding is handled above");
}

//===----------------------------------------------------------------------===//
// External steps
//===----------------------------------------------------------------------===//

llvm::Error reference::callExternal(StringRef name, MachineState &state) {
  if (state.external)
    return state.external(name, state);
  return makeError("the host computes the step '" + name +
                   "', for which there is no function; give the interpreter "
                   "one of this name");
}

llvm::Error reference::computeExternals(
    ArrayRef<RoleAttr> roles, MachineState &state,
    llvm::function_ref<llvm::Error(MachineState &)> run) {
  llvm::SmallSetVector<StringAttr, 2> steps;
  for (RoleAttr role : roles)
    if (role.getKind() == RoleKind::sent)
      steps.insert(role.getExternal());
  for (StringAttr step : steps) {
    MachineState probe = state;
    if (llvm::Error error = run(probe))
      return error;
    for (RoleAttr role : roles)
      if (role.getKind() == RoleKind::sent && role.getExternal() == step)
        state.planes[role.getName().str()] = probe.planes[role.getName().str()];
    if (llvm::Error error = callExternal(step, state))
      return error;
  }
  return run(state);
}
