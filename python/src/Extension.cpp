//===- Extension.cpp - Python extension -----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the extension module of the Python package on top of the
// C APIs of the compiler and the runtime.
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"
#include "Description.h"
#include "Errors.h"
#include "Kernel.h"
#include "LaunchABI.h"
#include "Layers.h"
#include "ReplayCache.h"
#include "Storages.h"
#include "TensorList.h"
#include "tandem-runtime/tandem_cache.h"
#include "tandem-runtime/tandem_product.h"
#include "tandem-runtime/tandem_runtime.h"
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace {
/// A matrix product of one size on a device.
class Product {
public:
  Product(const Device &device, int64_t rows, int64_t columns, int64_t depth,
          uint32_t x, uint32_t w, bool bias, bool fast) {
    tdm_product_desc desc = {sizeof(desc), rows, columns, depth, x, w,
                             bias,         fast};
    check(released(
        [&] { return tdm_product_create(device.device, &desc, &product); }));
  }
  ~Product() {
    released([&] { tdm_product_destroy(product); });
  }
  Product(const Product &) = delete;
  Product &operator=(const Product &) = delete;

  /// Enqueues the product on a stream. Tensors are addresses, 0 if there is
  /// none.
  void launch(uintptr_t stream, uintptr_t x, uintptr_t w, uintptr_t xScale,
              uintptr_t wScale, uintptr_t bias, uintptr_t y,
              uintptr_t workspace, size_t workspaceBytes) {
    tdm_product_args args = {sizeof(args),
                             reinterpret_cast<void *>(stream),
                             reinterpret_cast<const void *>(x),
                             reinterpret_cast<const void *>(w),
                             reinterpret_cast<const float *>(xScale),
                             reinterpret_cast<const float *>(wScale),
                             reinterpret_cast<const void *>(bias),
                             reinterpret_cast<void *>(y),
                             reinterpret_cast<void *>(workspace),
                             workspaceBytes};
    check(released([&] { return tdm_product_launch(product, &args); }));
  }

private:
  tdm_product *product = nullptr;
};

/// The type of OpenMP's GOMP_parallel: the work, its context, threads, flags.
using OpenMPParallel = void (*)(void (*)(void *), void *, unsigned, unsigned);

/// Makes launches on the CPU use OpenMP's threads; `address` is that of
/// GOMP_parallel, or 0 for the runtime's own threads.
static void useOpenMP(uintptr_t address) {
  tdm_parallel_fn parallel = [](void *host, void (*work)(void *), void *context,
                                int32_t threads) {
    reinterpret_cast<OpenMPParallel>(host)(work, context, threads, 0);
  };
  check(tdm_use_threads(address ? parallel : nullptr,
                        reinterpret_cast<void *>(address)));
}

/// Compiles a conversion of tensors. Returns (kernel or None, planes of the
/// target, planes of the source, launches).
static nb::tuple compileConversion(const std::string &source,
                                   const std::string &target, bool adds,
                                   bool isFresh, bool isMatrix, bool hasFloor,
                                   const std::string &chip) {
  TandemConversionOptions options = {source.c_str(), target.c_str(), adds,
                                     isFresh,        isMatrix,       hasFloor,
                                     chip.c_str()};
  TandemConversion conversion = {};
  if (!released([&] {
        return compiler().tandemCompileConversion(&options, &conversion);
      }))
    throwCompilerError();
  std::unique_ptr<Kernel> kernel;
  if (conversion.kernel)
    kernel = std::make_unique<Kernel>(conversion.kernel);
  return nb::make_tuple(std::move(kernel), conversion.numWritten,
                        conversion.numRead, conversion.numLaunches);
}

/// Compiles a kernel that sums values of some storages and stores the sum in
/// codes.
static std::unique_ptr<Kernel>
compileSum(const std::vector<std::string> &sources, const std::string &target,
           const std::string &chip) {
  std::vector<const char *> texts;
  for (const std::string &source : sources)
    texts.push_back(source.c_str());
  return std::make_unique<Kernel>(released([&] {
    return compiler().tandemCompileSum(texts.data(), texts.size(),
                                       target.c_str(), chip.c_str());
  }));
}

/// Writes kernels to a package.
static void save(const std::string &path, const std::vector<Kernel *> &kernels,
                 const std::vector<std::string> &names,
                 const std::vector<std::string> &targets) {
  std::vector<TandemKernel *> handles;
  std::vector<const char *> nameTexts, targetTexts;
  for (Kernel *kernel : kernels)
    handles.push_back(kernel->getCompiled());
  for (const std::string &name : names)
    nameTexts.push_back(name.c_str());
  for (const std::string &target : targets)
    targetTexts.push_back(target.c_str());
  bool saved = released([&] {
    return compiler().tandemSavePackage(path.c_str(), handles.data(),
                                        nameTexts.data(), handles.size(),
                                        targetTexts.data(), targetTexts.size());
  });
  orThrow(saved);
}

/// A list of tensors that a kernel updates in one call.
class Plan {
public:
  /// Creates a plan on the CPU, or on a device.
  Plan(nb::object owner, Device *device) : owner(std::move(owner)) {
    kernel = nb::cast<Kernel *>(this->owner);
    tdm_kernel *runtime = kernel->getRuntime(device);
    check(
        released([&] { return tdm_plan_create(runtime, nullptr, 0, &plan); }));
  }
  ~Plan() {
    released([&] { tdm_plan_destroy(plan); });
  }
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;

  /// Replaces the tensors; the arguments are those of a TensorList.
  void update(const std::vector<int64_t> &heights,
              const std::vector<int64_t> &widths,
              const std::vector<int64_t> &firsts,
              const std::vector<int64_t> &keys,
              const std::vector<int64_t> &rows,
              const std::vector<uintptr_t> &pointers,
              std::vector<std::optional<TensorList::Sharding>> shardings) {
    TensorList list(heights, widths, firsts, keys, rows, pointers,
                    std::move(shardings));
    if (!list.tensors.empty() &&
        list.planes != kernel->getInfo().desc->num_planes)
      throw nb::value_error("the lists of a plan differ in length");
    setTensors(std::move(list.tensors));
  }

  /// Replaces the tensors with those of a launch whose gradients have been
  /// read.
  void updateReplay(const ReplayCache &cache, size_t launch) {
    setTensors(cache.tensors(launch));
  }

  /// Replaces the tensors with only the gradients of the launch.
  void updateGradients(const ReplayCache &cache, size_t launch) {
    setTensors(cache.gradients(launch));
  }

  /// Sets the function that sums words over ranks, or None. It is called with
  /// the number of the group of ranks and a writable memoryview of bytes.
  void setExchange(nb::object function) {
    check(released([&] {
      return tdm_plan_set_exchange(
          plan, function.is_none() ? nullptr : callExchange, this);
    }));
    exchange = std::move(function);
  }

  /// Sets the function that computes external steps, or None. It is called with
  /// the index of the step in `Kernel.externals` and the stream, 0 on a CPU.
  void setExternal(nb::object function) {
    check(released([&] {
      return tdm_plan_set_external(
          plan, function.is_none() ? nullptr : callExternal, this);
    }));
    external = std::move(function);
  }

  /// Runs one step and returns the flags.
  uint32_t launch(const std::vector<double> &hypers,
                  const std::vector<int64_t> &integers, int64_t rows,
                  int32_t threads) {
    checkRows(hypers, integers, rows);
    tdm_launch_info info = {};
    info.struct_size = sizeof(info);
    checkCalled(released([&] {
      return tdm_plan_launch(plan, hypers.data(), integers.data(), rows,
                             threads, &info);
    }));
    return info.flags;
  }

  /// Enqueues one step on a stream of the device. `skip` is the address of a
  /// word that is nonzero if the step is to be skipped, or 0. `flags` is the
  /// address of two words that collect the flags by which other launches are
  /// skipped, or 0.
  void launchAsync(const std::vector<double> &hypers,
                   const std::vector<int64_t> &integers, int64_t rows,
                   uintptr_t stream, uintptr_t skip, uintptr_t flags) {
    checkRows(hypers, integers, rows);
    launchArgs(hypers.data(), integers.data(), rows, 0, stream, skip, flags);
  }

  /// Enqueues one step with hyperparameters in the device's memory.
  void launchOnDevice(uintptr_t hypers, uintptr_t integers, int64_t rows,
                      uintptr_t stream, uintptr_t skip, uintptr_t flags) {
    launchArgs(reinterpret_cast<const double *>(hypers),
               reinterpret_cast<const int64_t *>(integers), rows, 1, stream,
               skip, flags);
  }

  /// Waits for the latest launch and returns its flags.
  uint32_t flags() {
    uint32_t flags = 0;
    check(released([&] { return tdm_plan_flags(plan, &flags); }));
    return flags;
  }

  /// Returns a sum over a tensor or the model that the latest launch computed.
  float sum(int64_t tensor, int64_t reduction) {
    float total = 0;
    check(released(
        [&] { return tdm_plan_sum(plan, tensor, reduction, &total); }));
    return total;
  }

  /// Returns the metrics of the latest launch for one tensor, or for all (-1).
  std::vector<double> metrics(int64_t tensor) {
    std::vector<double> values(
        kernel->getInfo().desc->workspace_doubles_per_chunk);
    if (values.empty())
      throw nb::value_error(
          "the kernel measures nothing; compile it with metrics=True");
    checkCalled(released([&] {
      return tdm_plan_metrics(plan, tensor, values.data(), values.size());
    }));
    return values;
  }

private:
  static int callExchange(void *host, int64_t group, uint32_t *words,
                          size_t count) {
    auto &self = *static_cast<Plan *>(host);
    nb::gil_scoped_acquire acquired;
    try {
      self.exchange(group, nb::steal(PyMemoryView_FromMemory(
                               reinterpret_cast<char *>(words),
                               count * sizeof(uint32_t), PyBUF_WRITE)));
    } catch (nb::python_error &error) {
      self.hostError.emplace(std::move(error));
      return 1;
    }
    return 0;
  }

  static int callExternal(void *host, uint32_t index, void *stream) {
    auto &self = *static_cast<Plan *>(host);
    nb::gil_scoped_acquire acquired;
    try {
      self.external(index, reinterpret_cast<uintptr_t>(stream));
    } catch (nb::python_error &error) {
      self.hostError.emplace(std::move(error));
      return 1;
    }
    return 0;
  }

  /// Raises the exception of a function of the host if there is one, or else
  /// the runtime's error.
  void checkCalled(tdm_status status) {
    if (hostError) {
      nb::python_error error = std::move(*hostError);
      hostError.reset();
      throw error;
    }
    check(status);
  }

  /// Replaces the tensors. The list is passed by value, because other threads
  /// may run meanwhile.
  void setTensors(std::vector<tdm_tensor> list) {
    check(released(
        [&] { return tdm_plan_update(plan, list.data(), list.size()); }));
  }

  void checkRows(const std::vector<double> &hypers,
                 const std::vector<int64_t> &integers, int64_t rows) const {
    size_t width = kernel->getInfo().desc->num_hypers;
    size_t integerWidth = kernel->getInfo().desc->num_integers;
    if (hypers.size() != rows * width || integers.size() != rows * integerWidth)
      throw nb::value_error("a launch needs one value per scalar and row");
  }

  void launchArgs(const double *hypers, const int64_t *integers, int64_t rows,
                  uint32_t onDevice, uintptr_t stream, uintptr_t skip,
                  uintptr_t flags) {
    tdm_async_args args = {sizeof(args),
                           reinterpret_cast<void *>(stream),
                           hypers,
                           integers,
                           rows,
                           onDevice,
                           reinterpret_cast<const void *>(skip),
                           reinterpret_cast<void *>(flags)};
    checkCalled(released([&] { return tdm_plan_launch_async(plan, &args); }));
  }

  nb::object owner, exchange, external;
  /// The exception that a function of the host has raised in a launch.
  std::optional<nb::python_error> hostError;
  Kernel *kernel;
  tdm_plan *plan = nullptr;
};
} // namespace

static void checkDense(const nb::ndarray<nb::ro> &array) {
  int64_t expected = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.size() != 0 && array.shape(i) != 1 && array.stride(i) != expected)
      throw nb::value_error("array is not contiguous; pass a contiguous copy");
    expected *= array.shape(i);
  }
}

/// Returns (address, elements, type code, bits, shape, number of the GPU or -1)
/// for a dense array.
static nb::tuple describe(nb::ndarray<nb::ro> array) {
  bool isOnCPU = array.device_type() == nb::device::cpu::value;
  if (!isOnCPU && array.device_type() != nb::device::cuda::value)
    throw nb::value_error("array is neither on the CPU nor on a CUDA device");
  checkDense(array);
  nb::list shape;
  for (size_t i = 0; i < array.ndim(); ++i)
    shape.append(array.shape(i));
  return nb::make_tuple(reinterpret_cast<uintptr_t>(array.data()), array.size(),
                        int(array.dtype().code), int(array.dtype().bits), shape,
                        isOnCPU ? -1 : array.device_id());
}

static int64_t evaluatePTX(
    const std::string &ptx, const std::string &kernel,
    const std::vector<uint64_t> &parameters, uint32_t blocks, uint32_t threads,
    const std::vector<std::tuple<std::string, uintptr_t, uint64_t, bool>>
        &regions) {
  std::vector<TandemBuffer> buffers;
  for (const auto &[name, address, size, writable] : regions)
    buffers.push_back(
        {name.c_str(), reinterpret_cast<void *>(address), size, writable});
  int64_t count = released([&] {
    return compiler().tandemEvaluatePTX(
        ptx.c_str(), kernel.c_str(), parameters.data(), parameters.size(),
        blocks, threads, buffers.data(), buffers.size());
  });
  if (count < 0)
    throwCompilerError();
  return count;
}

/// Runs a graph in the reference interpreter, updates the arrays in place and
/// returns the flags.
namespace {
/// A Python function that computes external steps by their names.
struct ExternalCalls {
  nb::object function;
  /// The exception that it has raised.
  std::optional<nb::python_error> error;

  static bool call(void *host, const char *name) {
    auto &self = *static_cast<ExternalCalls *>(host);
    nb::gil_scoped_acquire acquired;
    try {
      self.function(name);
    } catch (nb::python_error &error) {
      self.error.emplace(std::move(error));
      return false;
    }
    return true;
  }
};
} // namespace

static uint32_t interpret(
    const std::string &graph, const std::string &strategy,
    const std::vector<std::string> &path,
    const std::vector<std::tuple<std::string, nb::ndarray<nb::ro>>> &arrays,
    const std::vector<std::tuple<std::string, double>> &hypers, int64_t step,
    uint64_t seed, uint32_t key, int64_t first, const std::string &function,
    nb::object external) {
  std::vector<const char *> directories;
  for (const std::string &directory : path)
    directories.push_back(directory.c_str());
  std::vector<TandemPlaneArray> planes;
  for (const auto &[name, array] : arrays) {
    if (array.device_type() != nb::device::cpu::value)
      throw nb::value_error("array is not on the CPU");
    checkDense(array);
    planes.push_back({name.c_str(), const_cast<void *>(array.data()),
                      array.shape_ptr(), intptr_t(array.ndim()),
                      int32_t(array.dtype().bits)});
  }
  std::vector<TandemHyperValue> values;
  for (const auto &[name, value] : hypers)
    values.push_back({name.c_str(), value});
  uint32_t flags = 0;
  TandemInterpretOptions options = {graph.c_str(),
                                    strategy.c_str(),
                                    directories.data(),
                                    intptr_t(directories.size()),
                                    values.data(),
                                    intptr_t(values.size()),
                                    step,
                                    seed,
                                    key,
                                    first,
                                    &flags,
                                    function.c_str(),
                                    nullptr,
                                    nullptr};
  ExternalCalls calls{std::move(external), {}};
  if (!calls.function.is_none()) {
    options.external = ExternalCalls::call;
    options.externalHost = &calls;
  }
  bool isDone = released([&] {
    return compiler().tandemInterpret(&options, planes.data(), planes.size());
  });
  if (calls.error)
    throw nb::python_error(std::move(*calls.error));
  if (!isDone)
    throwCompilerError();
  return flags;
}

/// Returns the names of the files in a part of the library.
static std::vector<std::string> listNames(intptr_t count,
                                          const char *(*getName)(intptr_t)) {
  std::vector<std::string> names;
  for (intptr_t i = 0; i < count; ++i)
    names.push_back(getName(i));
  return names;
}

/// Returns the texts of the files in a part of the library by name.
static std::map<std::string, std::string>
listTexts(intptr_t count, const char *(*getName)(intptr_t),
          const char *(*getText)(intptr_t)) {
  std::map<std::string, std::string> texts;
  for (intptr_t i = 0; i < count; ++i)
    texts[getName(i)] = getText(i);
  return texts;
}

static void bindKernel(nb::module_ &m) {
  nb::class_<Kernel>(m, "Kernel")
      .def(nb::init<const std::string &, const std::string &,
                    const std::vector<std::string> &, const std::string &,
                    const std::string &, int64_t, bool, bool, bool, bool,
                    const std::string &, const Kernel::Rules &,
                    const std::string &>())
      .def(nb::init<const std::string &, const std::string &,
                    const std::string &, const std::string &>())
      .def_prop_ro("info", &Kernel::info)
      .def_prop_ro("image", &Kernel::image)
      .def_prop_ro("image_target", &Kernel::imageTarget)
      .def_prop_ro("tensors", &Kernel::tensors)
      .def_prop_ro("checked_planes", &Kernel::checkedPlanes)
      .def("compile_finite_check", &Kernel::compileFiniteCheck)
      .def("runtime_address",
           [](Kernel &k) {
             return reinterpret_cast<uintptr_t>(k.getRuntime(nullptr));
           })
      .def_prop_ro("phases", &Kernel::phases)
      .def_prop_ro("epilogues", &Kernel::epilogues)
      .def_prop_ro("reductions", &Kernel::reductions)
      .def_prop_ro("externals", &Kernel::externals)
      .def_prop_ro("planes", &Kernel::planes)
      .def_prop_ro("hypers", &Kernel::hypers)
      .def_prop_ro("integers", &Kernel::integers);
}

static void bindDevice(nb::module_ &m) {
  nb::class_<Device>(m, "Device")
      .def(nb::init<const std::string &, int32_t>())
      .def_prop_ro("ordinal", [](Device &d) { return d.query().ordinal; })
      .def_prop_ro("name",
                   [](Device &d) { return std::string(d.query().name); })
      .def_prop_ro("target",
                   [](Device &d) { return std::string(d.query().target); })
      .def_prop_ro("memory", [](Device &d) { return d.query().memory; })
      .def("allocate", &Device::allocate)
      .def("free", &Device::free)
      .def("copy", &Device::copy)
      .def("synchronize", &Device::synchronize);
  nb::class_<Product>(m, "Product")
      .def(nb::init<const Device &, int64_t, int64_t, int64_t, uint32_t,
                    uint32_t, bool, bool>())
      .def("launch", &Product::launch);
}

static void bindPlan(nb::module_ &m) {
  nb::class_<Plan>(m, "Plan")
      .def(nb::init<nb::object, Device *>(), "kernel"_a,
           "device"_a.none() = nb::none())
      .def("update", &Plan::update)
      .def("set_exchange", &Plan::setExchange, "function"_a.none())
      .def("set_external", &Plan::setExternal, "function"_a.none())
      .def("update_replay", &Plan::updateReplay)
      .def("update_gradients", &Plan::updateGradients)
      .def("launch", &Plan::launch)
      .def("launch_async", &Plan::launchAsync)
      .def("launch_on_device", &Plan::launchOnDevice)
      .def("flags", &Plan::flags)
      .def("sum", &Plan::sum)
      .def("metrics", &Plan::metrics);
  nb::class_<ReplayCache>(m, "ReplayCache")
      .def(nb::init<nb::handle, nb::handle, const std::string &>(), "type"_a,
           "spread_type"_a.none(), "count"_a)
      .def("add_launch", &ReplayCache::addLaunch)
      .def("add", &ReplayCache::add, "param"_a, "state"_a.none(), "launch"_a,
           "tensor"_a, "planes"_a, "gradient"_a)
      .def("add_idle", &ReplayCache::addIdle)
      .def("set_states", &ReplayCache::setStates)
      .def("read", &ReplayCache::read)
      .def("steps", &ReplayCache::steps)
      .def("store", &ReplayCache::store);
}

static void bindFunctions(nb::module_ &m) {
  m.def("compile_conversion", &compileConversion);
  m.def("compile_sum", &compileSum);
  m.def("save", &save);
  m.def("use_openmp", &useOpenMP);
  m.def("device_count", [](const std::string &driver) {
    int32_t count = 0;
    check(released([&] { return tdm_device_count(driver.c_str(), &count); }));
    return count;
  });
  m.def("describe", &describe);
  m.def("evaluate_ptx", &evaluatePTX);
  m.def("interpret", &interpret, "graph"_a, "strategy"_a, "path"_a, "arrays"_a,
        "hypers"_a, "step"_a, "seed"_a, "key"_a, "first"_a, "function"_a,
        "external"_a.none());
}

/// Binds the functions that list the library.
static void bindLibrary(nb::module_ &m) {
  m.def("native_isa", [] { return compiler().tandemGetNativeISA(); });
  m.def("graphs", [] {
    return listNames(compiler().tandemGetNumGraphs(),
                     compiler().tandemGetGraphName);
  });
  m.def("strategies", [] {
    return listNames(compiler().tandemGetNumStrategies(),
                     compiler().tandemGetStrategyName);
  });
  m.def("layers", [] {
    return listTexts(compiler().tandemGetNumLayers(),
                     compiler().tandemGetLayerName,
                     compiler().tandemGetLayerText);
  });
  m.def("recipes", [] {
    return listNames(compiler().tandemGetNumRecipes(),
                     compiler().tandemGetRecipeName);
  });
}

/// Binds the functions of the cache on disk.
static void bindCache(nb::module_ &m) {
  m.def("query_cache", [] {
    tdm_cache_info info = {};
    info.struct_size = sizeof(info);
    check(tdm_cache_query(&info));
    nb::dict fields;
    fields["folder"] = info.folder;
    fields["enabled"] = bool(info.enabled);
    fields["entries"] = info.entries;
    fields["bytes"] = info.bytes;
    fields["limit"] = info.limit;
    fields["hits"] = info.hits;
    const Compiler *compiler = loadedCompiler();
    fields["compilations"] =
        compiler ? compiler->tandemGetNumCompilations() : 0;
    return fields;
  });
  m.def("clear_cache", [] { check(tdm_cache_clear()); });
}

NB_MODULE(_tandem, m) {
  m.doc() = "Bindings of Tandem's compiler and runtime";
  bindDescription(m);
  bindLaunchABI(m);
  bindStorages(m);
  bindLayers(m, [](TandemKernel *kernel) {
    return nb::cast(std::make_unique<Kernel>(kernel));
  });
  // The caches of torch.compile hold kernels until the process ends.
  nb::set_leak_warnings(false);
  bindKernel(m);
  bindDevice(m);
  bindPlan(m);
  bindFunctions(m);
  bindLibrary(m);
  bindCache(m);
}
