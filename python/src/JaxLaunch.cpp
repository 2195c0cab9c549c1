//===- JaxLaunch.cpp - Launches that XLA calls ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the library of tandem.jax: the handler by which XLA
// launches kernels on the CPU, over the C interface of XLA's FFI and of the
// runtime. It knows neither Python nor the compiler. Call sites name kernels by
// a hash, so that an executable that XLA has kept on disk finds its kernel in
// another process.
//
//===----------------------------------------------------------------------===//

#include "tandem-runtime/tandem_runtime.h"
#include "xla/ffi/api/c_api.h"
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#define TANDEM_JAX_API extern "C" __attribute__((visibility("default")))

namespace {
/// A problem that the handler reports to XLA.
struct Failure : std::runtime_error {
  Failure(XLA_FFI_Error_Code code, const std::string &message)
      : std::runtime_error(message), code(code) {}
  XLA_FFI_Error_Code code;
};

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// A kernel that Python has added, with the plans that no launch is using.
struct Kernel {
  const tdm_kernel *handle;
  size_t numPlanes, numHypers, numIntegers;
  std::mutex mutex;
  /// By the number of a call site, whose launches have tensors of one size.
  std::map<int64_t, std::vector<tdm_plan *>> idle;
};

/// The kernels by their hashes. They live as long as the process: XLA may run
/// an executable while the process ends.
class Registry {
public:
  static Registry &get() {
    static Registry *registry = new Registry;
    return *registry;
  }

  void add(const std::string &name, const tdm_kernel *handle, size_t numPlanes,
           size_t numHypers, size_t numIntegers) {
    std::lock_guard<std::mutex> lock(mutex);
    std::unique_ptr<Kernel> &kernel = kernels[name];
    if (kernel)
      return;
    kernel = std::make_unique<Kernel>();
    kernel->handle = handle;
    kernel->numPlanes = numPlanes;
    kernel->numHypers = numHypers;
    kernel->numIntegers = numIntegers;
  }

  Kernel &find(std::string_view name) {
    std::lock_guard<std::mutex> lock(mutex);
    auto found = kernels.find(name);
    if (found == kernels.end())
      throw Failure(XLA_FFI_Error_Code_FAILED_PRECONDITION,
                    "this process has not compiled the kernel of a launch that "
                    "was compiled elsewhere; create its optimizer or layer by "
                    "tandem.jax before the launch runs, with the same graph "
                    "and strategy, by the same version of Tandem");
    return *found->second;
  }

private:
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;
};

/// A plan, which one launch at a time can have.
class Lease {
public:
  Lease(Kernel &kernel, int64_t site) : kernel(kernel), site(site) {
    std::lock_guard<std::mutex> lock(kernel.mutex);
    std::vector<tdm_plan *> &idle = kernel.idle[site];
    if (idle.empty())
      return;
    plan = idle.back();
    idle.pop_back();
  }
  ~Lease() {
    std::lock_guard<std::mutex> lock(kernel.mutex);
    if (plan)
      kernel.idle[site].push_back(plan);
  }
  Lease(const Lease &) = delete;
  Lease &operator=(const Lease &) = delete;

  tdm_status update(const std::vector<tdm_tensor> &tensors) {
    if (plan)
      return tdm_plan_update(plan, tensors.data(), tensors.size());
    return tdm_plan_create(kernel.handle, tensors.data(), tensors.size(),
                           &plan);
  }

  tdm_plan *plan = nullptr;

private:
  Kernel &kernel;
  int64_t site;
};

//===----------------------------------------------------------------------===//
// Call frames
//===----------------------------------------------------------------------===//

template <typename Value>
struct Span {
  const Value *data = nullptr;
  size_t size = 0;
  const Value &operator[](size_t i) const { return data[i]; }
};

/// A call's buffers and attributes.
class Frame {
public:
  explicit Frame(const XLA_FFI_CallFrame &frame) : frame(frame) {}

  std::string_view getText(std::string_view name) const {
    const void *attr = getAttr(name, XLA_FFI_AttrType_STRING);
    auto &span = *static_cast<const XLA_FFI_ByteSpan *>(attr);
    return {span.ptr, span.len};
  }

  int64_t getNumber(std::string_view name) const {
    const void *attr = getAttr(name, XLA_FFI_AttrType_SCALAR);
    auto &scalar = *static_cast<const XLA_FFI_Scalar *>(attr);
    require(scalar.dtype == XLA_FFI_DataType_S64, name);
    return *static_cast<const int64_t *>(scalar.value);
  }

  template <typename Value>
  Span<Value> getArray(std::string_view name, XLA_FFI_DataType type) const {
    const void *attr = getAttr(name, XLA_FFI_AttrType_ARRAY);
    auto &array = *static_cast<const XLA_FFI_Array *>(attr);
    require(array.dtype == type || array.size == 0, name);
    return {static_cast<const Value *>(array.data), array.size};
  }

  const XLA_FFI_Buffer &getOperand(int64_t index) const {
    require(index >= 0 && index < frame.args.size, "operands");
    return *static_cast<const XLA_FFI_Buffer *>(frame.args.args[index]);
  }

  const XLA_FFI_Buffer &getResult(int64_t index) const {
    require(index >= 0 && index < frame.rets.size, "results");
    return *static_cast<const XLA_FFI_Buffer *>(frame.rets.rets[index]);
  }

  /// The operand's number, which is one of 32 or 64 bits.
  double getValue(int64_t index) const {
    const XLA_FFI_Buffer &buffer = getOperand(index);
    switch (buffer.dtype) {
    case XLA_FFI_DataType_F32:
      return *static_cast<const float *>(buffer.data);
    case XLA_FFI_DataType_F64:
      return *static_cast<const double *>(buffer.data);
    default:
      return double(getInteger(index));
    }
  }

  int64_t getInteger(int64_t index) const {
    const XLA_FFI_Buffer &buffer = getOperand(index);
    if (buffer.dtype == XLA_FFI_DataType_S64)
      return *static_cast<const int64_t *>(buffer.data);
    require(buffer.dtype == XLA_FFI_DataType_S32, "scalars");
    return *static_cast<const int32_t *>(buffer.data);
  }

  static void require(bool holds, std::string_view name) {
    if (!holds)
      throw Failure(XLA_FFI_Error_Code_INTERNAL,
                    "a launch of tandem.jax has unexpected " +
                        std::string(name) +
                        "; trace its function anew with this version");
  }

private:
  const void *getAttr(std::string_view name, XLA_FFI_AttrType type) const {
    const XLA_FFI_Attrs &attrs = frame.attrs;
    for (int64_t i = 0; i < attrs.size; ++i)
      if (name == std::string_view(attrs.names[i]->ptr, attrs.names[i]->len) &&
          attrs.types[i] == type)
        return attrs.attrs[i];
    require(false, name);
    return nullptr;
  }

  const XLA_FFI_CallFrame &frame;
};

size_t getBytes(const XLA_FFI_Buffer &buffer) {
  size_t bytes = 0;
  switch (buffer.dtype) {
  case XLA_FFI_DataType_F32:
  case XLA_FFI_DataType_S32:
  case XLA_FFI_DataType_U32:
    bytes = 4;
    break;
  case XLA_FFI_DataType_BF16:
  case XLA_FFI_DataType_F16:
  case XLA_FFI_DataType_S16:
  case XLA_FFI_DataType_U16:
    bytes = 2;
    break;
  default:
    bytes = 1;
  }
  for (int64_t i = 0; i < buffer.rank; ++i)
    bytes *= buffer.dims[i];
  return bytes;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// One call: its tensors and scalars, as a plan takes them.
class Launch {
public:
  Launch(const XLA_FFI_CallFrame &call)
      : frame(call), kernel(Registry::get().find(frame.getText("kernel"))) {
    collectPlanes();
    collectTensors();
    collectScalars();
  }

  void run() {
    Lease lease(kernel, frame.getNumber("site"));
    check(lease.update(tensors));
    int64_t skip = frame.getNumber("skip");
    bool skips = skip >= 0 && frame.getInteger(skip) != 0;
    tdm_launch_info info = {};
    info.struct_size = sizeof(info);
    for (int64_t i = 0; !skips && i < frame.getNumber("launches"); ++i)
      check(tdm_plan_launch(lease.plan, hypers.data(), integers.data(), 1,
                            frame.getNumber("threads"), &info));
    writeFlags(info.flags);
    writeMetrics(skips ? nullptr : lease.plan);
  }

private:
  /// The address of each plane. What XLA has not given the memory of its
  /// operand begins as a copy of it.
  void collectPlanes() {
    auto places = frame.getArray<int64_t>("planes", XLA_FFI_DataType_S64);
    for (size_t i = 0; i < places.size; i += 2) {
      int64_t operand = places[i], result = places[i + 1];
      void *from = operand < 0 ? nullptr : frame.getOperand(operand).data;
      void *to = result < 0 ? from : frame.getResult(result).data;
      if (from && to != from)
        std::memcpy(to, from, getBytes(frame.getResult(result)));
      planes.push_back(to);
    }
  }

  void collectTensors() {
    auto sizes = frame.getArray<int64_t>("tensors", XLA_FFI_DataType_S64);
    size_t count = sizes.size / 3;
    Frame::require(planes.size() == count * kernel.numPlanes, "planes");
    int64_t shards = frame.getNumber("shards");
    for (size_t i = 0; i < count; ++i) {
      int64_t rows = sizes[3 * i], columns = sizes[3 * i + 1], first = 0;
      if (shards >= 0)
        first = static_cast<const int32_t *>(frame.getOperand(shards).data)[i];
      tensors.push_back({rows, columns, first * rows * columns,
                         sizes[3 * i + 2], 0,
                         planes.data() + i * kernel.numPlanes, nullptr});
    }
  }

  /// The numbers that were known when the call was traced, and those that
  /// operands have: of hyperparameters, and below 0 of integers.
  void collectScalars() {
    auto known = frame.getArray<double>("hypers", XLA_FFI_DataType_F64);
    auto counts = frame.getArray<int64_t>("integers", XLA_FFI_DataType_S64);
    auto given = frame.getArray<int64_t>("scalars", XLA_FFI_DataType_S64);
    hypers.assign(known.data, known.data + known.size);
    integers.assign(counts.data, counts.data + counts.size);
    Frame::require(hypers.size() == kernel.numHypers, "hypers");
    Frame::require(integers.size() == kernel.numIntegers, "integers");
    for (size_t i = 0; i < given.size; ++i)
      if (given[i] < 0)
        integers.at(-1 - given[i]) = frame.getInteger(i);
      else
        hypers.at(given[i]) = frame.getValue(i);
  }

  void writeFlags(uint32_t flags) {
    int64_t at = frame.getNumber("flags");
    if (at >= 0)
      *static_cast<uint32_t *>(frame.getResult(at).data) = flags;
  }

  /// Writes the sums over all tensors, rounded to f32, if they are wanted;
  /// zeros where no step was taken.
  void writeMetrics(tdm_plan *plan) {
    int64_t at = frame.getNumber("metrics");
    if (at < 0)
      return;
    double values[4] = {};
    if (plan)
      check(tdm_plan_metrics(plan, TDM_ALL_TENSORS, values, 4));
    for (int i = 0; i < 4; ++i)
      static_cast<float *>(frame.getResult(at).data)[i] = float(values[i]);
  }

  /// Reports a failure of the runtime, in which tensors have the names of
  /// leaves.
  void check(tdm_status status) const {
    if (status == TDM_OK)
      return;
    std::vector<tdm_message_part> parts(tdm_last_error_parts(nullptr, 0));
    tdm_last_error_parts(parts.data(), parts.size());
    std::string message;
    for (const tdm_message_part &part : parts)
      if (part.kind == TDM_MESSAGE_TENSOR)
        message += getName(part.index);
      else if (part.kind == TDM_MESSAGE_ROW)
        message += "this step";
      else
        message.append(part.text, part.size);
    throw Failure(status == TDM_OUT_OF_MEMORY
                      ? XLA_FFI_Error_Code_RESOURCE_EXHAUSTED
                      : XLA_FFI_Error_Code_INVALID_ARGUMENT,
                  message);
  }

  /// Line number \p index of the names.
  std::string_view getName(int64_t index) const {
    std::string_view names = frame.getText("names");
    for (; index > 0; --index)
      names.remove_prefix(names.find('\n') + 1);
    return names.substr(0, names.find('\n'));
  }

  Frame frame;
  Kernel &kernel;
  std::vector<void *> planes;
  std::vector<tdm_tensor> tensors;
  std::vector<double> hypers;
  std::vector<int64_t> integers;
};

//===----------------------------------------------------------------------===//
// XLA's side
//===----------------------------------------------------------------------===//

XLA_FFI_Error *makeError(const XLA_FFI_CallFrame &frame,
                         XLA_FFI_Error_Code code, const char *message) {
  XLA_FFI_Error_Create_Args args = {};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = code;
  return frame.api->XLA_FFI_Error_Create(&args);
}

/// Tells XLA, which asks when a handler is registered, for which version of the
/// interface this was compiled. Returns whether it has asked.
bool describe(const XLA_FFI_CallFrame &frame) {
  auto *extension = frame.extension_start;
  if (!extension || extension->type != XLA_FFI_Extension_Metadata)
    return false;
  auto &metadata =
      *reinterpret_cast<XLA_FFI_Metadata_Extension *>(extension)->metadata;
  metadata.api_version.major_version = XLA_FFI_API_MAJOR;
  metadata.api_version.minor_version = XLA_FFI_API_MINOR;
  metadata.traits = 0;
  return true;
}
} // namespace

/// Launches a kernel: XLA's handler for the CPU.
TANDEM_JAX_API XLA_FFI_Error *tandem_jax_launch(XLA_FFI_CallFrame *frame) {
  if (describe(*frame))
    return nullptr;
  try {
    Launch(*frame).run();
    return nullptr;
  } catch (const Failure &failure) {
    return makeError(*frame, failure.code, failure.what());
  } catch (const std::bad_alloc &) {
    return makeError(*frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED,
                     "there is no memory for a launch of tandem.jax");
  } catch (const std::exception &error) {
    return makeError(*frame, XLA_FFI_Error_Code_INTERNAL, error.what());
  }
}

/// Adds a kernel of the runtime, which lives as long as the process, under a
/// hash. One that is there already stays.
TANDEM_JAX_API void tandem_jax_add(const char *name, const void *kernel,
                                   size_t numPlanes, size_t numHypers,
                                   size_t numIntegers) {
  Registry::get().add(name, static_cast<const tdm_kernel *>(kernel), numPlanes,
                      numHypers, numIntegers);
}
