//===- FloatEnvironment.h - The arithmetic kernels rely on ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the guard that gives a kernel round-to-nearest arithmetic
// with subnormals, whatever its caller has set.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CPU_FLOATENVIRONMENT_H
#define TANDEM_RUNTIME_LIB_CPU_FLOATENVIRONMENT_H

#if defined(__SSE__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace tandem::runtime {

#if defined(__SSE__) || defined(_M_X64)

/// While it lives, this thread rounds to nearest, keeps subnormals as inputs
/// and as results, and traps nothing. Then the caller's settings, exception
/// flags included, are back.
class FloatEnvironment {
public:
  FloatEnvironment() : saved(_mm_getcsr()) { _mm_setcsr(allMasked); }
  ~FloatEnvironment() { _mm_setcsr(saved); }
  FloatEnvironment(const FloatEnvironment &) = delete;
  FloatEnvironment &operator=(const FloatEnvironment &) = delete;

private:
  static constexpr unsigned allMasked = 0x1F80;
  unsigned saved;
};

#else

/// Targets other than x86 keep their environment, which begins like that.
class FloatEnvironment {
public:
  FloatEnvironment() {}
};

#endif

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CPU_FLOATENVIRONMENT_H
