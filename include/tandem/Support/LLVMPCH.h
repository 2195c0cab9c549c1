//===- LLVMPCH.h - Precompiled header with LLVM's dialects ------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file adds the LLVM and NVVM dialects to the headers of PCH.h. Their
// operations take most of the time of a file that includes them, and few do, so
// CMake precompiles this header for the libraries that generate NVVM.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_LLVMPCH_H
#define TANDEM_SUPPORT_LLVMPCH_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "tandem/Support/PCH.h"

#endif // TANDEM_SUPPORT_LLVMPCH_H
