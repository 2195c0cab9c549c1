//===- LaunchABI.h - The launch ABI for Python's tests ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what Python knows of the records of a launch.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_LAUNCHABI_H
#define TANDEM_PYTHON_LAUNCHABI_H

#include <nanobind/nanobind.h>

/// Adds `launch_abi`: for each record its bytes and the offsets of its fields.
void bindLaunchABI(nanobind::module_ &m);

#endif // TANDEM_PYTHON_LAUNCHABI_H
