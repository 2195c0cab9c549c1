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

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>

using namespace tandem::runtime;
using namespace tandem::runtime::cuda;

/// The first version that supports 8-bit floats, from CUDA 11.8.
static constexpr size_t oldestVersion = 111103;

#ifdef _WIN32
static constexpr const char *defaultLibraries[] = {"cublasLt64_13.dll",
                                                   "cublasLt64_12.dll"};
#else
static constexpr const char *defaultLibraries[] = {"libcublasLt.so.13",
                                                   "libcublasLt.so.12"};
#endif

/// Prefixes of the names of libraries that may be next to cuBLASLt, or in a
/// Python environment that has it.
static constexpr const char *neighbours[] = {"libcublas", "libcudart",
                                             "libtorch", "libtandem_runtime"};
/// The library's directories in NVIDIA's Python packages, relative to the
/// directory of packages: for CUDA 13 and for CUDA 12.
static constexpr const char *packageDirectories[] = {"nvidia/cu13/lib",
                                                     "nvidia/cublas/lib"};

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

namespace {
/// A search without a name, which can explain that nothing was found.
class Search {
public:
  void *run();
  std::string explain() const;

private:
  void *findLoaded();
  void *findBeside();
  void *findInSystem();
  void *findAround(const std::string &directory);
  void *findIn(const std::string &directory);
  void *open(const std::string &name);

  std::vector<std::string> directories;
  std::string problems;
};
} // namespace

void *Search::open(const std::string &name) {
  void *handle = openLibrary(name.c_str());
  if (!handle)
    problems += (problems.empty() ? "" : "; ") + libraryError();
  return handle;
}

/// Finds a library that a framework has loaded from a directory that this
/// search does not know.
void *Search::findLoaded() {
  for (const char *name : defaultLibraries)
    if (void *handle = findLoadedLibrary(name))
      return handle;
  return nullptr;
}

void *Search::findIn(const std::string &directory) {
  for (const char *name : defaultLibraries) {
    std::string path = directory + "/" + name;
    if (std::ifstream(path).is_open())
      if (void *handle = open(path))
        return handle;
  }
  return nullptr;
}

void *Search::findAround(const std::string &directory) {
  if (void *handle = findIn(directory))
    return handle;
  // A package's libraries are at most three levels below the directory of
  // packages, such as in nvidia/cuda_runtime/lib.
  std::string place = directory;
  for (int level = 0; level <= 3 && !place.empty(); ++level) {
    for (const char *package : packageDirectories)
      if (void *handle = findIn(place + "/" + package))
        return handle;
    place.resize(place.rfind('/') == std::string::npos ? 0 : place.rfind('/'));
  }
  return nullptr;
}

static bool isNeighbour(const std::string &name) {
  return std::any_of(
      std::begin(neighbours), std::end(neighbours),
      [&](const char *neighbour) { return name.rfind(neighbour, 0) == 0; });
}

void *Search::findBeside() {
  for (const std::string &path : listLoadedLibraries()) {
    size_t slash = path.rfind('/');
    if (slash == std::string::npos || !isNeighbour(path.substr(slash + 1)))
      continue;
    std::string directory = path.substr(0, slash);
    if (std::count(directories.begin(), directories.end(), directory))
      continue;
    directories.push_back(directory);
    if (void *handle = findAround(directory))
      return handle;
  }
  return nullptr;
}

void *Search::findInSystem() {
  for (const char *name : defaultLibraries)
    if (void *handle = open(name))
      return handle;
  return nullptr;
}

void *Search::run() {
  if (void *handle = findLoaded())
    return handle;
  if (void *handle = findBeside())
    return handle;
  return findInSystem();
}

std::string Search::explain() const {
  std::string text = problems + "; the process has not loaded one";
  for (const std::string &directory : directories)
    text += ", there is none around " + directory;
  return text;
}

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

static tdm_status openCublasLt(const std::string &named, void *&handle) {
  Search search;
  handle = named.empty() ? search.run() : openLibrary(named.c_str());
  if (handle)
    return TDM_OK;
  return Failure(TDM_UNAVAILABLE)
         << "there is no cuBLASLt: "
         << (named.empty() ? search.explain() : libraryError())
         << "; install CUDA's libraries, or name this one in TANDEM_CUBLASLT";
}

tdm_status CublasLt::load(const std::string &named) {
  void *handle = nullptr;
  if (tdm_status status = openCublasLt(named, handle))
    return status;
  // The library stays loaded, as the driver does.
  if (const Symbol *missing = findSymbols(handle))
    return Failure(TDM_UNAVAILABLE)
           << "cuBLASLt has no " << missing->name << "; update it";
  size_t version = getVersion();
  if (version < oldestVersion)
    return Failure(TDM_UNAVAILABLE)
           << "cuBLASLt has version " << version << ", and products of 8-bit "
           << "floats begin with " << oldestVersion << "; update it";
  return TDM_OK;
}

tdm_status CublasLt::get(const CublasLt *&library) {
  // These are never destroyed, since products may be destroyed while the
  // process shuts down.
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
  int number = static_cast<int>(result);
  const char *text = getStatusString(result);
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
