//===- Driver.h - The CUDA driver -------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the CUDA driver as the runtime uses it: a table of its
// functions, which are found in its library when the first device is opened.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_DRIVER_H
#define TANDEM_RUNTIME_LIB_CUDA_DRIVER_H

#include "Failure.h"
#include "SharedLibrary.h"

#include <memory>

namespace tandem::runtime::cuda {

//===----------------------------------------------------------------------===//
// The driver's types, as its header defines them
//===----------------------------------------------------------------------===//

enum class Attribute : int {
  MultiprocessorCount = 16,
  L2CacheSize = 38,
  UnifiedAddressing = 41,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76
};

enum class FunctionAttribute : int { MaxThreadsPerBlock = 0 };
enum class JITInput : int { PTX = 1 };
enum class CaptureStatus : int { None = 0, Active = 1, Invalidated = 2 };
enum class CaptureMode : int { Global = 0, ThreadLocal = 1, Relaxed = 2 };

enum class JITOption : int { ErrorLogBuffer = 5, ErrorLogBufferBytes = 6 };

constexpr unsigned eventDisableTiming = 2;
constexpr unsigned streamNonBlocking = 1;
constexpr unsigned hostAllocPortable = 1, hostAllocMapped = 2;

using DeviceHandle = int;
using Address = uint64_t;
using Context = struct ContextTag *;
using Module = struct ModuleTag *;
using Function = struct FunctionTag *;
using Stream = struct StreamTag *;
using Event = struct EventTag *;
using LinkState = struct LinkTag *;

//===----------------------------------------------------------------------===//
// The functions
//===----------------------------------------------------------------------===//

/// The loaded driver, which lives as long as the process.
class Driver : public SymbolTable {
public:
  /// Returns the driver of the library that the environment names, or of the
  /// default one. After a failure the next call tries again.
  static tdm_status get(const Driver *&driver);

  /// Calls \p function and turns its result into a status; the message of a
  /// failure names the function.
  template <typename EntryType, typename... Arguments>
  tdm_status call(const EntryType &function, Arguments... arguments) const {
    Result result = function(arguments...);
    return result == Result::Success ? TDM_OK : fail(function, result);
  }

  tdm_status fail(const Symbol &function, Result result) const;

#define DRIVER_FUNCTION(MEMBER, NAME, VERSION, PARAMETERS)                     \
  Entry<Result PARAMETERS> MEMBER{this, #NAME #VERSION};
#include "Driver.def"

private:
  Driver() = default;
  tdm_status load(const char *library);
};

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_DRIVER_H
