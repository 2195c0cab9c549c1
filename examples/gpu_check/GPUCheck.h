//===- GPUCheck.h - Kernels on a GPU and on the CPU -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the parts of the check of kernels on a GPU: arrays for the
// tensors of a kernel, runs of the same steps on two devices, and times.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_EXAMPLES_GPUCHECK_H
#define TANDEM_EXAMPLES_GPUCHECK_H

#include "tandem-runtime/tandem_package.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gpucheck {

/// An error that ends the check of one kernel; other kernels are still checked.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The error that there is nothing to check.
struct Absent : Error {
  using Error::Error;
};

/// Throws the runtime's message unless a call has succeeded.
inline void require(tdm_status status) {
  if (status != TDM_OK)
    throw Error(tdm_last_error());
}

/// Owns a kernel.
struct KernelHandle {
  KernelHandle() = default;
  KernelHandle(KernelHandle &&other)
      : kernel(std::exchange(other.kernel, nullptr)) {}
  ~KernelHandle() { tdm_kernel_destroy(kernel); }

  tdm_kernel *kernel = nullptr;
};

/// Owns memory of a device.
class Allocation {
public:
  Allocation(tdm_device *device, size_t bytes) : device(device) {
    require(tdm_device_allocate(device, bytes, &data));
  }
  ~Allocation() { tdm_device_free(device, data); }
  Allocation(const Allocation &) = delete;

  void *data = nullptr;

private:
  tdm_device *device;
};

/// A tensor's rows and columns; one row except in matrix kernels.
struct Shape {
  int64_t rows, columns;
};

/// Return the number of entries, or of bytes, of a plane of such a tensor.
int64_t entriesOf(const tdm_kernel_desc &desc, const tdm_plane_desc &plane,
                  Shape shape);
int64_t bytesOf(const tdm_kernel_desc &desc, const tdm_plane_desc &plane,
                Shape shape);
/// Returns the size of all planes in bytes.
size_t sizeOf(const tdm_kernel_desc &desc, Shape shape);

/// Returns whether a device has this amount of memory left.
bool fits(tdm_device *device, size_t bytes);

/// The initial contents of planes: numbers of moderate size, or random bits.
enum class Fill { Numbers, Bits };

/// The contents of all planes of some tensors, one array for each plane.
using Contents = std::vector<std::vector<uint8_t>>;
Contents makeContents(const tdm_kernel_info &info,
                      const std::vector<Shape> &shapes, Fill fill,
                      uint32_t seed);

/// A kernel over tensors in the memory of a device.
class Bound {
public:
  /// Planes that are longer than what \p contents has of them repeat it.
  Bound(tdm_device *device, tdm_kernel *kernel, const tdm_kernel_info &info,
        const std::vector<Shape> &shapes, const Contents &contents);
  ~Bound();
  Bound(const Bound &) = delete;

  /// Runs a step and waits for it. 0 threads means one per core.
  uint32_t launch(int64_t step, int32_t threads = 1);
  /// Enqueues a step on a GPU, which skips it if the word at \p skip is not 0.
  void launchAsync(int64_t step, const void *skip = nullptr);
  Contents read() const;
  void *plane(uint32_t index) const { return planes[index]->data; }

  /// Swaps the planes of tensors of the same shape.
  void swapTensors();
  tdm_plan *plan = nullptr;
  std::vector<tdm_tensor> tensors;

private:
  void setArguments(int64_t step);

  tdm_device *device;
  const tdm_kernel_info &info;
  std::vector<std::unique_ptr<Allocation>> planes;
  std::vector<size_t> bytes;
  std::vector<std::vector<void *>> pointers;
  std::vector<double> hypers;
  std::vector<int64_t> integers;
};

/// Returns the title of a kernel's result: 'adamw under coat'.
std::string titleOf(const tdm_kernel_info &info);

/// The choice of the kernel image that a GPU runs: one of a kind, "ptx" or
/// "cubin", the output of a command such as "ptxas -O0" for the PTX, or the
/// runtime's choice.
struct ImageChoice {
  std::string kind, ptxas;
};
KernelHandle loadOnGPU(tdm_device *gpu, const tdm_package *package,
                       const tdm_kernel_info &info, const ImageChoice &choice);

/// Compares some steps of a kernel on both devices, over tensors of at most
/// \p largest elements. Returns the difference, or "".
std::string compare(tdm_device *cpu, tdm_device *gpu, tdm_kernel *onCPU,
                    tdm_kernel *onGPU, const tdm_kernel_info &info,
                    int64_t largest);

/// The comparison of a step over one large tensor.
struct LargeResult {
  /// "equal", or what differs.
  std::string verdict;
  /// The reason why there are fewer elements or only some are compared.
  std::string note;
  int64_t elements = 0;
  /// The fraction of all bytes that has been compared.
  double share = 0;
};
LargeResult compareLarge(tdm_device *cpu, tdm_device *gpu, tdm_kernel *onCPU,
                         tdm_kernel *onGPU, const tdm_kernel_info &info,
                         int64_t elements, const std::function<bool()> &isLate);

/// The tensors of a measurement.
struct Model {
  std::string name;
  std::vector<Shape> shapes;
};
/// Returns one tensor, halved until it fits into the memory, and the last
/// \p tensors tensors of a GPT-2, which are matrices if the kernel uses rows.
/// For a layer's pass, returns rows of 4096.
std::vector<Model> modelsOf(tdm_device *gpu, const tdm_kernel_info &info,
                            int64_t elements, int64_t tensors);

/// Returns whether a kernel is a pass of a layer rather than an optimizer step.
bool isLayer(const tdm_kernel_info &info);

/// Returns the number of bytes per element that a step reads and writes. The
/// bytes of a shared entry are divided among its elements.
double bytesPerElement(const tdm_kernel_desc &desc);

/// The times of steps on a GPU.
struct Times {
  std::string name;
  double milliseconds = 0, gigabytesPerSecond = 0;
  int64_t elements = 0, tensors = 0;
};
Times measure(tdm_device *gpu, tdm_kernel *kernel, const tdm_kernel_info &info,
              const Model &model);

/// The milliseconds from opening a kernel of a package to the end of its first
/// launch, when the driver compiles its PTX and when the code is cached.
struct StartTimes {
  double compiled = 0, cached = 0;
};
StartTimes measureStart(tdm_device *gpu, const tdm_package *package,
                        const tdm_kernel_info &info, const ImageChoice &choice);

/// The host's times in microseconds: of a launch with the same list, of an
/// update that finds the list unchanged, and, per tensor, of a launch with
/// other pointers.
struct HostTimes {
  double launch = 0, sameUpdate = 0, changedPerTensor = 0;
};
HostTimes measureHost(tdm_device *gpu, tdm_kernel *kernel,
                      const tdm_kernel_info &info, int count);

/// Returns the bytes per second that are read and written by a copy of at most
/// \p bytes within the device's memory.
double measureCopy(tdm_device *gpu, size_t bytes);

/// The result for a matrix product of cuBLASLt.
struct ProductRow {
  std::string name;
  uint32_t x, w;
  bool isFast;
  /// "right", or why it is wrong.
  std::string verdict;
  /// The size of the product that was timed.
  int64_t rows = 0, columns = 0, depth = 0;
  double milliseconds = 0, teraflops = 0;
};

/// Checks small products, and measures those of a linear layer of some width
/// with twice as many rows. Calls \p report with each result.
void measureProducts(tdm_device *gpu, int64_t width,
                     const std::function<void(const ProductRow &)> &report);

} // namespace gpucheck

#endif // TANDEM_EXAMPLES_GPUCHECK_H
