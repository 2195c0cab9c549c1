//===- SharedLibrary.cpp - Libraries of the system ------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the loading of NVIDIA's libraries on demand.
//
//===----------------------------------------------------------------------===//

#include "SharedLibrary.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif
#ifdef __linux__
#include <link.h>
#endif

using namespace tandem::runtime::cuda;

#ifdef _WIN32
void *tandem::runtime::cuda::openLibrary(const char *name) {
  return LoadLibraryA(name);
}
void *tandem::runtime::cuda::findLoadedLibrary(const char *name) {
  return GetModuleHandleA(name);
}
void *tandem::runtime::cuda::findSymbol(void *library, const char *name) {
  return reinterpret_cast<void *>(
      GetProcAddress(static_cast<HMODULE>(library), name));
}
std::string tandem::runtime::cuda::libraryError() {
  return "it cannot be loaded";
}
#else
void *tandem::runtime::cuda::openLibrary(const char *name) {
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}
void *tandem::runtime::cuda::findLoadedLibrary(const char *name) {
  return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}
void *tandem::runtime::cuda::findSymbol(void *library, const char *name) {
  return dlsym(library, name);
}
std::string tandem::runtime::cuda::libraryError() {
  const char *error = dlerror();
  return error ? error : "it cannot be loaded";
}
#endif

std::vector<std::string> tandem::runtime::cuda::listLoadedLibraries() {
  std::vector<std::string> paths;
#ifdef __linux__
  auto append = [](dl_phdr_info *info, size_t, void *list) {
    static_cast<std::vector<std::string> *>(list)->push_back(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(append, &paths);
#endif
  return paths;
}

const Symbol *SymbolTable::findSymbols(void *library) {
  for (Symbol *symbol : symbols)
    if (!(symbol->address = findSymbol(library, symbol->name)))
      return symbol;
  return nullptr;
}
