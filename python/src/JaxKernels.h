//===- JaxKernels.h - Kernels that XLA knows --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the kernels that Python has added to the library of
// tandem.jax. Call sites name them by a hash, so that an executable that XLA
// has kept on disk finds its kernel in another process. They live as long as
// the process: XLA may run an executable while the process ends.
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

/// Where a launch runs. Launches of one plan follow each other there.
struct Place {
  /// The number of a call site, whose launches have tensors of one size.
  int64_t site = 0;
  /// The number of the GPU, and the CUstream on it; -1 on the CPU.
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

  /// Takes the package that has the kernel's code for GPUs.
  void addPackage(tdm_package *added);

  /// The kernel on a GPU, or on the CPU for -1. The first launch on a GPU loads
  /// it. NULL with the runtime's error if that fails.
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

/// A plan, which one launch at a time can have.
class Lease {
public:
  Lease(Kernel &kernel, Place place);
  ~Lease();
  Lease(const Lease &) = delete;
  Lease &operator=(const Lease &) = delete;

  /// Gives the plan its tensors.
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

  /// Adds a kernel, unless it is there.
  void add(const std::string &name, const tdm_kernel *cpu, size_t numPlanes,
           size_t numHypers, size_t numIntegers);

  /// Throws a Failure where there is none of this name.
  Kernel &find(std::string_view name);

private:
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;
};

#endif // TANDEM_PYTHON_JAXKERNELS_H
