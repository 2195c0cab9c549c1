//===- CTarget.h - A target that compiles through C -------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares a target that is not part of Tandem, and the runtime
// driver that runs its kernels.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_UNIT_CTARGET_CTARGET_H
#define TANDEM_TEST_UNIT_CTARGET_CTARGET_H

#include "tandem-runtime/tandem_driver.h"

namespace ctarget {

/// The kind of its images: shared libraries made by the system's C compiler.
constexpr char imageKind[] = "C library";

/// Registers the target "c" with the compiler.
void registerTarget();

/// Registers the driver "c" with the runtime.
tdm_status registerDriver();

} // namespace ctarget

#endif // TANDEM_TEST_UNIT_CTARGET_CTARGET_H
