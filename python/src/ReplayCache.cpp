//===- ReplayCache.cpp - Tensors that only change their gradients ---------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the check of an optimizer's parameters before a step.
//
//===----------------------------------------------------------------------===//

#include "ReplayCache.h"

#include <algorithm>

namespace nb = nanobind;
using nb::dlpack::dltensor;

ReplayCache::ReplayCache(nb::handle type, nb::handle spreadType,
                         const std::string &count)
    : type(reinterpret_cast<PyTypeObject *>(type.ptr())),
      spreadType(spreadType.is_none()
                     ? nullptr
                     : reinterpret_cast<PyTypeObject *>(spreadType.ptr())),
      gradName(nb::str("grad")), isNegName(nb::str("is_neg")),
      paramsName(nb::str("params")), localName(nb::str("_local_tensor")),
      specName(nb::str("_spec")), meshName(nb::str("mesh")),
      placementsName(nb::str("placements")) {
  if (!count.empty())
    this->count = nb::str(count.c_str());
  nb::object capsule = type.attr("__dlpack_c_exchange_api__");
  reader = static_cast<const TensorReader *>(
      PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (!reader)
    nb::raise_python_error();
  if (reader->version.major != 1 || !reader->read)
    throw nb::value_error("DLPack's interface has another version");
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

bool ReplayCache::isSpread(PyObject *tensor) const {
  return spreadType && PyType_IsSubtype(Py_TYPE(tensor), spreadType);
}

ReplayCache::Spread ReplayCache::spreadOf(nb::handle tensor) const {
  if (!isSpread(tensor.ptr()))
    return {};
  nb::object spec = tensor.attr(specName);
  return {spec, spec.attr(meshName), spec.attr(placementsName)};
}

bool ReplayCache::hasSpec(PyObject *tensor, Spread &spread) const {
  nb::object spec = nb::steal(PyObject_GetAttr(tensor, specName.ptr()));
  if (!spec.is_valid() || spec.is(spread.spec))
    return spec.is_valid();
  nb::object mesh = nb::steal(PyObject_GetAttr(spec.ptr(), meshName.ptr()));
  nb::object placements =
      nb::steal(PyObject_GetAttr(spec.ptr(), placementsName.ptr()));
  if (!mesh.is_valid() || !placements.is_valid() || !mesh.is(spread.mesh) ||
      PyObject_RichCompareBool(placements.ptr(), spread.placements.ptr(),
                               Py_EQ) != 1)
    return false;
  spread.spec = std::move(spec);
  return true;
}

bool ReplayCache::hasSpread(PyObject *tensor, Spread &spread) const {
  if (!spread.spec.is_valid())
    return !isSpread(tensor);
  if (isSpread(tensor) && hasSpec(tensor, spread))
    return true;
  PyErr_Clear();
  return false;
}

nb::object ReplayCache::memoryOf(PyObject *tensor) const {
  if (!isSpread(tensor))
    return nb::borrow(tensor);
  nb::object local = nb::steal(PyObject_GetAttr(tensor, localName.ptr()));
  if (local.is_valid() && Py_TYPE(local.ptr()) == type)
    return local;
  PyErr_Clear();
  return nb::none();
}

dltensor ReplayCache::describe(nb::handle tensor) const {
  dltensor described;
  nb::object memory = memoryOf(tensor.ptr());
  if (!PyType_IsSubtype(Py_TYPE(memory.ptr()), type))
    throw nb::buffer_error("not a tensor with memory of its own");
  if (reader->read(memory.ptr(), &described))
    nb::raise_python_error();
  return described;
}

ReplayCache::Layout ReplayCache::layoutOf(const dltensor &tensor) {
  return {tensor.dtype, tensor.device,
          std::vector(tensor.shape, tensor.shape + tensor.ndim),
          std::vector(tensor.strides, tensor.strides + tensor.ndim)};
}

bool ReplayCache::find(PyObject *tensor, const Layout &layout,
                       void *&address) const {
  if (!PyType_IsSubtype(Py_TYPE(tensor), type))
    return false;
  dltensor found;
  if (reader->read(tensor, &found)) {
    // The tensor has no memory, which binding it reports.
    PyErr_Clear();
    return false;
  }
  if (found.dtype != layout.type ||
      found.device.device_type != layout.device.device_type ||
      found.device.device_id != layout.device.device_id ||
      static_cast<size_t>(found.ndim) != layout.shape.size())
    return false;
  for (size_t i = 0; i < layout.shape.size(); ++i)
    if (found.shape[i] != layout.shape[i] ||
        (found.strides[i] != layout.strides[i] && found.shape[i] != 1))
      return false;
  address = static_cast<char *>(found.data) + found.byte_offset;
  return true;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

size_t ReplayCache::addLaunch(
    const std::vector<int64_t> &heights, const std::vector<int64_t> &widths,
    const std::vector<int64_t> &firsts, const std::vector<int64_t> &keys,
    const std::vector<int64_t> &rows, const std::vector<uintptr_t> &pointers,
    std::vector<std::optional<TensorList::Sharding>> shardings,
    size_t gradient) {
  int64_t last =
      rows.empty() ? -1 : *std::max_element(rows.begin(), rows.end());
  launches.push_back({TensorList(heights, widths, firsts, keys, rows, pointers,
                                 std::move(shardings)),
                      std::vector<int64_t>(last + 1), gradient});
  return launches.size() - 1;
}

void ReplayCache::add(
    nb::handle param, nb::handle state, size_t launch, size_t tensor,
    const std::vector<std::pair<nb::object, uintptr_t>> &planes,
    nb::handle gradient) {
  dltensor described = describe(param);
  Param &added = params.emplace_back();
  added.tensor = param.ptr();
  added.state = state.is_none() ? nullptr : state.ptr();
  added.address = static_cast<char *>(described.data) + described.byte_offset;
  added.layout = layoutOf(described);
  added.gradient = layoutOf(describe(gradient));
  added.spread = spreadOf(param);
  added.gradientSpread = spreadOf(gradient);
  added.launch = static_cast<int64_t>(launch);
  added.index = static_cast<int64_t>(tensor);
  for (const auto &[name, address] : planes)
    added.planes.emplace_back(name, reinterpret_cast<void *>(address));
}

void ReplayCache::addIdle(nb::handle param) {
  Param &added = params.emplace_back();
  added.tensor = param.ptr();
  added.launch = -1;
}

void ReplayCache::setStates(nb::list groups, nb::dict all) {
  sizes.clear();
  for (nb::handle group : groups)
    sizes.push_back(nb::len(nb::object(group[paramsName])));
  states.clear();
  for (auto [key, value] : all)
    states.emplace_back(key.ptr(), value.ptr());
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Returns whether a tensor has PyTorch's negative bit, a deferred negation
/// that DLPack does not expose. Only imaginary parts have it; they are strided
/// unless they have one element.
bool ReplayCache::isNegative(nb::handle tensor) const {
  PyObject *self = tensor.ptr();
  nb::object result = nb::steal(PyObject_VectorcallMethod(
      isNegName.ptr(), &self, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  if (!result.is_valid())
    nb::raise_python_error();
  return result.ptr() != Py_False;
}

bool ReplayCache::readGradient(Param &param) {
  nb::object gradient =
      nb::steal(PyObject_GetAttr(param.tensor, gradName.ptr()));
  if (!gradient.is_valid())
    nb::raise_python_error();
  if (param.launch < 0 || gradient.is_none())
    return param.launch < 0 && gradient.is_none();
  if (!hasSpread(gradient.ptr(), param.gradientSpread))
    return false;
  void *address = nullptr;
  nb::object memory = memoryOf(gradient.ptr());
  if (!find(memory.ptr(), param.gradient, address) ||
      (param.gradient.numel() == 1 && isNegative(memory)))
    return false;
  auto &[list, steps, position] = launches[param.launch];
  list.pointers[param.index * list.planes + position] = address;
  return true;
}

bool ReplayCache::readPlanes(const Param &param) const {
  for (const auto &[name, address] : param.planes) {
    PyObject *plane = PyDict_GetItemWithError(param.state, name.ptr());
    nb::object memory = plane ? memoryOf(plane) : nb::none();
    dltensor found;
    if (!PyType_IsSubtype(Py_TYPE(memory.ptr()), type) ||
        reader->read(memory.ptr(), &found)) {
      PyErr_Clear();
      return false;
    }
    if (static_cast<char *>(found.data) + found.byte_offset != address)
      return false;
  }
  return true;
}

bool ReplayCache::readStep(const Param &param) {
  if (!count.is_valid())
    return true;
  PyObject *value = PyDict_GetItemWithError(param.state, count.ptr());
  if (!value || !PyLong_CheckExact(value)) {
    PyErr_Clear();
    return false;
  }
  int64_t taken = PyLong_AsLongLong(value);
  if (taken < 0) {
    PyErr_Clear();
    return false;
  }
  Launch &launch = launches[param.launch];
  int64_t &known = launch.steps[launch.list.tensors[param.index].scalar_row];
  if (known < 0)
    known = taken;
  return known == taken;
}

bool ReplayCache::readParam(Param &param) {
  if (!readGradient(param))
    return false;
  if (param.launch < 0)
    return true;
  void *address = nullptr;
  return hasSpread(param.tensor, param.spread) &&
         find(memoryOf(param.tensor).ptr(), param.layout, address) &&
         address == param.address && readPlanes(param) && readStep(param);
}

bool ReplayCache::sameStates(PyObject *all) const {
  if (static_cast<size_t>(PyDict_Size(all)) != states.size())
    return false;
  Py_ssize_t position = 0;
  PyObject *key, *value;
  for (auto [param, state] : states)
    if (!PyDict_Next(all, &position, &key, &value) || key != param ||
        value != state)
      return false;
  return true;
}

bool ReplayCache::readGroup(PyObject *group, size_t size, size_t &next) {
  PyObject *list = PyDict_GetItemWithError(group, paramsName.ptr());
  if (!list || !PyList_Check(list)) {
    PyErr_Clear();
    return false;
  }
  if (static_cast<size_t>(PyList_GET_SIZE(list)) != size)
    return false;
  // Accessing a gradient may run code that changes the list.
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i, ++next)
    if (next >= params.size() ||
        params[next].tensor != PyList_GET_ITEM(list, i) ||
        !readParam(params[next]))
      return false;
  return true;
}

bool ReplayCache::read(nb::list groups, nb::dict all) {
  if (!sameStates(all.ptr()))
    return false;
  for (Launch &launch : launches)
    std::fill(launch.steps.begin(), launch.steps.end(), -1);
  size_t next = 0, index = 0;
  for (nb::handle group : groups)
    if (index == sizes.size() || !PyDict_Check(group.ptr()) ||
        !readGroup(group.ptr(), sizes[index++], next))
      return false;
  return next == params.size();
}

std::vector<tdm_tensor> ReplayCache::gradients(size_t launch) const {
  std::vector<tdm_tensor> list = launches.at(launch).list.tensors;
  for (tdm_tensor &tensor : list) {
    tensor.columns *= tensor.rows;
    tensor.rows = 1;
    tensor.first = tensor.scalar_row = 0;
    tensor.sharding = nullptr;
    tensor.planes += launches[launch].gradient;
  }
  return list;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

std::vector<int64_t> ReplayCache::steps(size_t launch) const {
  return launches.at(launch).steps;
}

void ReplayCache::store(size_t launch, const std::vector<int64_t> &steps) {
  if (!count.is_valid())
    return;
  std::vector<nb::object> values;
  for (int64_t step : steps)
    values.push_back(nb::int_(step));
  for (const Param &param : params)
    if (param.launch == static_cast<int64_t>(launch)) {
      int64_t row = launches[launch].list.tensors[param.index].scalar_row;
      if (PyDict_SetItem(param.state, count.ptr(), values.at(row).ptr()))
        nb::raise_python_error();
    }
}
