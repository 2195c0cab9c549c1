//===- Layers.h - Layers in Python ------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the layers of the Python extension.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_LAYERS_H
#define TANDEM_PYTHON_LAYERS_H

#include "tandem-c/Tandem.h"
#include <nanobind/nanobind.h>

/// Makes Python's kernel of a handle, which it owns from then on. A null one
/// raises the last error.
using MakeKernel = nanobind::object (*)(TandemKernel *);

/// Adds the class `Layer`, whose passes become kernels by `makeKernel`, and
/// `check_recipe`.
void bindLayers(nanobind::module_ &m, MakeKernel makeKernel);

#endif // TANDEM_PYTHON_LAYERS_H
