//===- Allocations.h - Counted and failing allocations ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares control over operator new, for the tests and for the
// runtime alike: it takes its operator new from the executable.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_ALLOCATIONS_H
#define TANDEM_RUNTIME_CTS_ALLOCATIONS_H

namespace tandem::cts {

/// The number of allocations that this thread has made.
long allocations();

/// While it lives, this thread's allocations fail after \p count more.
struct FailAllocations {
  explicit FailAllocations(long count);
  ~FailAllocations();
};

} // namespace tandem::cts

#endif // TANDEM_RUNTIME_CTS_ALLOCATIONS_H
