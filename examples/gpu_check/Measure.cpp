//===- Measure.cpp - Times on a GPU ---------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the measurement of kernels on a GPU and of the host.
//
//===----------------------------------------------------------------------===//

#include "GPUCheck.h"

#include <algorithm>
#include <chrono>
#include <functional>

using namespace gpucheck;

using Clock = std::chrono::steady_clock;

static double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

static double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

double gpucheck::bytesPerElement(const tdm_kernel_desc &desc) {
  double bits = 0;
  for (uint32_t i = 0; i < desc.num_planes; ++i) {
    const tdm_plane_desc &plane = desc.planes[i];
    if (plane.per != TDM_PER_ELEMENT || plane.group == TDM_WHOLE_TENSOR)
      continue;
    int ways = (plane.access & TDM_ACCESS_READ ? 1 : 0) +
               (plane.access & TDM_ACCESS_WRITE ? 1 : 0);
    bits += double(ways) * plane.bits / std::max<uint32_t>(1, plane.group);
  }
  return bits / 8;
}

/// Returns the shapes of a GPT-2 with 33 layers and width 448, which has 102.6
/// million parameters in 400 tensors.
static std::vector<Shape> shapesOfGPT2() {
  constexpr int64_t d = 448;
  const Shape block[] = {{1, d},     {1, d},     {3 * d, d}, {1, 3 * d},
                         {d, d},     {1, d},     {1, d},     {1, d},
                         {4 * d, d}, {1, 4 * d}, {d, 4 * d}, {1, d}};
  std::vector<Shape> shapes = {{50257, d}, {1024, d}};
  for (int layer = 0; layer < 33; ++layer)
    shapes.insert(shapes.end(), std::begin(block), std::end(block));
  shapes.insert(shapes.end(), 2, Shape{1, d});
  return shapes;
}

bool gpucheck::isLayer(const tdm_kernel_info &info) {
  for (uint32_t i = 0; i < info.desc->num_planes; ++i)
    if (info.desc->planes[i].kind == TDM_ROLE_PARAM)
      return false;
  return true;
}

static std::vector<Model> modelsOfLayer(int64_t elements) {
  constexpr int64_t columns = 4096, batch = 8192;
  int64_t rows = std::max<int64_t>(1, elements / columns);
  return {{"rows of 4096", {{rows, columns}}},
          {"8192 rows of 4096", {{std::min(rows, batch), columns}}}};
}

static std::vector<Model> modelsOf(const tdm_kernel_info &info,
                                   int64_t elements, int64_t tensors) {
  if (isLayer(info))
    return modelsOfLayer(elements);
  bool isMatrix = info.desc->matrix;
  constexpr int64_t columns = 4000;
  Shape large = {std::max<int64_t>(1, elements / columns), columns};
  std::vector<Shape> shapes = shapesOfGPT2();
  auto count = std::min(int64_t(shapes.size()), tensors);
  shapes.erase(shapes.begin(), shapes.end() - count);
  std::vector<Model> models = {{"one tensor", {large}}, {"GPT-2", shapes}};
  for (Model &model : models)
    for (Shape &shape : model.shapes)
      if (!isMatrix)
        shape = {1, shape.rows * shape.columns};
  return models;
}

bool gpucheck::fits(tdm_device *device, size_t bytes) {
  void *memory = nullptr;
  if (tdm_device_allocate(device, bytes, &memory))
    return false;
  require(tdm_device_free(device, memory));
  return true;
}

size_t gpucheck::sizeOf(const tdm_kernel_desc &desc, Shape shape) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < desc.num_planes; ++i)
    bytes += bytesOf(desc, desc.planes[i], shape);
  return size_t(bytes);
}

std::vector<Model> gpucheck::modelsOf(tdm_device *gpu,
                                      const tdm_kernel_info &info,
                                      int64_t elements, int64_t tensors) {
  std::vector<Model> models = ::modelsOf(info, elements, tensors);
  while (elements > 1 &&
         !fits(gpu, sizeOf(*info.desc, models.front().shapes[0])))
    models = ::modelsOf(info, elements /= 2, tensors);
  return models;
}

Times gpucheck::measure(tdm_device *gpu, tdm_kernel *kernel,
                        const tdm_kernel_info &info, const Model &model) {
  Times times;
  times.name = model.name;
  times.tensors = int64_t(model.shapes.size());
  for (Shape shape : model.shapes)
    times.elements += shape.rows * shape.columns;
  Shape sample = info.desc->matrix ? Shape{1024, 1024} : Shape{1, 1 << 20};
  Bound bound(gpu, kernel, info, model.shapes,
              makeContents(info, {sample}, Fill::Numbers, 3));
  constexpr int warmups = 3, steps = 10, repeats = 5;
  int64_t step = 0;
  auto run = [&](int count) {
    Clock::time_point start = Clock::now();
    for (int i = 0; i < count; ++i)
      bound.launchAsync(++step);
    require(tdm_device_synchronize(gpu));
    return secondsSince(start) / count;
  };
  run(warmups);
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i)
    seconds.push_back(run(steps));
  double second = median(seconds);
  times.milliseconds = second * 1e3;
  times.gigabytesPerSecond =
      bytesPerElement(*info.desc) * double(times.elements) / second * 1e-9;
  return times;
}

static double microsecondsOf(const std::function<void()> &call,
                             const std::function<void()> &finish) {
  std::vector<double> times;
  for (int i = 0; i < 50; ++i) {
    Clock::time_point start = Clock::now();
    call();
    times.push_back(secondsSince(start) * 1e6);
    finish();
  }
  return median(times);
}

static double millisecondsToStart(tdm_device *gpu, const tdm_package *package,
                                  const tdm_kernel_info &info,
                                  const ImageChoice &choice) {
  std::vector<Shape> shapes = {{8, 256}};
  Contents contents = makeContents(info, shapes, Fill::Numbers, 5);
  Clock::time_point start = Clock::now();
  KernelHandle handle = loadOnGPU(gpu, package, info, choice);
  Bound(gpu, handle.kernel, info, shapes, contents).launch(1);
  return secondsSince(start) * 1e3;
}

StartTimes gpucheck::measureStart(tdm_device *gpu, const tdm_package *package,
                                  const tdm_kernel_info &info,
                                  const ImageChoice &choice) {
  StartTimes times;
  times.compiled = millisecondsToStart(gpu, package, info, choice);
  times.cached = millisecondsToStart(gpu, package, info, choice);
  return times;
}

HostTimes gpucheck::measureHost(tdm_device *gpu, tdm_kernel *kernel,
                                const tdm_kernel_info &info, int count) {
  std::vector<Shape> shapes(size_t(count), Shape{8, 256});
  if (!info.desc->matrix)
    shapes.assign(size_t(count), Shape{1, 2048});
  Bound bound(gpu, kernel, info, shapes,
              makeContents(info, shapes, Fill::Numbers, 4));
  auto finish = [&] { require(tdm_device_synchronize(gpu)); };
  bound.launchAsync(1);
  finish();
  HostTimes times;
  times.launch = microsecondsOf([&] { bound.launchAsync(1); }, finish);
  times.sameUpdate = microsecondsOf(
      [&] {
        require(tdm_plan_update(bound.plan, bound.tensors.data(), count));
      },
      [] {});
  times.changedPerTensor = microsecondsOf(
                               [&] {
                                 bound.swapTensors();
                                 bound.launchAsync(1);
                               },
                               finish) /
                           count;
  return times;
}

double gpucheck::measureCopy(tdm_device *gpu, size_t bytes) {
  while (!fits(gpu, 2 * bytes))
    bytes /= 2;
  Allocation from(gpu, bytes), to(gpu, bytes);
  std::vector<double> seconds;
  for (int i = 0; i < 10; ++i) {
    Clock::time_point start = Clock::now();
    require(tdm_device_copy(gpu, to.data, from.data, bytes));
    require(tdm_device_synchronize(gpu));
    seconds.push_back(secondsSince(start));
  }
  return 2.0 * double(bytes) / median(seconds);
}
