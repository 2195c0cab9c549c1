//===- Driver.h - The CUDA driver -------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the CUDA driver as the runtime uses it: a table of its
// functions, found in its library when a device is first asked for.
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

/// The driver. Lives as long as the process.
class Driver : public SymbolTable {
public:
  /// The driver of the library in the environment. A failure is tried again by
  /// the next call.
  static tdm_status get(const Driver *&driver);

  /// Calls \p function; what it returns becomes a status, and a message that
  /// names it.
  template <typename EntryType, typename... Arguments>
  tdm_status call(const EntryType &function, Arguments... arguments) const {
    Result result = function(arguments...);
    return result == Result::Success ? TDM_OK : fail(function, result);
  }

  tdm_status fail(const Symbol &function, Result result) const;

  Entry<unsigned> init{this, "cuInit"};
  Entry<int *> driverGetVersion{this, "cuDriverGetVersion"};
  Entry<int, const char **> getErrorName{this, "cuGetErrorName"};
  Entry<int, const char **> getErrorString{this, "cuGetErrorString"};

  Entry<int *> deviceGetCount{this, "cuDeviceGetCount"};
  Entry<DeviceHandle *, int> deviceGet{this, "cuDeviceGet"};
  Entry<char *, int, DeviceHandle> deviceGetName{this, "cuDeviceGetName"};
  Entry<size_t *, DeviceHandle> deviceTotalMem{this, "cuDeviceTotalMem_v2"};
  Entry<int *, Attribute, DeviceHandle> deviceGetAttribute{
      this, "cuDeviceGetAttribute"};
  Entry<Context *, DeviceHandle> primaryCtxRetain{this,
                                                  "cuDevicePrimaryCtxRetain"};
  Entry<DeviceHandle> primaryCtxRelease{this, "cuDevicePrimaryCtxRelease_v2"};
  Entry<Context> ctxPushCurrent{this, "cuCtxPushCurrent_v2"};
  Entry<Context *> ctxPopCurrent{this, "cuCtxPopCurrent_v2"};
  Entry<> ctxSynchronize{this, "cuCtxSynchronize"};

  Entry<Address *, size_t> memAlloc{this, "cuMemAlloc_v2"};
  Entry<Address> memFree{this, "cuMemFree_v2"};
  Entry<void **, size_t, unsigned> memHostAlloc{this, "cuMemHostAlloc"};
  Entry<void *> memFreeHost{this, "cuMemFreeHost"};
  Entry<Address, Address, size_t> memcpy{this, "cuMemcpy"};
  Entry<Address, const void *, size_t, Stream> memcpyHtoDAsync{
      this, "cuMemcpyHtoDAsync_v2"};
  Entry<Address, Address, size_t, Stream> memcpyDtoDAsync{
      this, "cuMemcpyDtoDAsync_v2"};
  Entry<Address, unsigned, size_t, Stream> memsetD32Async{this,
                                                          "cuMemsetD32Async"};

  Entry<Module *, const void *, unsigned, JITOption *, void **>
      moduleLoadDataEx{this, "cuModuleLoadDataEx"};
  Entry<Module> moduleUnload{this, "cuModuleUnload"};
  Entry<Function *, Module, const char *> moduleGetFunction{
      this, "cuModuleGetFunction"};
  Entry<int *, FunctionAttribute, Function> funcGetAttribute{
      this, "cuFuncGetAttribute"};
  Entry<int *, Function, int, size_t> maxActiveBlocks{
      this, "cuOccupancyMaxActiveBlocksPerMultiprocessor"};
  Entry<unsigned, JITOption *, void **, LinkState *> linkCreate{
      this, "cuLinkCreate_v2"};
  Entry<LinkState, JITInput, void *, size_t, const char *, unsigned,
        JITOption *, void **>
      linkAddData{this, "cuLinkAddData_v2"};
  Entry<LinkState, void **, size_t *> linkComplete{this, "cuLinkComplete"};
  Entry<LinkState> linkDestroy{this, "cuLinkDestroy"};

  Entry<Stream *, unsigned> streamCreate{this, "cuStreamCreate"};
  Entry<Stream> streamSynchronize{this, "cuStreamSynchronize"};
  Entry<Stream> streamDestroy{this, "cuStreamDestroy_v2"};
  Entry<Stream, CaptureStatus *> streamIsCapturing{this, "cuStreamIsCapturing"};
  Entry<CaptureMode *> exchangeCaptureMode{this,
                                           "cuThreadExchangeStreamCaptureMode"};
  Entry<Event *, unsigned> eventCreate{this, "cuEventCreate"};
  Entry<Event, Stream> eventRecord{this, "cuEventRecord"};
  Entry<Event> eventSynchronize{this, "cuEventSynchronize"};
  Entry<Event> eventDestroy{this, "cuEventDestroy_v2"};

  Entry<Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
        unsigned, Stream, void **, void **>
      launchKernel{this, "cuLaunchKernel"};

private:
  Driver() = default;
  tdm_status load(const char *library);
};

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_DRIVER_H
