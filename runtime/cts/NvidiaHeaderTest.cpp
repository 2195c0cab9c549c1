//===- NvidiaHeaderTest.cpp - What is written down of NVIDIA's headers ----===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file compares the runtime's tables of the CUDA driver and of cuBLASLt
// with NVIDIA's headers, if they are installed. It compiles only if they agree
// in each function's name and type, each enumerator and each structure.
//
//===----------------------------------------------------------------------===//

#include "CUDA/CublasLt.h"
#include "CUDA/Driver.h"

#include <cuda.h>
#ifdef TANDEM_HAS_CUBLASLT_HEADER
#include <cublasLt.h>
#endif

#include <gtest/gtest.h>

#include <string_view>
#include <type_traits>

// The warning ensures that new enumerators are compared too.
#pragma GCC diagnostic error "-Wswitch"

using namespace tandem::runtime::cuda;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

namespace {
/// The type in NVIDIA's headers for a handle, an enumeration or a structure;
/// void for a built-in type.
template <typename Ours>
struct Counterpart {
  using Type = void;
};

#define SAME_AS(OURS, THEIRS)                                                  \
  template <>                                                                  \
  struct Counterpart<OURS> {                                                   \
    using Type = THEIRS;                                                       \
  };                                                                           \
  static_assert(sizeof(OURS) == sizeof(THEIRS), #OURS);                        \
  static_assert(alignof(OURS) == alignof(THEIRS), #OURS)

SAME_AS(Context, CUcontext);
SAME_AS(Module, CUmodule);
SAME_AS(Function, CUfunction);
SAME_AS(Stream, CUstream);
SAME_AS(Event, CUevent);
SAME_AS(LinkState, CUlinkState);
SAME_AS(Attribute, CUdevice_attribute);
SAME_AS(FunctionAttribute, CUfunction_attribute);
SAME_AS(JITInput, CUjitInputType);
SAME_AS(JITOption, CUjit_option);
SAME_AS(CaptureStatus, CUstreamCaptureStatus);
SAME_AS(CaptureMode, CUstreamCaptureMode);
#ifdef TANDEM_HAS_CUBLASLT_HEADER
SAME_AS(CublasLtHandle, cublasLtHandle_t);
SAME_AS(MatmulDesc, cublasLtMatmulDesc_t);
SAME_AS(MatrixLayout, cublasLtMatrixLayout_t);
SAME_AS(Preference, cublasLtMatmulPreference_t);
SAME_AS(Algorithm, cublasLtMatmulAlgo_t);
SAME_AS(HeuristicResult, cublasLtMatmulHeuristicResult_t);
SAME_AS(DataType, cudaDataType_t);
SAME_AS(ComputeType, cublasComputeType_t);
SAME_AS(MatmulAttribute, cublasLtMatmulDescAttributes_t);
SAME_AS(PreferenceAttribute, cublasLtMatmulPreferenceAttributes_t);
#endif

/// Whether a type is a result of either library, which is an enumeration of
/// ints.
template <typename Theirs>
constexpr bool isResult =
#ifdef TANDEM_HAS_CUBLASLT_HEADER
    std::is_same_v<Theirs, cublasStatus_t> ||
#endif
    std::is_same_v<Theirs, CUresult>;

template <typename Ours, typename Theirs>
constexpr bool areSameNumbers() {
  if constexpr (std::is_integral_v<Ours> && std::is_integral_v<Theirs>)
    return sizeof(Ours) == sizeof(Theirs) &&
           std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
  else
    return std::is_same_v<Ours, Theirs>;
}

/// Returns whether our type and theirs are passed in the same way.
template <typename Ours, typename Theirs>
constexpr bool areSame() {
  using Known = typename Counterpart<Ours>::Type;
  if constexpr (std::is_const_v<Ours> && std::is_const_v<Theirs>)
    return areSame<std::remove_const_t<Ours>, std::remove_const_t<Theirs>>();
  else if constexpr (std::is_same_v<Ours, Result>)
    return isResult<Theirs> && sizeof(Ours) == sizeof(Theirs);
  else if constexpr (!std::is_void_v<Known>)
    return std::is_same_v<Known, Theirs>;
  else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>)
    return areSame<std::remove_pointer_t<Ours>,
                   std::remove_pointer_t<Theirs>>();
  else
    return areSameNumbers<Ours, Theirs>();
}

template <typename Ours, typename Theirs>
struct AreSameFunctions;
template <typename Return, typename... Parameters, typename TheirReturn,
          typename... TheirParameters>
struct AreSameFunctions<Return(Parameters...),
                        TheirReturn(TheirParameters...)> {
  static constexpr bool check() {
    if constexpr (sizeof...(Parameters) == sizeof...(TheirParameters))
      return areSame<Return, TheirReturn>() &&
             (areSame<Parameters, TheirParameters>() && ...);
    else
      return false;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

// The header defines the name of a function as that of its latest version.
#define NAME_OF(FUNCTION) #FUNCTION
#define EXPANDED_NAME_OF(FUNCTION) NAME_OF(FUNCTION)

#define CHECK_FUNCTION(NAME, SYMBOL, ...)                                      \
  static_assert(std::string_view(EXPANDED_NAME_OF(NAME)) == SYMBOL,            \
                SYMBOL " is not what the header calls " #NAME);                \
  static_assert(AreSameFunctions<__VA_ARGS__, decltype(NAME)>::check(),        \
                SYMBOL " has another type");

static_assert(areSame<DeviceHandle, CUdevice>(), "DeviceHandle");
static_assert(areSame<Address, CUdeviceptr>(), "Address");

#define DRIVER_FUNCTION(MEMBER, NAME, VERSION, PARAMETERS)                     \
  CHECK_FUNCTION(NAME, #NAME #VERSION, Result PARAMETERS)
#include "CUDA/Driver.def"

#ifdef TANDEM_HAS_CUBLASLT_HEADER
#define CUBLASLT_FUNCTION(RETURN, MEMBER, NAME, PARAMETERS)                    \
  CHECK_FUNCTION(NAME, #NAME, RETURN PARAMETERS)
#include "CUDA/CublasLt.def"
#endif

//===----------------------------------------------------------------------===//
// Enumerators and constants
//===----------------------------------------------------------------------===//

namespace {
/// Returns whether theirs() is the identity. It is tested up to 1024, which no
/// enumerator reaches.
template <typename Enumeration, typename Theirs>
constexpr bool areSameNumbers(Theirs theirs) {
  for (int value = 0; value < 1024; ++value)
    if (int(theirs(Enumeration(value), value)) != value)
      return false;
  return true;
}

constexpr int theirs(Result result, int other) {
  switch (result) {
  case Result::Success:
    return CUDA_SUCCESS;
  case Result::OutOfMemory:
    return CUDA_ERROR_OUT_OF_MEMORY;
  case Result::NoDevice:
    return CUDA_ERROR_NO_DEVICE;
  case Result::InvalidDevice:
    return CUDA_ERROR_INVALID_DEVICE;
  case Result::NotFound:
    return CUDA_ERROR_NOT_FOUND;
  case Result::StreamCaptureUnsupported:
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  case Result::StreamCaptureInvalidated:
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  case Result::StreamCaptureImplicit:
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  case Result::CapturedEvent:
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  return other;
}

constexpr int theirs(Attribute attribute, int other) {
  switch (attribute) {
  case Attribute::MultiprocessorCount:
    return CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
  case Attribute::L2CacheSize:
    return CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE;
  case Attribute::UnifiedAddressing:
    return CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING;
  case Attribute::ComputeCapabilityMajor:
    return CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
  case Attribute::ComputeCapabilityMinor:
    return CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
  }
  return other;
}

constexpr int theirs(FunctionAttribute attribute, int other) {
  switch (attribute) {
  case FunctionAttribute::MaxThreadsPerBlock:
    return CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
  }
  return other;
}

constexpr int theirs(JITInput input, int other) {
  switch (input) {
  case JITInput::PTX:
    return CU_JIT_INPUT_PTX;
  }
  return other;
}

constexpr int theirs(JITOption option, int other) {
  switch (option) {
  case JITOption::ErrorLogBuffer:
    return CU_JIT_ERROR_LOG_BUFFER;
  case JITOption::ErrorLogBufferBytes:
    return CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
  }
  return other;
}

constexpr int theirs(CaptureStatus status, int other) {
  switch (status) {
  case CaptureStatus::None:
    return CU_STREAM_CAPTURE_STATUS_NONE;
  case CaptureStatus::Active:
    return CU_STREAM_CAPTURE_STATUS_ACTIVE;
  case CaptureStatus::Invalidated:
    return CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  }
  return other;
}

constexpr int theirs(CaptureMode mode, int other) {
  switch (mode) {
  case CaptureMode::Global:
    return CU_STREAM_CAPTURE_MODE_GLOBAL;
  case CaptureMode::ThreadLocal:
    return CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  case CaptureMode::Relaxed:
    return CU_STREAM_CAPTURE_MODE_RELAXED;
  }
  return other;
}

#ifdef TANDEM_HAS_CUBLASLT_HEADER
constexpr int theirs(DataType type, int other) {
  switch (type) {
  case DataType::F32:
    return CUDA_R_32F;
  case DataType::BF16:
    return CUDA_R_16BF;
  case DataType::E4M3:
    return CUDA_R_8F_E4M3;
  case DataType::E5M2:
    return CUDA_R_8F_E5M2;
  }
  return other;
}

constexpr int theirs(ComputeType type, int other) {
  switch (type) {
  case ComputeType::F32:
    return CUBLAS_COMPUTE_32F;
  }
  return other;
}

constexpr int theirs(MatmulAttribute attribute, int other) {
  switch (attribute) {
  case MatmulAttribute::TransA:
    return CUBLASLT_MATMUL_DESC_TRANSA;
  case MatmulAttribute::TransB:
    return CUBLASLT_MATMUL_DESC_TRANSB;
  case MatmulAttribute::Epilogue:
    return CUBLASLT_MATMUL_DESC_EPILOGUE;
  case MatmulAttribute::BiasPointer:
    return CUBLASLT_MATMUL_DESC_BIAS_POINTER;
  case MatmulAttribute::AScalePointer:
    return CUBLASLT_MATMUL_DESC_A_SCALE_POINTER;
  case MatmulAttribute::BScalePointer:
    return CUBLASLT_MATMUL_DESC_B_SCALE_POINTER;
  case MatmulAttribute::FastAccumulation:
    return CUBLASLT_MATMUL_DESC_FAST_ACCUM;
  case MatmulAttribute::BiasDataType:
    return CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE;
  }
  return other;
}

constexpr int theirs(PreferenceAttribute attribute, int other) {
  switch (attribute) {
  case PreferenceAttribute::MaxWorkspaceBytes:
    return CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
  case PreferenceAttribute::MinAlignmentA:
    return CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  case PreferenceAttribute::MinAlignmentB:
    return CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES;
  case PreferenceAttribute::MinAlignmentC:
    return CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES;
  case PreferenceAttribute::MinAlignmentD:
    return CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES;
  }
  return other;
}
#endif
} // namespace

#define CHECK_ENUMERATION(NAME)                                                \
  static_assert(areSameNumbers<NAME>([](NAME value, int other) {               \
                  return theirs(value, other);                                 \
                }),                                                            \
                #NAME)

CHECK_ENUMERATION(Result);
CHECK_ENUMERATION(Attribute);
CHECK_ENUMERATION(FunctionAttribute);
CHECK_ENUMERATION(JITInput);
CHECK_ENUMERATION(JITOption);
CHECK_ENUMERATION(CaptureStatus);
CHECK_ENUMERATION(CaptureMode);
static_assert(eventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(streamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(hostAllocPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(hostAllocMapped == CU_MEMHOSTALLOC_DEVICEMAP);

#ifdef TANDEM_HAS_CUBLASLT_HEADER
CHECK_ENUMERATION(DataType);
CHECK_ENUMERATION(ComputeType);
CHECK_ENUMERATION(MatmulAttribute);
CHECK_ENUMERATION(PreferenceAttribute);
static_assert(int(Result::Success) == CUBLAS_STATUS_SUCCESS);
static_assert(allocationFailed == CUBLAS_STATUS_ALLOC_FAILED);
static_assert(notSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(operationTranspose == CUBLAS_OP_T);
static_assert(operationNone == CUBLAS_OP_N);
static_assert(epilogueDefault == CUBLASLT_EPILOGUE_DEFAULT);
static_assert(epilogueBias == CUBLASLT_EPILOGUE_BIAS);
// Attributes of these types are set from integers of these sizes.
static_assert(sizeof(operationTranspose) == sizeof(cublasOperation_t));
static_assert(sizeof(epilogueBias) == sizeof(cublasLtEpilogue_t));

//===----------------------------------------------------------------------===//
// Structures
//===----------------------------------------------------------------------===//

#define CHECK_FIELD(OURS, FIELD, THEIRS, THEIR_FIELD)                          \
  static_assert(offsetof(OURS, FIELD) == offsetof(THEIRS, THEIR_FIELD),        \
                #OURS "::" #FIELD);                                            \
  static_assert(sizeof(OURS::FIELD) == sizeof(THEIRS::THEIR_FIELD),            \
                #OURS "::" #FIELD)
#define CHECK_RESULT_FIELD(OURS, THEIRS)                                       \
  CHECK_FIELD(HeuristicResult, OURS, cublasLtMatmulHeuristicResult_t, THEIRS)

CHECK_FIELD(Algorithm, data, cublasLtMatmulAlgo_t, data);
CHECK_RESULT_FIELD(algorithm, algo);
CHECK_RESULT_FIELD(workspaceBytes, workspaceSize);
CHECK_RESULT_FIELD(state, state);
CHECK_RESULT_FIELD(wavesCount, wavesCount);
CHECK_RESULT_FIELD(reserved, reserved);
#endif

//===----------------------------------------------------------------------===//
// The test
//===----------------------------------------------------------------------===//

// Records in the report which headers this file was compiled with.
TEST(NvidiaHeaders, Agree) {
  RecordProperty("cuda_version", CUDA_VERSION);
#ifdef TANDEM_HAS_CUBLASLT_HEADER
  RecordProperty("cublas_version", CUBLAS_VERSION);
#endif
}
