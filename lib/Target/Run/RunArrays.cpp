//===- RunArrays.cpp - The arrays of a run --------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the arrays of a run: names, types, sizes, initial
// values.
//
//===----------------------------------------------------------------------===//

#include "RunArrays.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"

using namespace tandem;
using llvm::StringRef;
using llvm::Twine;

DType tandem::getFileType(const tdm_plane_desc &plane) {
  StringRef type = plane.type;
  if (type == "i16")
    return DType::U16;
  if (type == "i8" || type == "i4x2" || type == "f8E8M0FNU")
    return DType::U8;
  return *parseDType(type);
}

static bool isInteger(DType type) {
  return llvm::is_contained(
      {DType::U8, DType::I8, DType::U16, DType::I16, DType::U32, DType::I32},
      type);
}

static std::string listPlanes(const tdm_kernel_info &info) {
  return llvm::join(llvm::map_range(getPlanes(info),
                                    [](const tdm_plane_desc &plane) {
                                      return StringRef(plane.name);
                                    }),
                    ", ");
}

std::string RunArrays::listPlanesOf(StringRef role) const {
  std::string list;
  for (const tdm_plane_desc &plane : getPlanes(info))
    if (plane.role == role)
      list += (list.empty() ? "" : ", ") + std::string(plane.name);
  return list;
}

/// Returns a plane of the tensor whose name, followed by a dot, begins `name`,
/// or null.
const tdm_plane_desc *RunArrays::findRoleOf(StringRef name) const {
  for (const tdm_plane_desc &plane : getPlanes(info))
    if (StringRef rest = name;
        rest.consume_front(plane.role) && rest.starts_with("."))
      return &plane;
  return nullptr;
}

bool RunArrays::hasAnyPlane(StringRef role) const {
  return llvm::any_of(getPlanes(info), [&](const tdm_plane_desc &plane) {
    return plane.role == role && arrays.count(plane.name);
  });
}

/// Returns the step in a name such as "grad.12", or no value if there is none.
static std::optional<int64_t> getStepOf(llvm::StringRef name,
                                        llvm::StringRef plane) {
  int64_t step;
  if (!name.consume_front(plane) || !name.consume_front(".") ||
      name.getAsInteger(10, step))
    return std::nullopt;
  return step;
}

llvm::Error RunArrays::fail(const std::string &name, const Twine &problem,
                            const Twine &remedy) const {
  return llvm::createStringError("array '" + Twine(name) + "' " + problem +
                                 "; " + remedy);
}

llvm::Error RunArrays::load() {
  auto tensors = getTensors(kernel);
  if (!tensors)
    return tensors.takeError();
  for (KernelTensor &tensor : *tensors)
    storages[tensor.role] = std::move(tensor.storage);
  if (llvm::Error error = read())
    return error;
  if (llvm::Error error = checkNames())
    return error;
  for (const tdm_plane_desc &plane : getPlanes(info)) {
    bool isGrad = plane.kind == TDM_ROLE_GRAD;
    if (!isGrad && !arrays.count(plane.name))
      continue;
    if (llvm::Error error =
            isGrad ? checkGradient(plane) : checkArray(plane, plane.name))
      return error;
  }
  if (llvm::Error error = checkShared())
    return error;
  return createMissing();
}

llvm::Error RunArrays::read() {
  for (const std::string &input : options.inputs) {
    ArrayMetadata metadata;
    auto part = readArrays(input, &metadata);
    if (!part)
      return part.takeError();
    if (llvm::Error error = checkOrigin(input, *part, metadata))
      return error;
    if (llvm::Error error = noteStep(input, *part, metadata))
      return error;
    for (auto &[name, array] : *part)
      if (!arrays.try_emplace(name, std::move(array)).second)
        return fail(name, "is in more than one --input", "give it once");
  }
  return llvm::Error::success();
}

/// Refuses arrays that the kernel does not read, whose names may be misspelt.
llvm::Error RunArrays::checkNames() {
  for (const auto &[name, array] : arrays) {
    bool isKnown =
        llvm::any_of(getPlanes(info), [&](const tdm_plane_desc &plane) {
          return name == plane.name ||
                 (plane.kind == TDM_ROLE_GRAD && getStepOf(name, plane.name));
        });
    if (isKnown)
      continue;
    if (const tdm_plane_desc *near = findRoleOf(name))
      return fail(name, "is not a plane of " + Twine(getTitle(info)),
                  Twine("it keeps '") + near->role + "' as " +
                      listPlanesOf(near->role) +
                      "; another strategy's state is converted by "
                      "tandem.convert_state");
    return fail(name, "is not a plane of " + Twine(getTitle(info)),
                "its planes are " + listPlanes(info));
  }
  return llvm::Error::success();
}

std::string RunArrays::getGradientName(const tdm_plane_desc &plane,
                                       int64_t step) const {
  std::string name = plane.name;
  return arrays.count(name) ? name : name + "." + std::to_string(step + 1);
}

llvm::Error RunArrays::checkGradient(const tdm_plane_desc &plane) {
  bool isConstant = arrays.count(plane.name);
  for (const auto &[name, array] : arrays) {
    auto step = getStepOf(name, plane.name);
    if (!step)
      continue;
    if (isConstant)
      return fail(name, "stands beside '" + Twine(plane.name) + "'",
                  "give one gradient for all steps or one for each");
    if (*step < 1 || *step > options.steps)
      return fail(name, "belongs to no step of --steps=" + Twine(options.steps),
                  "number gradients from 1, one for each step");
  }
  for (int64_t step = 0; step < (isConstant ? 1 : options.steps); ++step) {
    std::string name = getGradientName(plane, step);
    if (!arrays.count(name))
      return fail(name, "is missing",
                  "the input needs '" + Twine(plane.name) +
                      "' for all steps, or '" + plane.name + ".1' to '" +
                      plane.name + "." + Twine(options.steps) + "'");
    if (llvm::Error error = checkArray(plane, name))
      return error;
  }
  return llvm::Error::success();
}

std::string RunArrays::describe(int64_t height, int64_t width) const {
  if (!info.desc->matrix)
    return std::to_string(width) + " elements";
  return std::to_string(height) + " rows of " + std::to_string(width);
}

llvm::Error RunArrays::checkArray(const tdm_plane_desc &plane,
                                  const std::string &name) {
  Array &array = arrays.at(name);
  DType wanted = getFileType(plane);
  // .npy files hold bf16 and 8-bit floats as integers of the same width.
  bool fits = array.type == wanted ||
              (isInteger(array.type) && array.reinterpret(wanted));
  if (!fits)
    return fail(name, "holds " + getName(array.type),
                getTitle(info) + Twine(" keeps '") + plane.name + "' as " +
                    getName(wanted) + " (or integers of that width)");
  if (!hasEntryPerElement(plane))
    return llvm::Error::success();
  if (info.desc->matrix && array.shape.size() != 2)
    return fail(name, "has " + Twine(array.shape.size()) + " dimensions",
                getTitle(info) + Twine(" updates matrices"));
  int64_t height = info.desc->matrix ? array.shape[0] : 1;
  int64_t width = info.desc->matrix ? array.shape[1] : array.getNumElements();
  if (plane.transposed)
    std::swap(height, width);
  if (rows < 0) {
    rows = height;
    columns = width;
    sizedBy = name;
  }
  if (height != rows || width != columns)
    return fail(name,
                (plane.transposed ? "is the transpose of " : "has ") +
                    describe(height, width) + ", '" + sizedBy + "' has " +
                    describe(rows, columns),
                "all arrays must have one size");
  return llvm::Error::success();
}

/// Checks the sizes of the arrays that have no entry per element, such as
/// scales, once the other arrays have determined the common size.
llvm::Error RunArrays::checkShared() const {
  for (const tdm_plane_desc &plane : getPlanes(info)) {
    auto found = arrays.find(plane.name);
    if (hasEntryPerElement(plane) || found == arrays.end())
      continue;
    int64_t entries = tdm_plane_num_entries(&plane, rows, columns);
    bool isOfElements = tdm_plane_elements_per_entry(&plane) > 0;
    if (found->second.getNumElements() != entries)
      return fail(
          plane.name,
          "has " + Twine(found->second.getNumElements()) + " elements, '" +
              sizedBy + "' has " + describe(rows, columns),
          (plane.history ? std::to_string(plane.history) : "one") + " for " +
              getSharingText(plane) + (isOfElements ? " of them" : "") +
              " makes " + Twine(entries));
  }
  return llvm::Error::success();
}

/// Returns whether the value of a param is given: by an array for the plane
/// that frameworks read as the value, or for every plane that the kernel reads.
bool RunArrays::hasValue(const std::string &role) const {
  return llvm::all_of(getPlanes(info), [&](const tdm_plane_desc &plane) {
    return plane.role != role || !isRead(plane) || arrays.count(plane.name) ||
           arrays.count(role);
  });
}

llvm::Error RunArrays::checkMissing() const {
  std::vector<std::string> missing;
  bool isPartial = false;
  for (const tdm_plane_desc &plane : getPlanes(info)) {
    if (plane.kind == TDM_ROLE_GRAD || !isRead(plane) ||
        arrays.count(plane.name))
      continue;
    if (!options.initialize) {
      missing.push_back("'" + std::string(plane.name) + "'");
      isPartial |= hasAnyPlane(plane.role);
    } else if (plane.kind == TDM_ROLE_PARAM && !hasValue(plane.role)) {
      return fail(plane.role, "is missing", "--initialize begins from it");
    }
  }
  if (missing.empty())
    return llvm::Error::success();
  return llvm::createStringError(
      "the input lacks " + llvm::join(missing, ", ") + " of " + getTitle(info) +
      "; add them, or give --initialize to begin from the param" +
      (isPartial ? ", or convert another strategy's state with "
                   "tandem.convert_state"
                 : ""));
}

llvm::Error RunArrays::createMissing() {
  if (llvm::Error error = checkMissing())
    return error;
  for (const tdm_plane_desc &plane : getPlanes(info))
    if (plane.kind != TDM_ROLE_GRAD && !arrays.count(plane.name))
      if (llvm::Error error = create(plane))
        return error;
  return llvm::Error::success();
}

static const llvm::fltSemantics *getSemantics(DType type) {
  switch (type) {
  case DType::BF16:
    return &llvm::APFloat::BFloat();
  case DType::F16:
    return &llvm::APFloat::IEEEhalf();
  default:
    return nullptr;
  }
}

/// Converts an array of 16-bit floats to f32, which is exact.
static void widen(const Array &from, const llvm::fltSemantics &semantics,
                  Array &to) {
  for (auto [bits, value] :
       llvm::zip_equal(from.values<uint16_t>(), to.values<float>())) {
    llvm::APFloat number(semantics, llvm::APInt(16, bits));
    value = number.convertToFloat();
  }
}

/// Creates the array of a plane with zeros. An f32 master of a 16-bit weight
/// gets the weight's values.
llvm::Error RunArrays::create(const tdm_plane_desc &plane) {
  const Array &model = arrays.at(sizedBy);
  auto shape = model.shape;
  if (!hasEntryPerElement(plane))
    shape = {tdm_plane_num_entries(&plane, rows, columns)};
  else if (plane.transposed)
    shape = {columns, rows};
  auto array = Array::create(getFileType(plane), shape);
  if (!array)
    return array.takeError();
  auto visible = arrays.find(plane.role);
  bool isMaster = plane.kind == TDM_ROLE_PARAM && array->type == DType::F32 &&
                  !plane.visible && visible != arrays.end();
  if (isMaster)
    if (auto *semantics = getSemantics(visible->second.type))
      widen(visible->second, *semantics, *array);
  arrays.emplace(plane.name, std::move(*array));
  return llvm::Error::success();
}

std::vector<void *> RunArrays::getPointers(int64_t step) {
  std::vector<void *> pointers;
  for (const tdm_plane_desc &plane : getPlanes(info))
    pointers.push_back(arrays
                           .at(plane.kind == TDM_ROLE_GRAD
                                   ? getGradientName(plane, step)
                                   : std::string(plane.name))
                           .bytes.data());
  return pointers;
}

ArrayMap RunArrays::getResults() const {
  ArrayMap results;
  for (const tdm_plane_desc &plane : getPlanes(info))
    if (isWritten(plane))
      results.emplace(plane.name, arrays.at(plane.name));
  return results;
}
