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

/// A kernel that was compiled or loaded from a package, and its runtime
/// handles.
class Kernel {
public:
  /// A strategy's rules: (kind, name or none for all of the kind, storage).
  using Rules = std::vector<
      std::tuple<tdm_role, std::optional<std::string>, std::string>>;

  Kernel(const std::string &graph, const std::string &strategy,
         const std::vector<std::string> &path, const std::string &target,
         const std::string &isa, int64_t width, bool weightAverage,
         bool weightOperand, bool metrics, bool flags,
         const std::string &function, const Rules &rules,
         const std::string &compute);
  /// Reads a kernel from a package, the only one if `name` is empty.
  Kernel(const std::string &path, const std::string &name,
         const std::string &target, const std::string &isa);
  /// Takes ownership of a compiled kernel.
  explicit Kernel(TandemKernel *kernel);
  ~Kernel();
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;

  const tdm_kernel_info &getInfo() const;
  /// Return the fields of the description, and of each item in its lists.
  nanobind::dict info() const;
  nanobind::list planes() const;
  nanobind::list hypers() const;
  nanobind::list integers() const;
  nanobind::list reductions() const;
  nanobind::list externals() const;
  nanobind::list phases() const;
  nanobind::list epilogues() const;
  /// Returns (kind, bytes) of the code for the target; None for the CPU.
  nanobind::object image() const;
  /// Returns the target of the code's image: the one that the compiler made or
  /// the runtime has chosen for the CPU. None for code that is in no image.
  std::optional<std::string> imageTarget();

  /// Returns (role, storage, whether it is a second moment) for each tensor.
  nanobind::list tensors();
  /// Returns the indices of the planes that a finite check of gradients reads.
  std::vector<intptr_t> checkedPlanes();
  std::unique_ptr<Kernel> compileFiniteCheck();

  /// Returns the runtime's handle on a device, or on the CPU if it is null.
  tdm_kernel *getRuntime(const Device *device);
  /// Returns the compiler's handle, which is created on demand for a package's
  /// kernel.
  TandemKernel *getCompiled();

private:
  const tdm_image *getImage() const;
  tdm_kernel *createRuntime(const tdm_device *device) const;
  void prepare();

  /// The kernel's package; null for a compiled kernel.
  std::unique_ptr<PackedKernel> packed;
  TandemKernel *compiled = nullptr;
  /// The handles by driver and ordinal. They keep their devices alive.
  std::map<std::pair<std::string, int32_t>, tdm_kernel *> handles;
};

#endif // TANDEM_PYTHON_KERNEL_H
