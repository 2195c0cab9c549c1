//===- HostExecutable.h - Code that is in this process ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares a kernel's code as functions of this process.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CPU_HOSTEXECUTABLE_H
#define TANDEM_RUNTIME_LIB_CPU_HOSTEXECUTABLE_H

#include "Kernel.h"
#include "tandem-runtime/tandem_package.h"

namespace tandem::runtime {

/// The owner of functions that are loaded into this process.
class HostLibrary {
public:
  virtual ~HostLibrary() = default;

  /// Returns the address of a function, or NULL if there is none.
  virtual void *find(const char *name) const = 0;
};

/// A function that runs over chunks, and the chunks' units.
struct HostPart {
  tdm_cpu_entry entry;
  tdm_granularity per;
};

/// A kernel's code as functions of this process.
class HostExecutable : public Executable {
public:
  /// Uses the functions of \p desc, which the caller keeps valid.
  explicit HostExecutable(const tdm_kernel_desc &desc);
  /// Finds the functions that \p info names in \p library.
  static tdm_status link(const Kernel &kernel, const tdm_kernel_info &info,
                         std::shared_ptr<const HostLibrary> library,
                         std::shared_ptr<const Executable> &result);

  std::unique_ptr<Plan>
  createPlan(std::shared_ptr<const Kernel> kernel) const override;

  tdm_cpu_prologue prologue = nullptr;
  std::vector<HostPart> phases;
  /// The parts that run after the last phase, in this order; a part with the
  /// granularity of elements runs over tensors.
  std::vector<HostPart> epilogues;

private:
  HostExecutable() = default;

  std::shared_ptr<const HostLibrary> library;
};

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CPU_HOSTEXECUTABLE_H
