//===- ReplayCache.h - Tensors that only change their gradients -*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares a cache of an optimizer's parameters, with which most
// steps repeat the previous one with new gradients.
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

/// Reads a framework's tensor through DLPack without taking a reference. These
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

/// A cache of the addresses of an optimizer's parameters and states. It checks
/// that they have not changed and reads the gradients' addresses, in a fraction
/// of a microsecond per parameter. It does not own parameters or states.
class ReplayCache {
public:
  /// Creates an empty cache. `type` is the type of the framework's tensors.
  /// `spreadType` is the type of sharded tensors, PyTorch's DTensor, or None.
  /// `count` is the states' key for their number of steps, empty if there is
  /// none.
  ReplayCache(nanobind::handle type, nanobind::handle spreadType,
              const std::string &count);
  ReplayCache(const ReplayCache &) = delete;

  /// Adds a launch, whose tensors are given as for a plan, and returns its
  /// number. `gradient` is the index of the gradient among the planes.
  size_t addLaunch(const std::vector<int64_t> &heights,
                   const std::vector<int64_t> &widths,
                   const std::vector<int64_t> &firsts,
                   const std::vector<int64_t> &keys,
                   const std::vector<int64_t> &rows,
                   const std::vector<uintptr_t> &pointers,
                   std::vector<std::optional<TensorList::Sharding>> shardings,
                   size_t gradient);

  /// Adds a parameter, in the order of the param groups, and the tensor of a
  /// launch that it is. `planes` are the names and addresses of the planes in
  /// its state. `gradient` is a tensor with the layout that the gradient must
  /// have.
  void add(nanobind::handle param, nanobind::handle state, size_t launch,
           size_t tensor,
           const std::vector<std::pair<nanobind::object, uintptr_t>> &planes,
           nanobind::handle gradient);
  /// Adds a parameter without a gradient.
  void addIdle(nanobind::handle param);
  /// Sets the sizes of the param groups and the states that the optimizer must
  /// have.
  void setStates(nanobind::list groups, nanobind::dict states);

  /// Reads the gradients and the counts of steps. Returns false if anything
  /// else has changed.
  bool read(nanobind::list groups, nanobind::dict states);
  /// Returns the number of steps that the tensors of each row have taken.
  std::vector<int64_t> steps(size_t launch) const;
  /// Stores the number of steps of each row.
  void store(size_t launch, const std::vector<int64_t> &steps);
  const std::vector<tdm_tensor> &tensors(size_t launch) const {
    return launches[launch].list.tensors;
  }
  /// Returns only the gradients, each as a vector.
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
  /// The mesh and placements of a sharded tensor; null for other tensors.
  struct Spread {
    /// The spec of the latest tensor, which later tensors often share.
    nanobind::object spec;
    nanobind::object mesh, placements;
  };
  struct Param {
    PyObject *tensor, *state;
    void *address;
    Layout layout, gradient;
    Spread spread, gradientSpread;
    /// The launch and the index in it; negative for a parameter without a
    /// gradient.
    int64_t launch, index;
    std::vector<std::pair<nanobind::object, void *>> planes;
  };

  nanobind::dlpack::dltensor describe(nanobind::handle tensor) const;
  static Layout layoutOf(const nanobind::dlpack::dltensor &tensor);
  bool isSpread(PyObject *tensor) const;
  Spread spreadOf(nanobind::handle tensor) const;
  /// Returns whether a tensor is sharded in that way.
  bool hasSpread(PyObject *tensor, Spread &spread) const;
  bool hasSpec(PyObject *tensor, Spread &spread) const;
  /// Returns the tensor that owns the memory: the tensor itself, or its local
  /// shard. Returns None if a collective may still write to the shard.
  nanobind::object memoryOf(PyObject *tensor) const;
  /// Stores the address of a tensor; returns false if it has another layout.
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
