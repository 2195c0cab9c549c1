//===- JaxKernels.cpp - Kernels that XLA knows ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the kernels of tandem.jax's library, their code for
// GPUs, and the plans that launch them.
//
//===----------------------------------------------------------------------===//

#include "JaxKernels.h"
#include "JaxFrame.h"

//===----------------------------------------------------------------------===//
// GPUs
//===----------------------------------------------------------------------===//

/// Returns the GPU with an ordinal, which is opened once; NULL if that fails.
static const tdm_device *openGPU(int32_t ordinal) {
  static auto &mutex = *new std::mutex;
  static auto &devices = *new std::map<int32_t, tdm_device *>;
  std::lock_guard<std::mutex> lock(mutex);
  tdm_device *&device = devices[ordinal];
  if (!device)
    tdm_device_open("cuda", ordinal, &device);
  return device;
}

void Kernel::addPackage(tdm_package *added) {
  std::lock_guard<std::mutex> lock(mutex);
  if (package)
    tdm_package_close(added);
  else
    package = added;
}

const tdm_kernel *Kernel::find(int32_t ordinal) {
  if (ordinal < 0)
    return cpu;
  std::lock_guard<std::mutex> lock(mutex);
  if (!package)
    throw Failure(XLA_FFI_Error_Code_FAILED_PRECONDITION,
                  "this process has no code for GPUs of the kernel of a "
                  "launch; trace its function where it runs");
  tdm_kernel *&kernel = gpus[ordinal];
  const tdm_device *device = kernel ? nullptr : openGPU(ordinal);
  if (device)
    tdm_package_load(package, /*name=*/nullptr, device, /*target=*/nullptr,
                     &kernel);
  return kernel;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

Lease::Lease(Kernel &kernel, Place place) : kernel(kernel), place(place) {
  std::lock_guard<std::mutex> lock(kernel.mutex);
  std::vector<tdm_plan *> &idle = kernel.idle[place];
  if (idle.empty())
    return;
  plan = idle.back();
  idle.pop_back();
}

Lease::~Lease() {
  std::lock_guard<std::mutex> lock(kernel.mutex);
  if (plan)
    kernel.idle[place].push_back(plan);
}

tdm_status Lease::update(const std::vector<tdm_tensor> &tensors) {
  if (plan)
    return tdm_plan_update(plan, tensors.data(), tensors.size());
  const tdm_kernel *handle = kernel.find(place.ordinal);
  if (!handle)
    return TDM_UNAVAILABLE;
  return tdm_plan_create(handle, tensors.data(), tensors.size(), &plan);
}

//===----------------------------------------------------------------------===//
// The registry
//===----------------------------------------------------------------------===//

Registry &Registry::get() {
  static Registry *registry = new Registry;
  return *registry;
}

void Registry::add(const std::string &name, const tdm_kernel *cpu,
                   size_t numPlanes, size_t numHypers, size_t numIntegers) {
  std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Kernel> &kernel = kernels[name];
  if (!kernel)
    kernel = std::make_unique<Kernel>(cpu, numPlanes, numHypers, numIntegers);
}

Kernel &Registry::find(std::string_view name) {
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
