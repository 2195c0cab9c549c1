//===- Compiler.cpp - The compiler, loaded when needed --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the search for libTandem: first in the extension's run
// path, which is its own directory in a wheel, and then in the installed
// distribution that Python finds.
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"
#include <atomic>
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

/// Raises an ImportError whose message a function of `tandem._compiler` builds.
[[noreturn]] static void refuse(const std::string &reason,
                                const char *explain = "explain") {
  nb::object function = nb::module_::import_("tandem._compiler").attr(explain);
  std::string message = nb::cast<std::string>(function(reason));
  throw nb::import_error(message.c_str());
}

/// Raises an ImportError if libTandem would call an LLVM other than its own:
/// that of a library such as Triton's, if it was loaded with RTLD_GLOBAL. LLVM
/// ends the process when it registers its options a second time. The functions
/// of each libLLVM have a version, so that another libLLVM does no harm.
static void refuseOtherLLVM() {
#ifdef TANDEM_SHARED_LLVM
  void *symbol = dlsym(RTLD_DEFAULT, "_ZN4llvm2cl6Option11addArgumentEv");
  Dl_info owner;
  if (!symbol || !dladdr(symbol, &owner))
    return;
  std::string path = owner.dli_fname;
  if (path.compare(path.rfind('/') + 1, 7, "libLLVM") != 0)
    refuse(path, "explain_other_llvm");
#endif
}

/// The compiler's library, which the loader looks for where the extension says.
#ifdef __APPLE__
#define TANDEM_LIBRARY "@rpath/libTandem.dylib"
#else
#define TANDEM_LIBRARY "libTandem.so"
#endif

/// Loads a library. On failure, returns NULL and stores the error text in
/// `reason`.
static void *open(const char *path, std::string &reason) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    reason = dlerror();
  return library;
}

static void *openLibrary() {
  std::string reason;
  if (void *library = open(TANDEM_LIBRARY, reason))
    return library;
  nb::object other = nb::module_::import_("tandem._compiler").attr("locate")();
  if (!other.is_none())
    if (void *library = open(nb::cast<std::string>(other).c_str(), reason))
      return library;
  refuse(reason);
}

/// Looks up a function. If it is missing, libTandem has a different version
/// from the extension.
template <typename Function>
static void find(void *library, const char *name, Function &function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function)
    refuse(std::string(TANDEM_LIBRARY ": has no function ") + name);
}

static Compiler load() {
  refuseOtherLLVM();
  void *library = openLibrary();
  Compiler functions;
  find(library, "tandemGetVersion", functions.tandemGetVersion);
  std::string version = functions.tandemGetVersion();
  if (version != TANDEM_VERSION)
    refuse(TANDEM_LIBRARY ": is of version " + version);
#define TANDEM_FIND_FUNCTION(name) find(library, #name, functions.name);
  TANDEM_COMPILER_FUNCTIONS(TANDEM_FIND_FUNCTION)
#undef TANDEM_FIND_FUNCTION
  return functions;
}

static std::atomic<const Compiler *> loaded;

const Compiler *loadedCompiler() {
  return loaded.load(std::memory_order_acquire);
}

const Compiler &compiler() {
  static Compiler functions;
  if (const Compiler *known = loaded.load(std::memory_order_acquire))
    return *known;
  nb::gil_scoped_acquire acquired;
  Compiler found = load();
  // Another thread may have loaded the library while the GIL was released.
  if (!loaded.load(std::memory_order_relaxed)) {
    functions = found;
    loaded.store(&functions, std::memory_order_release);
  }
  return functions;
}
