//===- Kernel.cpp - Kernels in Python -------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the kernels of the Python extension. The compiler is
// loaded only for queries of a package's kernel that the runtime cannot answer.
//
//===----------------------------------------------------------------------===//

#include "Kernel.h"
#include "Compiler.h"
#include "Description.h"

namespace nb = nanobind;

Kernel::Kernel(const std::string &graph, const std::string &strategy,
               const std::vector<std::string> &path, const std::string &target,
               const std::string &isa, int64_t width, bool weightAverage,
               bool weightOperand, bool metrics, bool flags,
               const std::string &function, const Rules &rules,
               const std::string &compute) {
  std::vector<const char *> directories;
  for (const std::string &directory : path)
    directories.push_back(directory.c_str());
  std::vector<TandemStorageRule> ruleTexts;
  for (const auto &[kind, name, storage] : rules)
    ruleTexts.push_back(
        {kind, name ? name->c_str() : nullptr, storage.c_str()});
  TandemCompileOptions options = {graph.c_str(),
                                  strategy.c_str(),
                                  directories.data(),
                                  intptr_t(directories.size()),
                                  target.c_str(),
                                  isa.c_str(),
                                  width,
                                  metrics,
                                  flags,
                                  function.c_str(),
                                  ruleTexts.data(),
                                  intptr_t(ruleTexts.size()),
                                  compute.c_str(),
                                  weightAverage,
                                  weightOperand};
  compiled =
      orThrow(released([&] { return compiler().tandemCompile(&options); }));
  prepare();
}

Kernel::Kernel(const std::string &path, const std::string &name,
               const std::string &target, const std::string &isa)
    : packed(std::make_unique<PackedKernel>(path, name, target, isa)) {
  prepare();
}

Kernel::Kernel(TandemKernel *kernel) : compiled(orThrow(kernel)) { prepare(); }

Kernel::~Kernel() {
  nb::gil_scoped_release release;
  for (auto &[place, handle] : handles)
    tdm_kernel_destroy(handle);
  if (compiled)
    compiler().tandemKernelDestroy(compiled);
}

void Kernel::prepare() {
  // A kernel that this machine cannot run is refused immediately.
  if (getImage())
    return;
  try {
    getRuntime(nullptr);
  } catch (...) {
    if (compiled)
      compiler().tandemKernelDestroy(compiled);
    throw;
  }
}

//===----------------------------------------------------------------------===//
// The description
//===----------------------------------------------------------------------===//

const tdm_kernel_info &Kernel::getInfo() const {
  return packed ? packed->getInfo() : *compiler().tandemKernelGetInfo(compiled);
}

const tdm_image *Kernel::getImage() const {
  return packed ? packed->getImage()
                : compiler().tandemKernelGetImage(compiled);
}

nb::dict Kernel::info() const { return getFields(getInfo()); }
nb::list Kernel::planes() const {
  return getAllFields(getInfo().desc->planes, getInfo().desc->num_planes);
}
nb::list Kernel::hypers() const {
  return getAllFields(getInfo().desc->hypers, getInfo().desc->num_hypers);
}
nb::list Kernel::integers() const {
  return getAllFields(getInfo().desc->integers, getInfo().desc->num_integers);
}
nb::list Kernel::reductions() const {
  return getAllFields(getInfo().desc->reductions,
                      getInfo().desc->num_reductions);
}
nb::list Kernel::externals() const {
  return getAllFields(getInfo().desc->externals, getInfo().desc->num_externals);
}
nb::list Kernel::phases() const {
  return getAllFields(getInfo().phases, getInfo().num_phases);
}
nb::list Kernel::epilogues() const {
  return getAllFields(getInfo().epilogues, getInfo().num_epilogues);
}

nb::object Kernel::image() const {
  const tdm_image *image = getImage();
  if (!image)
    return nb::none();
  return nb::make_tuple(
      image->kind,
      nb::bytes(static_cast<const char *>(image->data), image->size));
}

std::optional<std::string> Kernel::imageTarget() {
  if (const tdm_image *image = getImage())
    return image->target;
  if (const char *target = tdm_kernel_target(getRuntime(nullptr)))
    return target;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Queries to the compiler
//===----------------------------------------------------------------------===//

TandemKernel *Kernel::getCompiled() {
  if (compiled)
    return compiled;
  TandemKernel *opened = orThrow(packed->open());
  if (compiled) // Another thread was faster.
    compiler().tandemKernelDestroy(opened);
  else
    compiled = opened;
  return compiled;
}

nb::list Kernel::tensors() {
  TandemKernel *kernel = getCompiled();
  intptr_t count =
      released([&] { return compiler().tandemKernelGetNumTensors(kernel); });
  if (count < 0)
    throwCompilerError();
  nb::list result;
  for (intptr_t i = 0; i < count; ++i) {
    TandemTensor t = compiler().tandemKernelGetTensor(kernel, i);
    result.append(nb::make_tuple(t.role, t.storage, t.isSecondMoment));
  }
  return result;
}

std::vector<intptr_t> Kernel::checkedPlanes() {
  TandemKernel *kernel = getCompiled();
  std::vector<intptr_t> result(
      compiler().tandemKernelGetNumCheckedPlanes(kernel));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = compiler().tandemKernelGetCheckedPlane(kernel, i);
  return result;
}

std::unique_ptr<Kernel> Kernel::compileFiniteCheck() {
  TandemKernel *kernel = getCompiled();
  return std::make_unique<Kernel>(released(
      [&] { return compiler().tandemKernelCompileFiniteCheck(kernel); }));
}

//===----------------------------------------------------------------------===//
// The runtime's handles
//===----------------------------------------------------------------------===//

tdm_kernel *Kernel::createRuntime(const tdm_device *device) const {
  if (packed)
    return packed->create(device);
  return orThrow(released([&] {
    return compiler().tandemKernelCreateRuntimeKernel(compiled, device);
  }));
}

tdm_kernel *Kernel::getRuntime(const Device *device) {
  auto place = std::make_pair(std::string("cpu"), int32_t(0));
  if (device) {
    tdm_device_info where = device->query();
    place = {where.driver, where.ordinal};
  }
  auto known = handles.find(place);
  if (known != handles.end())
    return known->second;
  tdm_kernel *created = createRuntime(device ? device->device : nullptr);
  auto [entry, isNew] = handles.try_emplace(place, created);
  if (!isNew) // Another thread was faster.
    released([&] { tdm_kernel_destroy(created); });
  return entry->second;
}
