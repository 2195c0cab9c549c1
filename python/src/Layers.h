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

/// Creates a Python kernel that owns a handle. Raises the last error if the
/// handle is null.
using MakeKernel = nanobind::object (*)(TandemKernel *);

/// Adds the class `Layer`, which creates kernels with `makeKernel`, and
/// `check_recipe`.
void bindLayers(nanobind::module_ &m, MakeKernel makeKernel);

#endif // TANDEM_PYTHON_LAYERS_H
