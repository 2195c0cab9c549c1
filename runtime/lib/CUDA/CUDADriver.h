//===- CUDADriver.h - The driver of NVIDIA's GPUs ---------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the device driver of GPUs.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_CUDADRIVER_H
#define TANDEM_RUNTIME_LIB_CUDA_CUDADRIVER_H

#include "DeviceDriver.h"

namespace tandem::runtime::cuda {

/// Returns the driver "cuda", for the GPUs of CUDA's driver.
const DeviceDriver &getDriver();

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_CUDADRIVER_H
