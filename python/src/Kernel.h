//===- Kernel.h - Kernels in Python -----------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the devices and kernels of the Python extension.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_KERNEL_H
#define TANDEM_PYTHON_KERNEL_H

#include "Errors.h"
#include "PackedKernel.h"
#include "Released.h"
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

/// A GPU.
class Device {
public:
  Device(const std::string &driver, int32_t ordinal) {
    check(released(
        [&] { return tdm_device_open(driver.c_str(), ordinal, &device); }));
  }
  ~Device() {
    released([&] { tdm_device_close(device); });
  }
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  tdm_device_info query() const {
    tdm_device_info info = {};
    info.struct_size = sizeof(info);
    check(released([&] { return tdm_device_query(device, &info); }));
    return info;
  }
  uintptr_t allocate(size_t bytes) const {
    void *memory = nullptr;
    check(
        released([&] { return tdm_device_allocate(device, bytes, &memory); }));
    return reinterpret_cast<uintptr_t>(memory);
  }
  void free(uintptr_t memory) const {
    check(released([&] {
      return tdm_device_free(device, reinterpret_cast<void *>(memory));
    }));
  }
  void copy(uintptr_t to, uintptr_t from, size_t bytes) const {
    check(released([&] {
      return tdm_device_copy(device, reinterpret_cast<void *>(to),
                             reinterpret_cast<const void *>(from), bytes);
    }));
  }
  void synchronize() const {
    check(released([&] { return tdm_device_synchronize(device); }));
  }

  tdm_device *device = nullptr;
};

/// A kernel that was compiled or comes from a package, and its handles in the
/// runtime.
class Kernel {
public:
  /// A strategy's rules: (kind, name or none for all of the kind, storage).
  using Rules = std::vector<
      std::tuple<tdm_role, std::optional<std::string>, std::string>>;

  Kernel(const std::string &graph, const std::string &strategy,
         const std::vector<std::string> &path, const std::string &target,
         const std::string &isa, int64_t width, bool metrics, bool flags,
         const std::string &function, const Rules &rules,
         const std::string &compute);
  /// A kernel of a package; the only one if `name` is empty.
  Kernel(const std::string &path, const std::string &name,
         const std::string &target, const std::string &isa);
  /// A kernel that has been compiled otherwise, which this destroys.
  explicit Kernel(TandemKernel *kernel);
  ~Kernel();
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;

  const tdm_kernel_info &getInfo() const;
  /// The fields of the description, and those of each item of its lists.
  nanobind::dict info() const;
  nanobind::list planes() const;
  nanobind::list hypers() const;
  nanobind::list integers() const;
  nanobind::list reductions() const;
  nanobind::list phases() const;
  nanobind::list epilogues() const;
  /// (kind, bytes) of the code for the target; None for the CPU.
  nanobind::object image() const;

  /// (role, storage, whether it is a second moment) per tensor.
  nanobind::list tensors();
  /// The indices of the planes that a check of gradients reads.
  std::vector<intptr_t> checkedPlanes();
  std::unique_ptr<Kernel> compileFiniteCheck();

  /// The runtime's handle on a device, the CPU if it is null.
  tdm_kernel *getRuntime(const Device *device);
  /// The compiler's handle. A package's kernel gets one when it needs it first.
  TandemKernel *getCompiled();

private:
  const tdm_image *getImage() const;
  tdm_kernel *createRuntime(const tdm_device *device) const;
  void prepare();

  /// Null for a compiled kernel.
  std::unique_ptr<PackedKernel> packed;
  TandemKernel *compiled = nullptr;
  /// The handles by driver and ordinal; they hold on to their devices.
  std::map<std::pair<std::string, int32_t>, tdm_kernel *> handles;
};

#endif // TANDEM_PYTHON_KERNEL_H
