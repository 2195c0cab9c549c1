//===- CublasLt.cpp - NVIDIA's matrix products ----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the search for cuBLASLt and its errors.
//
//===----------------------------------------------------------------------===//

#include "CublasLt.h"

#include <cstdlib>
#include <map>
#include <mutex>

using namespace tandem::runtime;
using namespace tandem::runtime::cuda;

/// The first version that knows 8-bit floats, of CUDA 11.8.
static constexpr size_t oldestVersion = 111103;

#ifdef _WIN32
static constexpr const char *defaultLibraries[] = {"cublasLt64_13.dll",
                                                   "cublasLt64_12.dll"};
#else
static constexpr const char *defaultLibraries[] = {"libcublasLt.so.13",
                                                   "libcublasLt.so.12"};
#endif

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

tdm_status CublasLt::open(const std::string &named, void *&handle) {
  if (!named.empty()) {
    handle = openLibrary(named.c_str());
  } else {
    // A framework's own may be where nobody else looks.
    for (const char *name : defaultLibraries)
      if (!handle)
        handle = findLoadedLibrary(name);
    for (const char *name : defaultLibraries)
      if (!handle)
        handle = openLibrary(name);
  }
  if (handle)
    return TDM_OK;
  return Failure(TDM_UNAVAILABLE)
         << "there is no cuBLASLt: " << libraryError()
         << "; install CUDA's libraries, or name this one in TANDEM_CUBLASLT";
}

tdm_status CublasLt::load(const std::string &named) {
  void *handle = nullptr;
  if (tdm_status status = open(named, handle))
    return status;
  symbols.push_back(&getVersion);
  symbols.push_back(&getStatusString);
  // The library stays loaded, as the driver does.
  if (const Symbol *missing = findSymbols(handle))
    return Failure(TDM_UNAVAILABLE)
           << "cuBLASLt has no " << missing->name << "; update it";
  size_t version = reinterpret_cast<size_t (*)()>(getVersion.address)();
  if (version < oldestVersion)
    return Failure(TDM_UNAVAILABLE)
           << "cuBLASLt has version " << version << ", and products of 8-bit "
           << "floats begin with " << oldestVersion << "; update it";
  return TDM_OK;
}

tdm_status CublasLt::get(const CublasLt *&library) {
  // Never destroyed: products may be while the process shuts down.
  static std::mutex &mutex = *new std::mutex;
  static auto &libraries = *new std::map<std::string, const CublasLt *>;
  const char *named = std::getenv("TANDEM_CUBLASLT");
  std::string name = named ? named : "";
  std::lock_guard<std::mutex> lock(mutex);
  const CublasLt *&loaded = libraries[name];
  if (!loaded) {
    std::unique_ptr<CublasLt> fresh(new CublasLt);
    if (tdm_status status = fresh->load(name))
      return status;
    loaded = fresh.release();
  }
  library = loaded;
  return TDM_OK;
}

tdm_status CublasLt::fail(const Symbol &function, Result result) const {
  constexpr int allocationFailed = 3, notSupported = 15;
  using Text = const char *(*)(int);
  int number = static_cast<int>(result);
  const char *text = reinterpret_cast<Text>(getStatusString.address)(number);
  return Failure(number == allocationFailed ? TDM_OUT_OF_MEMORY
                 : number == notSupported   ? TDM_UNAVAILABLE
                                            : TDM_DEVICE_ERROR)
         << function.name << " failed: " << (text ? text : "error ")
         << (text ? "" : std::to_string(number));
}

//===----------------------------------------------------------------------===//
// Handles
//===----------------------------------------------------------------------===//

tdm_status
CublasLtSession::get(const std::shared_ptr<const CUDADevice> &device,
                     std::shared_ptr<const CublasLtSession> &session) {
  const CublasLt *library = nullptr;
  if (tdm_status status = CublasLt::get(library))
    return status;
  static std::mutex &mutex = *new std::mutex;
  static auto &sessions =
      *new std::map<std::pair<const CublasLt *, const CUDADevice *>,
                    std::weak_ptr<const CublasLtSession>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<const CublasLtSession> &known =
      sessions[{library, device.get()}];
  if ((session = known.lock()))
    return TDM_OK;
  auto fresh = std::make_shared<CublasLtSession>(*library, device);
  if (tdm_status status = device->inContext(
          [&] { return library->call(library->create, &fresh->handle); }))
    return status;
  known = session = std::move(fresh);
  return TDM_OK;
}

CublasLtSession::~CublasLtSession() {
  if (handle)
    device->release([&] { library.destroy(handle); });
}
