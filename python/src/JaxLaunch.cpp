//===- JaxLaunch.cpp - Launches that XLA calls ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tandem.jax's library: the handlers through which XLA
// launches kernels on the CPU and on GPUs. It uses the C interfaces of XLA's
// FFI and of the runtime, and depends on neither Python nor the compiler.
//
//===----------------------------------------------------------------------===//

#include "JaxFrame.h"
#include "JaxKernels.h"
#include <cstring>
#include <new>

#define TANDEM_JAX_API extern "C" __attribute__((visibility("default")))

namespace {
//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// A call and its tensors in the form that plans take.
class Launch {
protected:
  explicit Launch(const XLA_FFI_CallFrame &call)
      : frame(call), kernel(Registry::get().find(frame.getText("kernel"))) {}

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

  /// Collects the scalars that were known when the call was traced.
  void collectScalars() {
    auto known = frame.getArray<double>("hypers", XLA_FFI_DataType_F64);
    auto counts = frame.getArray<int64_t>("integers", XLA_FFI_DataType_S64);
    hypers.assign(known.data, known.data + known.size);
    integers.assign(counts.data, counts.data + counts.size);
    Frame::require(hypers.size() == kernel.numHypers, "hypers");
    Frame::require(integers.size() == kernel.numIntegers, "integers");
  }

  /// Throws a failure of the runtime with tensors renamed to their leaves.
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

  Frame frame;
  Kernel &kernel;
  std::vector<void *> planes;
  std::vector<tdm_tensor> tensors;
  std::vector<double> hypers;
  std::vector<int64_t> integers;

private:
  /// Returns line number \p index of the names.
  std::string_view getName(int64_t index) const {
    std::string_view names = frame.getText("names");
    for (; index > 0; --index)
      names.remove_prefix(names.find('\n') + 1);
    return names.substr(0, names.find('\n'));
  }
};

//===----------------------------------------------------------------------===//
// On the CPU
//===----------------------------------------------------------------------===//

/// A synchronous launch, whose operands the host can read.
class CPULaunch : Launch {
public:
  explicit CPULaunch(const XLA_FFI_CallFrame &call) : Launch(call) {
    collectPlanes();
    collectTensors();
    collectScalars();
    collectGivenScalars();
  }

  void run() {
    Lease lease(kernel, {frame.getNumber("site")});
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
  /// Collects the address of each plane. A result that does not share its
  /// operand's memory starts as a copy of the operand.
  void collectPlanes() {
    auto places = frame.getArray<int64_t>("planes", XLA_FFI_DataType_S64);
    for (size_t i = 0; i < places.size; i += 2) {
      int64_t result = places[i + 1];
      void *from = frame.getOperandData(places[i]);
      void *to = result < 0 ? from : frame.getResultData(result);
      if (from && to != from)
        std::memcpy(to, from, getBytes(frame.getResult(result)));
      planes.push_back(to);
    }
  }

  /// Collects the scalars that are operands: hyperparameters by index, and
  /// integers by negative index.
  void collectGivenScalars() {
    auto given = frame.getArray<int64_t>("scalars", XLA_FFI_DataType_S64);
    for (size_t i = 0; i < given.size; ++i)
      if (given[i] < 0)
        integers.at(-1 - given[i]) = frame.getInteger(i);
      else
        hypers.at(given[i]) = frame.getValue(i);
  }

  void writeFlags(uint32_t flags) {
    if (void *to = frame.getResultData(frame.getNumber("flags")))
      *static_cast<uint32_t *>(to) = flags;
  }

  /// Writes the metrics of all tensors, rounded to f32, if they are requested.
  /// They are zero if no step was taken.
  void writeMetrics(tdm_plan *plan) {
    void *to = frame.getResultData(frame.getNumber("metrics"));
    if (!to)
      return;
    double values[4] = {};
    if (plan)
      check(tdm_plan_metrics(plan, TDM_ALL_TENSORS, values, 4));
    for (int i = 0; i < 4; ++i)
      static_cast<float *>(to)[i] = float(values[i]);
  }
};

//===----------------------------------------------------------------------===//
// On GPUs
//===----------------------------------------------------------------------===//

/// A launch on XLA's stream, for which the host does not wait. All operands,
/// including rows of scalars, are in the GPU's memory.
class GPULaunch : Launch {
public:
  explicit GPULaunch(const XLA_FFI_CallFrame &call) : Launch(call) {
    collectPlanes();
    Frame::require(frame.getNumber("shards") < 0, "shards");
    Frame::require(frame.getNumber("metrics") < 0, "metrics");
    collectTensors();
    collectScalars();
    args.struct_size = sizeof(args);
    args.stream = frame.getStream();
    args.rows = 1;
    collectRows();
    args.skip = frame.getOperandData(frame.getNumber("skip"));
    args.flags = frame.getResultData(frame.getNumber("flags"));
  }

  void run() {
    Lease lease(kernel,
                {frame.getNumber("site"), frame.getOrdinal(), args.stream});
    check(lease.update(tensors));
    for (int64_t i = 0; i < frame.getNumber("launches"); ++i)
      check(tdm_plan_launch_async(lease.plan, &args));
  }

private:
  /// Collects the address of each plane. Results share their operands' memory,
  /// since the call requests aliasing.
  void collectPlanes() {
    auto places = frame.getArray<int64_t>("planes", XLA_FFI_DataType_S64);
    for (size_t i = 0; i < places.size; i += 2) {
      int64_t result = places[i + 1];
      void *from = frame.getOperandData(places[i]);
      void *to = result < 0 ? from : frame.getResultData(result);
      Frame::require(to == from || !from || !getBytes(frame.getResult(result)),
                     "copies of planes");
      planes.push_back(to);
    }
  }

  /// Sets the row of scalars: two operands if XLA computes some of them, or
  /// else the scalars that were known at trace time.
  void collectRows() {
    int64_t row = frame.getNumber("row");
    args.on_device = row >= 0;
    args.hypers = row < 0 ? hypers.data()
                          : static_cast<double *>(frame.getOperandData(row));
    args.integers = row < 0
                        ? integers.data()
                        : static_cast<int64_t *>(frame.getOperandData(row + 1));
  }

  tdm_async_args args = {};
};

//===----------------------------------------------------------------------===//
// XLA's side
//===----------------------------------------------------------------------===//

/// Reports the version of the interface that this was compiled for, which XLA
/// queries when a handler is registered. Returns whether this was such a query.
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
/// Runs a call as a launch of \p Kind, and turns exceptions into XLA's errors.
template <typename Kind>
XLA_FFI_Error *launch(const XLA_FFI_CallFrame &frame) {
  if (describe(frame))
    return nullptr;
  try {
    Kind(frame).run();
    return nullptr;
  } catch (const Failure &failure) {
    return makeError(frame, failure.code, failure.what());
  } catch (const std::bad_alloc &) {
    return makeError(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED,
                     "there is no memory for a launch of tandem.jax");
  } catch (const std::exception &error) {
    return makeError(frame, XLA_FFI_Error_Code_INTERNAL, error.what());
  }
}
} // namespace

/// XLA's handler for the CPU.
TANDEM_JAX_API XLA_FFI_Error *tandem_jax_launch(XLA_FFI_CallFrame *frame) {
  return launch<CPULaunch>(*frame);
}

/// XLA's handler for CUDA.
TANDEM_JAX_API XLA_FFI_Error *tandem_jax_launch_cuda(XLA_FFI_CallFrame *frame) {
  return launch<GPULaunch>(*frame);
}

/// Adds a kernel of the runtime, which lives as long as the process, under a
/// hash. An existing kernel with this hash is kept.
TANDEM_JAX_API void tandem_jax_add(const char *name, const void *kernel,
                                   size_t numPlanes, size_t numHypers,
                                   size_t numIntegers) {
  Registry::get().add(name, static_cast<const tdm_kernel *>(kernel), numPlanes,
                      numHypers, numIntegers);
}

/// Adds the package with the GPU code of a kernel that was added before.
/// Returns an error message, or NULL on success.
TANDEM_JAX_API const char *
tandem_jax_add_package(const char *name, const void *bytes, size_t size) {
  tdm_package *package = nullptr;
  if (tdm_package_open_memory(bytes, size, "a kernel of tandem.jax", &package))
    return tdm_last_error();
  Registry::get().find(name).addPackage(package);
  return nullptr;
}
