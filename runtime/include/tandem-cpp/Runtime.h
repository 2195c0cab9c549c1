//===- Runtime.h - Tandem's runtime in C++ ----------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the runtime's C interface (tandem_runtime.h,
// tandem_package.h) for C++17: objects that own their handles, spans in place
// of pointers and lengths, and errors as values. Only access to a missing value
// throws, and without exceptions it aborts. Programs link only to
// libtandem_runtime.
//
//   auto package = tdm::Package::open("adamw.tdm");
//   if (!package)
//     return fail(package.error().message);
//   auto kernel = package->load();
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CPP_RUNTIME_H
#define TANDEM_CPP_RUNTIME_H

#include "tandem-runtime/tandem_package.h"
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace tdm {

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// The reason for the failure of a call.
struct Error {
  /// The message, which says what is wrong and how to fix it.
  std::string message;
  /// The runtime's status; TDM_OK if the compiler failed and not the runtime.
  tdm_status status = TDM_OK;
};

/// A value, or the error that took its place. Test it before accessing the
/// value. Accessing the value of a failure throws a std::runtime_error with the
/// message; without exceptions, it prints the message and aborts.
template <typename Value>
class [[nodiscard]] Expected {
public:
  Expected(Value value) : content(std::in_place_index<0>, std::move(value)) {}
  Expected(Error error) : content(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return content.index() == 0; }
  /// Returns the error; there must be one.
  const Error &error() const { return *std::get_if<1>(&content); }

  Value &operator*() & { return get(); }
  Value &&operator*() && { return std::move(get()); }
  Value *operator->() { return &get(); }

private:
  Value &get() {
    if (Value *value = std::get_if<0>(&content))
      return *value;
#ifdef __cpp_exceptions
    throw std::runtime_error("tandem: " + error().message);
#else
    std::fprintf(stderr, "tandem: %s\n", error().message.c_str());
    std::abort();
#endif
  }

  std::variant<Value, Error> content;
};

/// The outcome of a call that returns no value.
using Status = Expected<std::monostate>;

/// Returns \p status with the message of this thread's latest failure.
inline Error lastError(tdm_status status) { return {tdm_last_error(), status}; }

inline Status toStatus(tdm_status status) {
  if (status == TDM_OK)
    return std::monostate();
  return lastError(status);
}

//===----------------------------------------------------------------------===//
// Spans
//===----------------------------------------------------------------------===//

/// A non-owning view of contiguous values: those of an array, of anything with
/// data() and size(), or a single value.
template <typename Value>
class Span {
public:
  Span() = default;
  Span(Value *data, size_t size) : first(data), count(size) {}
  Span(Value &value) : first(&value), count(1) {}
  template <size_t N>
  Span(Value (&values)[N]) : first(values), count(N) {}
  template <typename List,
            typename = std::enable_if_t<std::is_convertible_v<
                decltype(std::declval<List &>().data()), Value *>>>
  Span(List &&list) : first(list.data()), count(list.size()) {}

  Value *data() const { return first; }
  size_t size() const { return count; }
  Value *begin() const { return first; }
  Value *end() const { return first + count; }
  Value &operator[](size_t index) const { return first[index]; }

private:
  Value *first = nullptr;
  size_t count = 0;
};

//===----------------------------------------------------------------------===//
// Handles
//===----------------------------------------------------------------------===//

/// A deleter that calls a function of the C interface.
template <auto destroy>
struct Destroy {
  template <typename Handle>
  void operator()(Handle *handle) const {
    destroy(handle);
  }
};

/// A device that kernels run on.
class Device {
public:
  /// Opens device number \p ordinal of a driver, such as "cpu" or "cuda".
  static Expected<Device> open(const char *driver, int32_t ordinal = 0) {
    tdm_device *device = nullptr;
    if (tdm_status status = tdm_device_open(driver, ordinal, &device))
      return lastError(status);
    return Device(device);
  }

  const tdm_device *get() const { return handle.get(); }

private:
  explicit Device(tdm_device *device) : handle(device) {}
  std::unique_ptr<tdm_device, Destroy<tdm_device_close>> handle;
};

/// A kernel on a device. Immutable, so that plans on several threads may share
/// it.
class Kernel {
public:
  /// Takes ownership of a handle, and shares its description.
  Kernel(tdm_kernel *handle, std::shared_ptr<const tdm_kernel_info> info)
      : handle(handle), description(std::move(info)) {}

  const tdm_kernel *get() const { return handle.get(); }
  const tdm_kernel_info &info() const { return *description; }

  /// Return the arrays, hyperparameters and integers that a launch takes.
  Span<const tdm_plane_desc> planes() const {
    return {info().desc->planes, info().desc->num_planes};
  }
  Span<const tdm_hyper_desc> hypers() const {
    return {info().desc->hypers, info().desc->num_hypers};
  }
  Span<const tdm_integer_desc> integers() const {
    return {info().desc->integers, info().desc->num_integers};
  }

  /// Returns the size in bytes of a plane's array for a tensor.
  size_t bytes(const tdm_plane_desc &plane, int64_t rows,
               int64_t columns) const {
    return size_t(tdm_plane_num_entries(&plane, rows, columns)) * plane.bits /
           8;
  }

private:
  std::unique_ptr<tdm_kernel, Destroy<tdm_kernel_destroy>> handle;
  std::shared_ptr<const tdm_kernel_info> description;
};

/// A file of kernels. Kernels may outlive their package.
class Package {
public:
  static Expected<Package> open(const std::string &path) {
    tdm_package *package = nullptr;
    if (tdm_status status = tdm_package_open(path.c_str(), &package))
      return lastError(status);
    return Package(package);
  }
  /// Reads a package from bytes, which are copied. Messages call it \p name.
  static Expected<Package> read(Span<const char> bytes,
                                const std::string &name) {
    tdm_package *package = nullptr;
    if (tdm_status status = tdm_package_open_memory(bytes.data(), bytes.size(),
                                                    name.c_str(), &package))
      return lastError(status);
    return Package(package);
  }

  uint32_t size() const { return tdm_package_num_kernels(handle.get()); }
  const char *compiler() const { return tdm_package_compiler(handle.get()); }

  /// Loads the kernel \p name, or the only one if the name is empty, on
  /// \p device, or on the CPU if that is null. \p target is the target of an
  /// image, or empty for the best one.
  Expected<Kernel> load(const std::string &name = "",
                        const Device *device = nullptr,
                        const std::string &target = "") const {
    const char *named = name.empty() ? nullptr : name.c_str();
    uint32_t index;
    if (tdm_status status = tdm_package_find(handle.get(), named, &index))
      return lastError(status);
    auto described = std::make_shared<Described>(Described{handle, {}});
    described->info.struct_size = sizeof(described->info);
    if (tdm_status status =
            tdm_package_kernel(handle.get(), index, &described->info))
      return lastError(status);
    tdm_kernel *kernel = nullptr;
    if (tdm_status status = tdm_package_load(
            handle.get(), named, device ? device->get() : nullptr,
            target.empty() ? nullptr : target.c_str(), &kernel))
      return lastError(status);
    return Kernel(kernel, {described, &described->info});
  }

private:
  /// A description and the package that it points into.
  struct Described {
    std::shared_ptr<tdm_package> package;
    tdm_kernel_info info;
  };

  explicit Package(tdm_package *package) : handle(package, tdm_package_close) {}
  std::shared_ptr<tdm_package> handle;
};

/// The tensors that a kernel updates in one launch. Only one thread at a time
/// may use a plan.
class Plan {
public:
  static Expected<Plan> create(const Kernel &kernel,
                               Span<const tdm_tensor> tensors) {
    tdm_plan *plan = nullptr;
    if (tdm_status status = tdm_plan_create(kernel.get(), tensors.data(),
                                            int64_t(tensors.size()), &plan))
      return lastError(status);
    return Plan(plan, kernel);
  }

  /// Replaces the tensors.
  Status update(Span<const tdm_tensor> tensors) {
    return toStatus(
        tdm_plan_update(handle.get(), tensors.data(), int64_t(tensors.size())));
  }

  /// Sets the function that computes the kernel's external steps, which is
  /// called with \p host; see tdm_plan_set_external.
  Status setExternal(tdm_external_fn external, void *host) {
    return toStatus(tdm_plan_set_external(handle.get(), external, host));
  }

  /// Runs the kernel over all tensors and waits for it. A row of arguments, in
  /// the order of the description, applies to the tensors with that scalar_row.
  /// If \p threads is 0, the launch uses one thread per core. Returns the
  /// TDM_FLAG_* bits.
  Expected<uint32_t> launch(Span<const double> hypers,
                            Span<const int64_t> integers, int64_t rows = 1,
                            int32_t threads = 0) {
    if (hypers.size() != size_t(rows) * numHypers ||
        integers.size() != size_t(rows) * numIntegers)
      return Error{
          "a launch of " + std::to_string(rows) + " rows takes " +
              std::to_string(rows * numHypers) + " hyperparameters and " +
              std::to_string(rows * numIntegers) + " integers; pass as many",
          TDM_INVALID_ARGUMENT};
    tdm_launch_info info = {};
    info.struct_size = sizeof(info);
    if (tdm_status status = tdm_plan_launch(
            handle.get(), hypers.data(), integers.data(), rows, threads, &info))
      return lastError(status);
    return info.flags;
  }

  tdm_plan *get() { return handle.get(); }

private:
  Plan(tdm_plan *plan, const Kernel &kernel)
      : handle(plan), numHypers(kernel.info().desc->num_hypers),
        numIntegers(kernel.info().desc->num_integers) {}

  std::unique_ptr<tdm_plan, Destroy<tdm_plan_destroy>> handle;
  uint32_t numHypers, numIntegers;
};

} // namespace tdm

#endif // TANDEM_CPP_RUNTIME_H
