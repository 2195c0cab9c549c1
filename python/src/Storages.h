//===- Storages.h - Storages in Python --------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the storages of the Python extension.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_STORAGES_H
#define TANDEM_PYTHON_STORAGES_H

#include <nanobind/nanobind.h>

/// Adds the class `Storage`.
void bindStorages(nanobind::module_ &m);

#endif // TANDEM_PYTHON_STORAGES_H
