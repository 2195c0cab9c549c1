//===- CublasLt.h - NVIDIA's matrix products --------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares cuBLASLt as the runtime uses it: a table of its functions,
// which are found in its library when the first product is created.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_CUBLASLT_H
#define TANDEM_RUNTIME_LIB_CUDA_CUBLASLT_H

#include "CUDADevice.h"

namespace tandem::runtime::cuda {

//===----------------------------------------------------------------------===//
// The library's types, as its header defines them
//===----------------------------------------------------------------------===//

enum class DataType : int { F32 = 0, BF16 = 14, E4M3 = 28, E5M2 = 29 };
enum class ComputeType : int { F32 = 68 };
enum class MatmulAttribute : int {
  TransA = 3,
  TransB = 4,
  Epilogue = 7,
  BiasPointer = 8,
  AScalePointer = 17,
  BScalePointer = 18,
  FastAccumulation = 25,
  BiasDataType = 26
};
enum class PreferenceAttribute : int {
  MaxWorkspaceBytes = 1,
  MinAlignmentA = 5,
  MinAlignmentB = 6,
  MinAlignmentC = 7,
  MinAlignmentD = 8
};
constexpr int allocationFailed = 3, notSupported = 15;
constexpr int32_t operationTranspose = 1, operationNone = 0;
constexpr uint32_t epilogueDefault = 1, epilogueBias = 4;

using CublasLtHandle = struct CublasLtTag *;
using MatmulDesc = struct MatmulDescTag *;
using MatrixLayout = struct MatrixLayoutTag *;
using Preference = struct PreferenceTag *;

struct Algorithm {
  uint64_t data[8];
};

struct HeuristicResult {
  Algorithm algorithm;
  size_t workspaceBytes;
  int state;
  float wavesCount;
  int reserved[4];
};

//===----------------------------------------------------------------------===//
// The functions
//===----------------------------------------------------------------------===//

/// The loaded cuBLASLt, which lives as long as the process.
class CublasLt : public SymbolTable {
public:
  /// Returns the library that the environment names or, in this order, one that
  /// the process has loaded, one next to CUDA's libraries or in NVIDIA's Python
  /// packages, or the system's. After a failure the next call tries again.
  static tdm_status get(const CublasLt *&library);

  /// Calls \p function and turns its result into a status; the message of a
  /// failure names the function.
  template <typename EntryType, typename... Arguments>
  tdm_status call(const EntryType &function, Arguments... arguments) const {
    Result result = function(arguments...);
    return result == Result::Success ? TDM_OK : fail(function, result);
  }

#define CUBLASLT_FUNCTION(RETURN, MEMBER, NAME, PARAMETERS)                    \
  Entry<RETURN PARAMETERS> MEMBER{this, #NAME};
#include "CublasLt.def"

private:
  CublasLt() = default;
  tdm_status load(const std::string &named);
  tdm_status fail(const Symbol &function, Result result) const;
};

/// Owns a handle for a GPU, which all products on it share.
class CublasLtSession {
public:
  static tdm_status get(const std::shared_ptr<const CUDADevice> &device,
                        std::shared_ptr<const CublasLtSession> &session);
  CublasLtSession(const CublasLt &library,
                  std::shared_ptr<const CUDADevice> device)
      : library(library), device(std::move(device)) {}
  ~CublasLtSession();
  CublasLtSession(const CublasLtSession &) = delete;

  const CublasLt &library;
  const std::shared_ptr<const CUDADevice> device;
  CublasLtHandle handle = nullptr;
};

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_CUBLASLT_H
