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
#include "tandem/Target/Package.h"
#include "tandem/Target/Run.h"

using namespace mlir::tandem;

static thread_local std::string lastError;

void mlir::tandem::setLastError(llvm::Error error) {
  lastError = llvm::toString(std::move(error));
}

const char *tandemGetLastError(void) { return lastError.c_str(); }

std::string mlir::tandem::orElse(const char *text, const char *fallback) {
  return text ? text : fallback;
}

TandemKernel *mlir::tandem::createHandle(
    llvm::Expected<std::unique_ptr<CompiledKernel>> kernel) {
  if (!kernel) {
    setLastError(kernel.takeError());
    return nullptr;
  }
  auto *handle = new TandemKernel;
  handle->kernel = std::move(*kernel);
  return handle;
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
  compileOptions.metrics = options->metrics;
  compileOptions.flags = options->flags;
  for (intptr_t i = 0; i < options->numRules; ++i) {
    const TandemStorageRule &rule = options->rules[i];
    compileOptions.rules.push_back({static_cast<RoleKind>(rule.kind),
                                    orElse(rule.name, ""),
                                    orElse(rule.storage, "")});
  }
  compileOptions.compute = orElse(options->compute, "");
  return createHandle(compile(compileOptions));
}

TandemKernel *tandemKernelLoad(const char *path, const char *name,
                               const char *target, const char *isa) {
  return createHandle(loadKernel(path, orElse(name, ""), orElse(target, "cpu"),
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

const char *tandemKernelGetName(TandemKernel *kernel) {
  return kernel->kernel->signature.name.c_str();
}
const char *tandemKernelGetStrategy(TandemKernel *kernel) {
  return kernel->kernel->signature.strategy.c_str();
}
const char *tandemKernelGetTarget(TandemKernel *kernel) {
  return kernel->kernel->target.c_str();
}
const char *tandemKernelGetCompute(TandemKernel *kernel) {
  return kernel->kernel->signature.compute.c_str();
}
const char *tandemKernelGetIR(TandemKernel *kernel) {
  return kernel->kernel->kernelIR.c_str();
}
const char *tandemKernelGetPTX(TandemKernel *kernel) {
  return kernel->kernel->ptx.c_str();
}
double tandemKernelGetBytesPerParameter(TandemKernel *kernel) {
  return kernel->kernel->signature.getBytesPerParameter();
}

intptr_t tandemKernelGetNumPlanes(TandemKernel *kernel) {
  return kernel->kernel->signature.planes.size();
}
static TandemGranularity getGranularity(Granularity per) {
  switch (per) {
  case Granularity::element:
    return TandemPerElement;
  case Granularity::row:
    return TandemPerRow;
  case Granularity::column:
    return TandemPerColumn;
  case Granularity::block:
    return TandemPerBlock;
  }
  llvm_unreachable("every granularity is listed");
}

static TandemReduceScope getScope(Scope scope) {
  switch (scope) {
  case Scope::model:
    return TandemScopeModel;
  case Scope::row:
    return TandemScopeRow;
  case Scope::column:
    return TandemScopeColumn;
  case Scope::block:
    return TandemScopeBlock;
  case Scope::group:
  case Scope::tensor:
    return TandemScopeTensor;
  }
  llvm_unreachable("every scope is listed");
}

TandemPlane mlir::tandem::getPlane(const KernelSignature::PlaneEntry &plane) {
  return {plane.name.c_str(),
          plane.role.c_str(),
          static_cast<TandemRoleKind>(plane.kind),
          plane.type.c_str(),
          static_cast<int32_t>(plane.bits),
          plane.isRead,
          plane.isWritten,
          plane.isVisible,
          plane.group.columns,
          plane.isKept,
          plane.history,
          getGranularity(plane.per),
          plane.group.rows,
          plane.isTransposed};
}

TandemPlane tandemKernelGetPlane(TandemKernel *kernel, intptr_t index) {
  return getPlane(kernel->kernel->signature.planes[index]);
}

int64_t tandemKernelGetNumEntries(TandemKernel *kernel, intptr_t index,
                                  int64_t rows, int64_t columns) {
  const auto &plane = kernel->kernel->signature.planes[index];
  return plane.getNumEntries(rows, columns);
}

intptr_t tandemKernelGetNumHypers(TandemKernel *kernel) {
  return kernel->kernel->signature.hypers.size();
}
TandemHyper tandemKernelGetHyper(TandemKernel *kernel, intptr_t index) {
  const auto &hyper = kernel->kernel->signature.hypers[index];
  return {hyper.name.c_str(),
          hyper.defaultValue.has_value(),
          hyper.defaultValue.value_or(0.0),
          hyper.min,
          hyper.max,
          hyper.minPositive};
}

intptr_t tandemKernelGetNumIntegers(TandemKernel *kernel) {
  return kernel->kernel->signature.integers.size();
}
TandemInteger tandemKernelGetInteger(TandemKernel *kernel, intptr_t index) {
  const auto &integer = kernel->kernel->signature.integers[index];
  return {integer.name.c_str(), static_cast<TandemRoleKind>(integer.kind)};
}
intptr_t tandemKernelGetNumScalars(TandemKernel *kernel) {
  return kernel->kernel->signature.numScalars;
}

intptr_t tandemKernelGetNumMetrics(TandemKernel *kernel) {
  return kernel->kernel->signature.numMetrics;
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

intptr_t tandemKernelGetNumPhases(TandemKernel *kernel) {
  return kernel->kernel->signature.phases.size();
}
TandemGranularity tandemKernelGetPhaseGranularity(TandemKernel *kernel,
                                                  intptr_t index) {
  return getGranularity(kernel->kernel->signature.phases[index].per);
}
bool tandemKernelContinues(TandemKernel *kernel, intptr_t index) {
  return kernel->kernel->signature.phases[index].continues;
}
bool tandemKernelIsMatrix(TandemKernel *kernel) {
  return kernel->kernel->signature.isMatrix;
}
bool tandemKernelIsFlatGraph(TandemKernel *kernel) {
  return kernel->kernel->signature.isFlatGraph;
}
int64_t tandemKernelGetBlock(TandemKernel *kernel) {
  return kernel->kernel->signature.block;
}
intptr_t tandemKernelGetNumReductions(TandemKernel *kernel) {
  return kernel->kernel->signature.reductions.size();
}
TandemReduction tandemKernelGetReduction(TandemKernel *kernel, intptr_t index) {
  const auto &reduction = kernel->kernel->signature.reductions[index];
  return {static_cast<TandemReduceKind>(reduction.kind),
          static_cast<int32_t>(reduction.phase), getScope(reduction.scope)};
}
bool tandemKernelHasCommit(TandemKernel *kernel, TandemGranularity per) {
  return llvm::any_of(kernel->kernel->signature.commits, [&](Granularity own) {
    return getGranularity(own) == per;
  });
}

void *tandemKernelGetEntry(TandemKernel *kernel) {
  return kernel->kernel->entry;
}
void *tandemKernelGetPrologue(TandemKernel *kernel) {
  return kernel->kernel->prologue;
}

static tdm_kernel *orNull(llvm::Expected<tdm_kernel *> handle) {
  if (handle)
    return *handle;
  setLastError(handle.takeError());
  return nullptr;
}

tdm_kernel *tandemKernelCreateRuntimeKernel(TandemKernel *kernel) {
  return orNull(createRuntimeKernel(*kernel->kernel));
}

tdm_kernel *tandemKernelCreateDeviceKernel(TandemKernel *kernel,
                                           const tdm_device *device) {
  return orNull(createDeviceKernel(*kernel->kernel, device));
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
