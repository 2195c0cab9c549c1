//===- FloatEnvironment.h - The arithmetic kernels rely on ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the guard that gives a kernel round-to-nearest arithmetic
// with subnormals, regardless of its caller's settings.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CPU_FLOATENVIRONMENT_H
#define TANDEM_RUNTIME_LIB_CPU_FLOATENVIRONMENT_H

#if defined(__SSE__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace tandem::runtime {

#if defined(__SSE__) || defined(_M_X64)

/// While this object lives, its thread rounds to nearest, keeps subnormal
/// inputs and results, and does not trap. The destructor restores the caller's
/// settings, including the exception flags.
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

/// Other targets keep their environment, whose defaults are the same.
class FloatEnvironment {
public:
  FloatEnvironment() {}
};

#endif

} // namespace tandem::runtime

#endif // TANDEM_RUNTIME_LIB_CPU_FLOATENVIRONMENT_H
