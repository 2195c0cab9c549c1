//===- CTarget.h - Kernels by way of C --------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares a target that Tandem does not bring, and the driver of the
// runtime that runs its kernels.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_CTARGET_CTARGET_H
#define TANDEM_TEST_UNIT_CTARGET_CTARGET_H

#include "tandem-runtime/tandem_driver.h"

namespace ctarget {

/// The kind of its images: shared libraries that the system's C compiler made.
constexpr char imageKind[] = "C library";

/// Adds the target "c" to the compiler's.
void registerTarget();

/// Adds the driver "c" to the runtime's.
tdm_status registerDriver();

} // namespace ctarget

#endif // TANDEM_TEST_UNIT_CTARGET_CTARGET_H
