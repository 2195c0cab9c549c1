//===- Allocations.cpp - Counted and failing allocations ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements an operator new that counts allocations and fails on
// demand.
//
//===----------------------------------------------------------------------===//

#include "Allocations.h"

#include <climits>
#include <cstdlib>
#include <new>

using namespace tandem::cts;

static thread_local long count = 0;
static thread_local long limit = LONG_MAX;

long tandem::cts::allocations() { return count; }

FailAllocations::FailAllocations(long more) { limit = count + more; }
FailAllocations::~FailAllocations() { limit = LONG_MAX; }

void *operator new(size_t size) {
  if (count < limit) {
    ++count;
    if (void *memory = std::malloc(size ? size : 1))
      return memory;
  }
  throw std::bad_alloc();
}

void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
