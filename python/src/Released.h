//===- Released.h - Calls without Python's lock -----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares calls that release the GIL.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PYTHON_RELEASED_H
#define TANDEM_PYTHON_RELEASED_H

#include <nanobind/nanobind.h>

/// Calls \p call with the GIL released, because it may wait for a device or a
/// lock, or take long.
template <typename Call>
auto released(Call call) {
  nanobind::gil_scoped_release release;
  return call();
}

#endif // TANDEM_PYTHON_RELEASED_H
