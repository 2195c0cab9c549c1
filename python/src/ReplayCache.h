//===- ReplayCache.h - Tensors that only change their gradients -*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the parameters of an optimizer whose last step is to be
// taken again with other gradients, as most steps are.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_REPLAYCACHE_H
#define TANDEM_PYTHON_REPLAYCACHE_H

#include "TensorList.h"
#include <functional>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

/// Reads a framework's tensor by DLPack without taking a reference to it. These
/// are the first fields of DLPackExchangeAPI, version 1.
struct TensorReader {
  struct Version {
    uint32_t major, minor;
  };
  Version version;
  const void *earlier;
  void *allocate, *exportManaged, *importManaged;
  int (*read)(PyObject *tensor, nanobind::dlpack::dltensor *out);
};

/// Knows where the parameters of an optimizer and their states lie, and sees in
/// a fraction of a microsecond each whether they still do and where gradients
/// are. It does not own the parameters and states.
class ReplayCache {
public:
  /// `type` is the type of the framework's tensors. `spreadType` is the type of
  /// tensors that are divided among ranks, PyTorch's DTensor, or None. `count`
  /// is the name that states have for their number of steps, empty if they
  /// count none.
  ReplayCache(nanobind::handle type, nanobind::handle spreadType,
              const std::string &count);
  ReplayCache(const ReplayCache &) = delete;

  /// Adds a launch, whose tensors are given by what a plan takes; returns its
  /// number. `gradient` is the position of the gradient among the planes.
  size_t addLaunch(const std::vector<int64_t> &heights,
                   const std::vector<int64_t> &widths,
                   const std::vector<int64_t> &firsts,
                   const std::vector<int64_t> &keys,
                   const std::vector<int64_t> &rows,
                   const std::vector<uintptr_t> &pointers,
                   std::vector<std::optional<TensorList::Sharding>> shardings,
                   size_t gradient);

  /// Adds a parameter, in the order of the param groups, and its layout in a
  /// launch; `planes` are the names and addresses in its state. `layout` is a
  /// tensor with the strides of the gradient.
  void add(nanobind::handle param, nanobind::handle state, size_t launch,
           size_t tensor,
           const std::vector<std::pair<nanobind::object, uintptr_t>> &planes,
           nanobind::handle gradient);
  /// Adds one that has no gradient.
  void addIdle(nanobind::handle param);
  /// The optimizer's param groups have as many parameters as these, and its
  /// states are these and no others.
  void setStates(nanobind::list groups, nanobind::dict states);

  /// Whether everything is where it was, except gradients and counts of steps.
  bool read(nanobind::list groups, nanobind::dict states);
  /// The number of steps that the tensors of each row have taken.
  std::vector<int64_t> steps(size_t launch) const;
  /// Stores the number of steps of each row.
  void store(size_t launch, const std::vector<int64_t> &steps);
  const std::vector<tdm_tensor> &tensors(size_t launch) const {
    return launches[launch].list.tensors;
  }
  /// Only the gradients, each as a vector.
  std::vector<tdm_tensor> gradients(size_t launch) const;

private:
  /// The address and the layout of a tensor's elements.
  struct Layout {
    nanobind::dlpack::dtype type;
    nanobind::dlpack::device device;
    std::vector<int64_t> shape, strides;
    int64_t numel() const {
      return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                             std::multiplies<>());
    }
  };
  struct Launch {
    TensorList list;
    std::vector<int64_t> steps;
    size_t gradient;
  };
  /// The mesh and placements of a tensor that is spread over ranks; null for
  /// any other.
  struct Spread {
    /// The description that the last tensor had, which others may have too.
    nanobind::object spec;
    nanobind::object mesh, placements;
  };
  struct Param {
    PyObject *tensor, *state;
    void *address;
    Layout layout, gradient;
    Spread spread, gradientSpread;
    /// Negative for a parameter without a gradient.
    int64_t launch, index;
    std::vector<std::pair<nanobind::object, void *>> planes;
  };

  nanobind::dlpack::dltensor describe(nanobind::handle tensor) const;
  static Layout layoutOf(const nanobind::dlpack::dltensor &tensor);
  bool isSpread(PyObject *tensor) const;
  Spread spreadOf(nanobind::handle tensor) const;
  /// Whether a tensor is spread over ranks in that way.
  bool hasSpread(PyObject *tensor, Spread &spread) const;
  bool hasSpec(PyObject *tensor, Spread &spread) const;
  /// The tensor that has the memory: itself, or its piece on this rank. None if
  /// a collective may still write that.
  nanobind::object memoryOf(PyObject *tensor) const;
  /// The address of a tensor of that layout; false if it has another.
  bool find(PyObject *tensor, const Layout &layout, void *&address) const;
  bool readParam(Param &param);
  bool readGradient(Param &param);
  bool isNegative(nanobind::handle tensor) const;
  bool readPlanes(const Param &param) const;
  bool readStep(const Param &param);
  bool sameStates(PyObject *states) const;
  bool readGroup(PyObject *group, size_t size, size_t &next);

  const TensorReader *reader;
  PyTypeObject *type, *spreadType;
  nanobind::object count, gradName, isNegName, paramsName;
  nanobind::object localName, specName, meshName, placementsName;
  std::vector<Launch> launches;
  std::vector<Param> params;
  /// The number of parameters in each param group.
  std::vector<size_t> sizes;
  std::vector<std::pair<PyObject *, PyObject *>> states;
};

#endif // TANDEM_PYTHON_REPLAYCACHE_H
