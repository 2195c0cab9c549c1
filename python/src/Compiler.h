//===- Compiler.h - The compiler, loaded when needed ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the functions of libTandem that the Python extension
// calls. The extension is not linked to libTandem, so that packages can be run
// without it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_COMPILER_H
#define TANDEM_PYTHON_COMPILER_H

#include "tandem-c/Reference.h"
#include "tandem-c/Tandem.h"

/// The functions by their names in the C API.
#define TANDEM_COMPILER_FUNCTIONS(FUNCTION)                                    \
  FUNCTION(tandemCheckRecipe)                                                  \
  FUNCTION(tandemCompile)                                                      \
  FUNCTION(tandemCompileConversion)                                            \
  FUNCTION(tandemCompileSum)                                                   \
  FUNCTION(tandemEvaluatePTX)                                                  \
  FUNCTION(tandemGetGraphName)                                                 \
  FUNCTION(tandemGetLastError)                                                 \
  FUNCTION(tandemGetLastErrorInfo)                                             \
  FUNCTION(tandemGetLastErrorParts)                                            \
  FUNCTION(tandemGetLayerName)                                                 \
  FUNCTION(tandemGetLayerText)                                                 \
  FUNCTION(tandemGetNativeISA)                                                 \
  FUNCTION(tandemGetNumCompilations)                                           \
  FUNCTION(tandemGetNumGraphs)                                                 \
  FUNCTION(tandemGetNumLayers)                                                 \
  FUNCTION(tandemGetNumRecipes)                                                \
  FUNCTION(tandemGetNumStrategies)                                             \
  FUNCTION(tandemGetRecipeName)                                                \
  FUNCTION(tandemGetStrategyName)                                              \
  FUNCTION(tandemGetVersion)                                                   \
  FUNCTION(tandemInterpret)                                                    \
  FUNCTION(tandemKernelCompileFiniteCheck)                                     \
  FUNCTION(tandemKernelCreateRuntimeKernel)                                    \
  FUNCTION(tandemKernelDestroy)                                                \
  FUNCTION(tandemKernelGetCheckedPlane)                                        \
  FUNCTION(tandemKernelGetImage)                                               \
  FUNCTION(tandemKernelGetInfo)                                                \
  FUNCTION(tandemKernelGetNumCheckedPlanes)                                    \
  FUNCTION(tandemKernelGetNumTensors)                                          \
  FUNCTION(tandemKernelGetTensor)                                              \
  FUNCTION(tandemKernelOpen)                                                   \
  FUNCTION(tandemLayerCompile)                                                 \
  FUNCTION(tandemLayerCreate)                                                  \
  FUNCTION(tandemLayerDestroy)                                                 \
  FUNCTION(tandemLayerGetFunction)                                             \
  FUNCTION(tandemLayerStoresByFlow)                                            \
  FUNCTION(tandemSavePackage)                                                  \
  FUNCTION(tandemStorageCreateFloats)                                          \
  FUNCTION(tandemStorageCreateMasked)                                          \
  FUNCTION(tandemStorageCreateMatrixCodes)                                     \
  FUNCTION(tandemStorageCreateSums)                                            \
  FUNCTION(tandemStorageCreateWorking)                                         \
  FUNCTION(tandemStorageDestroy)                                               \
  FUNCTION(tandemStorageGetDynamicCode)                                        \
  FUNCTION(tandemStorageGetPlainGroup)                                         \
  FUNCTION(tandemStorageGetText)                                               \
  FUNCTION(tandemStorageHasF32Value)                                           \
  FUNCTION(tandemStorageIsCoded)                                               \
  FUNCTION(tandemStorageIsPlain)                                               \
  FUNCTION(tandemStorageParse)                                                 \
  FUNCTION(tandemStorageToNearest)                                             \
  FUNCTION(tandemStorageWithGivenScales)                                       \
  FUNCTION(tandemStorageWithoutHistory)                                        \
  FUNCTION(tandemStorageWithoutTranspose)

struct Compiler {
#define TANDEM_DECLARE_FUNCTION(name) decltype(&::name) name = nullptr;
  TANDEM_COMPILER_FUNCTIONS(TANDEM_DECLARE_FUNCTION)
#undef TANDEM_DECLARE_FUNCTION
};

/// Returns the compiler if it is loaded, or null.
const Compiler *loadedCompiler();

/// Returns the compiler. The first call loads libTandem, with or without the
/// GIL held. If that fails, it raises an ImportError that says what to install.
const Compiler &compiler();

#endif // TANDEM_PYTHON_COMPILER_H
