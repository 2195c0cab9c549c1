//===- Compare.cpp - Kernels on a GPU and on the CPU ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements kernels over tensors in the memory of a device, and the
// comparison of two devices.
//
//===----------------------------------------------------------------------===//

#include "GPUCheck.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace gpucheck;

//===----------------------------------------------------------------------===//
// Planes
//===----------------------------------------------------------------------===//

static int64_t divideUp(int64_t places, int64_t group) {
  return (places + group - 1) / group;
}

int64_t gpucheck::entriesOf(const tdm_kernel_desc &desc,
                            const tdm_plane_desc &plane, Shape shape) {
  int64_t elements = shape.rows * shape.columns;
  if (plane.group == TDM_WHOLE_TENSOR)
    return elements ? 1 : 0;
  int64_t group = std::max<int64_t>(1, plane.group);
  if (plane.per == TDM_PER_ROW)
    return divideUp(shape.rows, group);
  if (plane.per == TDM_PER_COLUMN)
    return divideUp(shape.columns, group);
  return desc.matrix ? shape.rows * divideUp(shape.columns, group)
                     : divideUp(elements, group);
}

int64_t gpucheck::bytesOf(const tdm_kernel_desc &desc,
                          const tdm_plane_desc &plane, Shape shape) {
  int64_t values = entriesOf(desc, plane, shape) *
                   std::max<int64_t>(1, int64_t(plane.history));
  return (values * int64_t(plane.bits) + 7) / 8;
}

static size_t bytesOf(const tdm_kernel_desc &desc, const tdm_plane_desc &plane,
                      const std::vector<Shape> &shapes) {
  int64_t bytes = 0;
  for (Shape shape : shapes)
    bytes += bytesOf(desc, plane, shape);
  return static_cast<size_t>(bytes);
}

std::string gpucheck::titleOf(const tdm_kernel_info &info) {
  std::string strategy = info.strategy;
  return info.graph + (strategy.empty() ? "" : " under " + strategy);
}

//===----------------------------------------------------------------------===//
// Contents
//===----------------------------------------------------------------------===//

/// Writes a number in the bits of a type. Returns false if the type is not a
/// float wider than 8 bits.
static bool writeNumber(const char *type, float value, uint8_t *place) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (!std::strcmp(type, "f32")) {
    std::memcpy(place, &bits, 4);
    return true;
  }
  uint16_t half = static_cast<uint16_t>(bits >> 16);
  if (!std::strcmp(type, "f16"))
    // The exponents of bf16 numbers around 1 fit into f16.
    half = static_cast<uint16_t>((bits >> 16 & 0x8000) |
                                 (((bits >> 13) - (112u << 10)) & 0x7FFF));
  else if (std::strcmp(type, "bf16"))
    return false;
  std::memcpy(place, &half, 2);
  return true;
}

/// Returns a number from 2^-6 to 4 in magnitude. It is negative only if
/// \p isSigned, which is false for values derived from squares.
static float randomNumber(std::mt19937 &random, bool isSigned) {
  uint32_t word = random();
  float value =
      std::ldexp(1.0f + float(word >> 9) * 0x1p-23f, int(word % 8) - 6);
  return isSigned && word & 256 ? -value : value;
}

static std::vector<uint8_t> makePlane(const tdm_kernel_info &info, uint32_t i,
                                      const std::vector<Shape> &shapes,
                                      Fill fill, std::mt19937 &random) {
  const tdm_plane_desc &plane = info.desc->planes[i];
  auto size = int64_t(::bytesOf(*info.desc, plane, shapes));
  std::vector<uint8_t> bytes(size + 8);
  for (int64_t at = 0; at < size; at += 4) {
    uint32_t word = random();
    std::memcpy(&bytes[at], &word, 4);
  }
  bool isScale = plane.group != 1 && plane.group != 0;
  bool isSigned = info.desc->planes[i].kind != TDM_ROLE_STATE && !isScale;
  int64_t step = std::max<int64_t>(1, plane.bits / 8);
  for (int64_t at = 0; fill == Fill::Numbers && at < size; at += step)
    if (!writeNumber(info.desc->planes[i].type, randomNumber(random, isSigned),
                     &bytes[at]))
      break;
  bytes.resize(size);
  return bytes;
}

Contents gpucheck::makeContents(const tdm_kernel_info &info,
                                const std::vector<Shape> &shapes, Fill fill,
                                uint32_t seed) {
  std::mt19937 random(seed);
  Contents contents;
  for (uint32_t i = 0; i < info.desc->num_planes; ++i)
    contents.push_back(makePlane(info, i, shapes, fill, random));
  return contents;
}

//===----------------------------------------------------------------------===//
// Kernels over tensors
//===----------------------------------------------------------------------===//

static double chooseHyper(const tdm_hyper_desc &desc) {
  double value = desc.has_default ? desc.default_value
                                  : std::clamp(1e-3, desc.min, desc.max);
  // An epsilon for other formats may round to zero in this one.
  return value > 0 ? std::max(value, desc.min_positive) : value;
}

/// Fills memory with repetitions of \p sample.
static void fill(tdm_device *device, void *memory, size_t size,
                 const std::vector<uint8_t> &sample) {
  size_t done = std::min(size, sample.size());
  require(tdm_device_copy(device, memory, sample.data(), done));
  for (; done && done < size; done *= 2)
    require(tdm_device_copy(device, static_cast<char *>(memory) + done, memory,
                            std::min(done, size - done)));
}

Bound::Bound(tdm_device *device, tdm_kernel *kernel,
             const tdm_kernel_info &info, const std::vector<Shape> &shapes,
             const Contents &contents)
    : device(device), info(info) {
  const tdm_kernel_desc &desc = *info.desc;
  pointers.resize(shapes.size());
  for (uint32_t i = 0; i < desc.num_planes; ++i) {
    bytes.push_back(::bytesOf(desc, desc.planes[i], shapes));
    planes.push_back(std::make_unique<Allocation>(device, bytes[i]));
    fill(device, planes[i]->data, bytes[i], contents[i]);
    char *place = static_cast<char *>(planes[i]->data);
    for (size_t t = 0; t < shapes.size(); ++t) {
      pointers[t].push_back(place);
      place += bytesOf(desc, desc.planes[i], shapes[t]);
    }
  }
  for (size_t t = 0; t < shapes.size(); ++t)
    tensors.push_back({shapes[t].rows, shapes[t].columns, 0, int64_t(t), 0,
                       pointers[t].data()});
  for (uint32_t i = 0; i < desc.num_hypers; ++i)
    hypers.push_back(chooseHyper(desc.hypers[i]));
  integers.resize(desc.num_integers);
  require(
      tdm_plan_create(kernel, tensors.data(), int64_t(tensors.size()), &plan));
}

Bound::~Bound() { tdm_plan_destroy(plan); }

void Bound::setArguments(int64_t step) {
  constexpr int64_t seed = 0x123456789ABC;
  for (uint32_t i = 0; i < info.desc->num_integers; ++i)
    integers[i] = info.desc->integers[i].kind == TDM_ROLE_STEP ? step : seed;
}

uint32_t Bound::launch(int64_t step, int32_t threads) {
  setArguments(step);
  tdm_launch_info launched = {sizeof(launched), 0, 0, 0};
  require(tdm_plan_launch(plan, hypers.data(), integers.data(), 1, threads,
                          &launched));
  return launched.flags;
}

void Bound::launchAsync(int64_t step, const void *skip) {
  setArguments(step);
  tdm_async_args args = {
      sizeof(args), nullptr, hypers.data(), integers.data(), 1, 0,
      skip,         nullptr};
  require(tdm_plan_launch_async(plan, &args));
}

Contents Bound::read() const {
  Contents contents;
  for (size_t i = 0; i < planes.size(); ++i) {
    contents.emplace_back(bytes[i]);
    require(
        tdm_device_copy(device, contents[i].data(), planes[i]->data, bytes[i]));
  }
  return contents;
}

void Bound::swapTensors() {
  for (size_t t = 0; t + 1 < tensors.size(); t += 2)
    std::swap(tensors[t].planes, tensors[t + 1].planes);
  require(tdm_plan_update(plan, tensors.data(), int64_t(tensors.size())));
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

/// Returns shapes with sizes around powers of two and around several chunks.
/// The tensors follow each other in memory, so that odd sizes leave the next
/// ones aligned only to an element.
static std::vector<Shape> shapesFor(const tdm_kernel_desc &desc,
                                    int64_t largest) {
  std::vector<Shape> shapes = {{1, 300000}, {1, 7}, {1, 4096},    {1, 0},
                               {1, 65544},  {1, 2}, {1, 1048576}, {1, 5},
                               {1, 300000}, {1, 2}, {1, 4104}};
  if (desc.matrix)
    shapes = {{1, 1}, {5, 8}, {3, 5000}, {300, 200}, {64, 2048}, {129, 2056}};
  for (Shape &shape : shapes) {
    shape.columns = std::min(shape.columns, largest);
    shape.rows = std::min(
        shape.rows,
        std::max<int64_t>(1, largest / std::max<int64_t>(1, shape.columns)));
  }
  return shapes;
}

static std::string difference(const tdm_kernel_info &info, const Contents &want,
                              const Contents &got) {
  for (size_t i = 0; i < want.size(); ++i)
    if (want[i] != got[i]) {
      size_t at =
          std::mismatch(want[i].begin(), want[i].end(), got[i].begin()).first -
          want[i].begin();
      return std::string("plane '") + info.desc->planes[i].name +
             "' differs at byte " + std::to_string(at) + " of " +
             std::to_string(want[i].size());
    }
  return "";
}

static std::string compareMetrics(const tdm_kernel_info &info, Bound &onCPU,
                                  Bound &onGPU) {
  uint32_t count = info.desc->workspace_doubles_per_chunk;
  std::vector<double> want(count), got(count);
  for (int64_t t = TDM_ALL_TENSORS; count && t < int64_t(onCPU.tensors.size());
       ++t) {
    require(tdm_plan_metrics(onCPU.plan, t, want.data(), count));
    require(tdm_plan_metrics(onGPU.plan, t, got.data(), count));
    if (std::memcmp(want.data(), got.data(), count * sizeof(double)) != 0)
      return "the metrics of tensor " + std::to_string(t) + " differ";
  }
  return "";
}

/// Checks that a skipped step changes no byte. Returns the difference, or "".
static std::string compareSkipped(tdm_device *gpu, const tdm_kernel_info &info,
                                  Bound &onGPU) {
  float word = 1.0f;
  Allocation skip(gpu, sizeof(word));
  require(tdm_device_copy(gpu, skip.data, &word, sizeof(word)));
  Contents before = onGPU.read();
  onGPU.launchAsync(9, skip.data);
  std::string found = difference(info, before, onGPU.read());
  return found.empty() ? "" : "in a step that is skipped, " + found;
}

std::string gpucheck::compare(tdm_device *cpu, tdm_device *gpu,
                              tdm_kernel *cpuKernel, tdm_kernel *gpuKernel,
                              const tdm_kernel_info &info, int64_t largest) {
  std::vector<Shape> shapes = shapesFor(*info.desc, largest);
  for (Fill fill : {Fill::Numbers, Fill::Bits}) {
    Contents contents = makeContents(info, shapes, fill, 1 + int(fill));
    Bound onCPU(cpu, cpuKernel, info, shapes, contents);
    Bound onGPU(gpu, gpuKernel, info, shapes, contents);
    for (int64_t step = 1; step <= 3; ++step) {
      if (onCPU.launch(step) != onGPU.launch(step))
        return "the flags of step " + std::to_string(step) + " differ";
      std::string found = difference(info, onCPU.read(), onGPU.read());
      if (found.empty())
        found = compareMetrics(info, onCPU, onGPU);
      if (!found.empty())
        return "step " + std::to_string(step) +
               (fill == Fill::Bits ? " of any bits: " : " of numbers: ") +
               found;
    }
    tdm_device_info device = {};
    device.struct_size = sizeof(device);
    require(tdm_device_query(gpu, &device));
    if (device.driver != std::string("cpu"))
      if (std::string found = compareSkipped(gpu, info, onGPU); !found.empty())
        return found;
  }
  return "";
}
