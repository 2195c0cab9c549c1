//===- Driver.cpp - The CUDA driver ---------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the search for the CUDA driver and its errors.
//
//===----------------------------------------------------------------------===//

#include "Driver.h"

#include <cstdlib>
#include <map>
#include <mutex>

using namespace tandem::runtime;
using namespace tandem::runtime::cuda;

#ifdef _WIN32
static constexpr const char *defaultLibrary = "nvcuda.dll";
#else
static constexpr const char *defaultLibrary = "libcuda.so.1";
#endif

//===----------------------------------------------------------------------===//
// The driver
//===----------------------------------------------------------------------===//

tdm_status Driver::load(const char *library) {
  void *handle = openLibrary(library);
  if (!handle)
    return Failure(TDM_UNAVAILABLE)
           << "there is no CUDA driver: " << libraryError()
           << "; install NVIDIA's driver, or name its library in "
           << "TANDEM_CUDA_DRIVER";
  // The library stays loaded, since the driver does not support unloading.
  if (const Symbol *missing = findSymbols(handle))
    return Failure(TDM_UNAVAILABLE)
           << "the CUDA driver '" << library << "' has no " << missing->name
           << "; update it";
  return call(init, 0u);
}

tdm_status Driver::get(const Driver *&driver) {
  // These are never destroyed, since devices may be closed while the process
  // shuts down.
  static std::mutex &mutex = *new std::mutex;
  static auto &drivers = *new std::map<std::string, const Driver *>;
  const char *named = std::getenv("TANDEM_CUDA_DRIVER");
  std::string library = named && *named ? named : defaultLibrary;
  std::lock_guard<std::mutex> lock(mutex);
  const Driver *&loaded = drivers[library];
  if (!loaded) {
    std::unique_ptr<Driver> fresh(new Driver);
    if (tdm_status status = fresh->load(library.c_str()))
      return status;
    loaded = fresh.release();
  }
  driver = loaded;
  return TDM_OK;
}

static tdm_status statusOf(Result result) {
  switch (result) {
  case Result::OutOfMemory:
    return TDM_OUT_OF_MEMORY;
  case Result::NoDevice:
  case Result::InvalidDevice:
    return TDM_UNAVAILABLE;
  case Result::StreamCaptureUnsupported:
  case Result::StreamCaptureInvalidated:
  case Result::StreamCaptureImplicit:
  case Result::CapturedEvent:
    return TDM_INVALID_STATE;
  default:
    return TDM_DEVICE_ERROR;
  }
}

tdm_status Driver::fail(const Symbol &function, Result result) const {
  const char *name = nullptr, *text = nullptr;
  getErrorName(result, &name);
  getErrorString(result, &text);
  Failure failure(statusOf(result));
  failure << function.name << " failed: ";
  if (name)
    failure << name;
  else
    failure << "error " << static_cast<int>(result);
  if (text)
    failure << " (" << text << ")";
  if (statusOf(result) == TDM_INVALID_STATE)
    failure << "; a stream is being captured; do this before the capture or "
            << "after it";
  return failure;
}
