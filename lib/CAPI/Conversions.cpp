//===- Conversions.cpp - Conversions in the C API -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the entries of the C API for kernels that no graph is
// compiled to.
//
//===----------------------------------------------------------------------===//

#include "tandem/Target/Conversions.h"
#include "Failure.h"
#include "Handles.h"

using namespace tandem;

bool tandemCompileConversion(const TandemConversionOptions *options,
                             TandemConversion *conversion) {
  ConversionOptions wanted;
  wanted.source = orElse(options->source, "");
  wanted.target = orElse(options->target, "");
  wanted.adds = options->adds;
  wanted.isFresh = options->isFresh;
  wanted.isMatrix = options->isMatrix;
  wanted.hasFloor = options->hasFloor;
  wanted.chip = orElse(options->chip, "cpu");
  auto compiled = compileConversion(wanted);
  if (!compiled) {
    setLastError(compiled.takeError());
    return false;
  }
  bool isCopy = !compiled->kernel;
  *conversion = {isCopy ? nullptr : createHandle(std::move(compiled->kernel)),
                 compiled->numWritten, compiled->numRead,
                 static_cast<int32_t>(compiled->numLaunches)};
  return true;
}

TandemKernel *tandemCompileSum(const char *const *sources, intptr_t numSources,
                               const char *target, const char *chip) {
  std::vector<std::string> storages(sources, sources + numSources);
  return createHandle(
      compileSum(storages, orElse(target, ""), orElse(chip, "cpu")));
}

intptr_t tandemKernelGetNumCheckedPlanes(TandemKernel *kernel) {
  return getCheckedPlanes(*kernel->kernel->info).size();
}
intptr_t tandemKernelGetCheckedPlane(TandemKernel *kernel, intptr_t index) {
  return getCheckedPlanes(*kernel->kernel->info)[index];
}
TandemKernel *tandemKernelCompileFiniteCheck(TandemKernel *kernel) {
  return createHandle(compileFiniteCheck(*kernel->kernel));
}
