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
/// Sets the version that the library reports, 120500 by default.
FAKE_CUDA_API void fake_cublaslt_set_version(size_t number);
/// The faults of the calls since the last question, valid until the next one on
/// this thread; empty if there are none.
FAKE_CUDA_API const char *fake_cublaslt_violations(void);
/// The number of handles, descriptions and the like that have not been given
/// back.
FAKE_CUDA_API long fake_cublaslt_living(void);
/// The number of products that have been computed, and of those that were asked
/// for with fast sums.
FAKE_CUDA_API long fake_cublaslt_products(void);
FAKE_CUDA_API long fake_cublaslt_fast(void);
}

#endif // TANDEM_RUNTIME_CTS_FAKECUBLASLT_H
