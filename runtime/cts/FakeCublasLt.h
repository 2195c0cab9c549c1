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
/// Returns the violations of all calls since the previous query; empty if there
/// are none. The text is valid until the next query on this thread.
FAKE_CUDA_API const char *fake_cublaslt_violations(void);
/// Returns the number of handles, descriptions and similar objects that have
/// not been released.
FAKE_CUDA_API long fake_cublaslt_living(void);
/// Return the number of products that have been computed, and of those that
/// were requested with fast accumulation.
FAKE_CUDA_API long fake_cublaslt_products(void);
FAKE_CUDA_API long fake_cublaslt_fast(void);
}

#endif // TANDEM_RUNTIME_CTS_FAKECUBLASLT_H
