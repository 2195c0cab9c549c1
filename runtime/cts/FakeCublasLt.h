//===- FakeCublasLt.h - cuBLASLt without a GPU ------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the control of the library that stands in for cuBLASLt.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_FAKECUBLASLT_H
#define TANDEM_RUNTIME_CTS_FAKECUBLASLT_H

#include "FakeCUDA.h"

#include <cstddef>

extern "C" {
/// What the library says its version is, 120500 by default.
FAKE_CUDA_API void fake_cublaslt_set_version(size_t number);
/// What is wrong with the calls since the last question, until the next one on
/// this thread; empty if nothing is.
FAKE_CUDA_API const char *fake_cublaslt_violations(void);
/// How many handles, descriptions and the like have not been given back.
FAKE_CUDA_API long fake_cublaslt_living(void);
/// How many products have been computed, and were asked for with fast sums.
FAKE_CUDA_API long fake_cublaslt_products(void);
FAKE_CUDA_API long fake_cublaslt_fast(void);
}

#endif // TANDEM_RUNTIME_CTS_FAKECUBLASLT_H
