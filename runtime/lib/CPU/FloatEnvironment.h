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
#elif defined(__aarch64__)
#include <cstdint>
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

#elif defined(__aarch64__)

/// The same on AArch64: round to nearest, no flushing to zero (FZ, FZ16, FIZ),
/// NaNs that keep their payload (DN), IEEE's f16 (AHP) and no traps.
class FloatEnvironment {
public:
  FloatEnvironment() : control(0), status(0) {
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(control));
    __asm__ __volatile__("mrs %0, fpsr" : "=r"(status));
    if (control)
      __asm__ __volatile__("msr fpcr, %0" : : "r"(uint64_t(0)) : "memory");
  }
  ~FloatEnvironment() {
    if (control)
      __asm__ __volatile__("msr fpcr, %0" : : "r"(control) : "memory");
    __asm__ __volatile__("msr fpsr, %0" : : "r"(status) : "memory");
  }
  FloatEnvironment(const FloatEnvironment &) = delete;
  FloatEnvironment &operator=(const FloatEnvironment &) = delete;

private:
  uint64_t control;
  uint64_t status;
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
