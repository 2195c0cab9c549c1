//===- Tandem.cpp - The C API of the compiler -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the C API.
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Tandem.h"
#include "Failure.h"
#include "Handles.h"
#include "tandem/Support/Library.h"
#include "tandem/Target/CPU.h"
#include "tandem/Target/Package.h"
#include "tandem/Target/Run.h"

using namespace tandem;

std::string tandem::orElse(const char *text, const char *fallback) {
  return text ? text : fallback;
}

TandemKernel *
tandem::createHandle(llvm::Expected<std::unique_ptr<CompiledKernel>> kernel) {
  if (!kernel) {
    setLastError(kernel.takeError());
    return nullptr;
  }
  auto *handle = new TandemKernel;
  handle->kernel = std::move(*kernel);
  return handle;
}

const char *tandemGetVersion(void) { return TANDEM_VERSION; }

const char *tandemGetNativeISA(void) {
  static const std::string native = describeNativeISA();
  return native.c_str();
}

TandemKernel *tandemCompile(const TandemCompileOptions *options) {
  auto graph = loadGraph(orElse(options->graph, ""));
  if (!graph)
    return createHandle(graph.takeError());
  CompileOptions compileOptions;
  compileOptions.graph = std::move(*graph);
  compileOptions.strategy = orElse(options->strategy, "");
  compileOptions.function = orElse(options->function, "");
  for (intptr_t i = 0; i < options->pathLength; ++i)
    compileOptions.path.push_back(options->path[i]);
  compileOptions.target = orElse(options->target, "cpu");
  compileOptions.isa = orElse(options->isa, "native");
  compileOptions.width = options->width;
  compileOptions.weightAverage = options->weightAverage;
  compileOptions.weightOperand = options->weightOperand;
  compileOptions.metrics = options->metrics;
  compileOptions.flags = options->flags;
  for (intptr_t i = 0; i < options->numRules; ++i) {
    const TandemStorageRule &rule = options->rules[i];
    compileOptions.rules.push_back({getRoleKind(rule.kind),
                                    orElse(rule.name, ""),
                                    orElse(rule.storage, "")});
  }
  compileOptions.compute = orElse(options->compute, "");
  return createHandle(compile(compileOptions));
}

uint64_t tandemGetNumCompilations(void) { return getNumCompilations(); }

TandemKernel *tandemKernelLoad(const char *path, const char *name,
                               const char *target, const char *isa) {
  return createHandle(loadKernel(path, orElse(name, ""), orElse(target, "cpu"),
                                 orElse(isa, "native")));
}

TandemKernel *tandemKernelOpen(const tdm_package *package, const char *name,
                               const char *target, const char *isa) {
  std::shared_ptr<const tdm_package> borrowed(package,
                                              [](const tdm_package *) {});
  return createHandle(loadKernel(std::move(borrowed), "in memory",
                                 orElse(name, ""), orElse(target, "cpu"),
                                 orElse(isa, "native")));
}

void tandemKernelDestroy(TandemKernel *kernel) { delete kernel; }

bool tandemSavePackage(const char *path, TandemKernel *const *kernels,
                       const char *const *names, intptr_t numKernels,
                       const char *const *targets, intptr_t numTargets) {
  std::vector<PackageEntry> entries;
  for (intptr_t i = 0; i < numKernels; ++i)
    entries.push_back({names[i], kernels[i]->kernel.get()});
  std::vector<std::string> wanted(targets, targets + numTargets);
  llvm::Error error = savePackage(entries, wanted, path);
  if (!error)
    return true;
  setLastError(std::move(error));
  return false;
}

const tdm_kernel_info *tandemKernelGetInfo(TandemKernel *kernel) {
  return kernel->kernel->info.get();
}
const tdm_image *tandemKernelGetImage(TandemKernel *kernel) {
  return kernel->kernel->image;
}
double tandemKernelGetBytesPerParameter(TandemKernel *kernel) {
  return getBytesPerParameter(*kernel->kernel->info);
}
int64_t tandemKernelGetNumEntries(TandemKernel *kernel, intptr_t index,
                                  int64_t rows, int64_t columns) {
  return tdm_plane_num_entries(&kernel->kernel->info->desc->planes[index], rows,
                               columns);
}

intptr_t tandemKernelGetNumTensors(TandemKernel *kernel) {
  std::lock_guard<std::mutex> lock(kernel->mutex);
  if (!kernel->tensors) {
    auto tensors = getTensors(*kernel->kernel);
    if (!tensors) {
      setLastError(tensors.takeError());
      return -1;
    }
    kernel->tensors = std::move(*tensors);
  }
  return kernel->tensors->size();
}
TandemTensor tandemKernelGetTensor(TandemKernel *kernel, intptr_t index) {
  const KernelTensor &tensor = (*kernel->tensors)[index];
  return {tensor.role.c_str(), tensor.storage.c_str(), tensor.isSecondMoment};
}

static tdm_kernel *orNull(llvm::Expected<tdm_kernel *> handle) {
  if (handle)
    return *handle;
  setLastError(handle.takeError());
  return nullptr;
}

tdm_kernel *tandemKernelCreateRuntimeKernel(TandemKernel *kernel,
                                            const tdm_device *device) {
  return orNull(createRuntimeKernel(*kernel->kernel, device));
}

intptr_t tandemGetNumGraphs(void) { return getBuiltinGraphs().size(); }
const char *tandemGetGraphName(intptr_t index) {
  return getBuiltinGraphs()[index].name.data();
}
intptr_t tandemGetNumLayers(void) { return getBuiltinLayers().size(); }
const char *tandemGetLayerName(intptr_t index) {
  return getBuiltinLayers()[index].name.data();
}
intptr_t tandemGetNumRecipes(void) { return getBuiltinRecipes().size(); }
const char *tandemGetRecipeName(intptr_t index) {
  return getBuiltinRecipes()[index].name.data();
}
const char *tandemGetLayerText(intptr_t index) {
  return getBuiltinLayers()[index].text.data();
}
intptr_t tandemGetNumStrategies(void) { return getBuiltinStrategies().size(); }
const char *tandemGetStrategyName(intptr_t index) {
  return getBuiltinStrategies()[index].name.data();
}
