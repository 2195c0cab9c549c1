//===- LaunchABI.h - The launch ABI for Python's tests ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the launch ABI for Python.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_LAUNCHABI_H
#define TANDEM_PYTHON_LAUNCHABI_H

#include <nanobind/nanobind.h>

/// Adds `launch_abi`, which has each record's size and the offsets of its
/// fields.
void bindLaunchABI(nanobind::module_ &m);

#endif // TANDEM_PYTHON_LAUNCHABI_H
