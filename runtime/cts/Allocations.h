//===- Allocations.h - Counted and failing allocations ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares control over operator new. It affects the tests and the
// runtime, which uses the executable's operator new.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_ALLOCATIONS_H
#define TANDEM_RUNTIME_CTS_ALLOCATIONS_H

namespace tandem::cts {

/// Returns the number of allocations that this thread has made.
long allocations();

/// While this object lives, this thread's allocations fail after \p count more.
struct FailAllocations {
  explicit FailAllocations(long count);
  ~FailAllocations();
};

} // namespace tandem::cts

#endif // TANDEM_RUNTIME_CTS_ALLOCATIONS_H
