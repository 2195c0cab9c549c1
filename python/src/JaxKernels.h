//===- JaxKernels.h - Kernels that XLA knows --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the kernels that Python adds to tandem.jax's library. Call
// sites name them by a hash, so that an executable in XLA's disk cache finds
// its kernel in another process. They live as long as the process, because XLA
// may run an executable while the process exits.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_JAXKERNELS_H
#define TANDEM_PYTHON_JAXKERNELS_H

#include "tandem-runtime/tandem_package.h"
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

/// The call site, GPU and stream of a launch. Launches of one plan are ordered
/// there.
struct Place {
  /// The number of the call site, whose launches all have tensors of the same
  /// sizes.
  int64_t site = 0;
  /// The ordinal of the GPU, -1 for the CPU, and the CUstream on it.
  int32_t ordinal = -1;
  void *stream = nullptr;

  bool operator<(const Place &other) const {
    return std::tie(site, ordinal, stream) <
           std::tie(other.site, other.ordinal, other.stream);
  }
};

/// A kernel that Python has added.
class Kernel {
public:
  Kernel(const tdm_kernel *cpu, size_t numPlanes, size_t numHypers,
         size_t numIntegers)
      : numPlanes(numPlanes), numHypers(numHypers), numIntegers(numIntegers),
        cpu(cpu) {}

  /// Takes ownership of the package with the kernel's code for GPUs.
  void addPackage(tdm_package *added);

  /// Returns the kernel on a GPU, or on the CPU for -1. The first launch on a
  /// GPU loads it; if that fails, returns NULL and leaves the runtime's error.
  const tdm_kernel *find(int32_t ordinal);

  const size_t numPlanes, numHypers, numIntegers;

private:
  friend class Lease;

  const tdm_kernel *const cpu;
  tdm_package *package = nullptr;
  std::map<int32_t, tdm_kernel *> gpus;
  /// The plans that no launch is using.
  std::map<Place, std::vector<tdm_plan *>> idle;
  std::mutex mutex;
};

/// Exclusive use of a plan for one launch.
class Lease {
public:
  Lease(Kernel &kernel, Place place);
  ~Lease();
  Lease(const Lease &) = delete;
  Lease &operator=(const Lease &) = delete;

  /// Sets the plan's tensors.
  tdm_status update(const std::vector<tdm_tensor> &tensors);

  tdm_plan *plan = nullptr;

private:
  Kernel &kernel;
  Place place;
};

/// The kernels by their hashes.
class Registry {
public:
  static Registry &get();

  /// Adds a kernel, unless there is one of this name.
  void add(const std::string &name, const tdm_kernel *cpu, size_t numPlanes,
           size_t numHypers, size_t numIntegers);

  /// Returns the kernel of this name, or throws a Failure if there is none.
  Kernel &find(std::string_view name);

private:
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;
};

#endif // TANDEM_PYTHON_JAXKERNELS_H
