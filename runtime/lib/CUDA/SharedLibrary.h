//===- SharedLibrary.h - Libraries of the system ----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares how libraries of NVIDIA's are found when they are needed.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_CUDA_SHAREDLIBRARY_H
#define TANDEM_RUNTIME_LIB_CUDA_SHAREDLIBRARY_H

#include <string>
#include <vector>

namespace tandem::runtime::cuda {

/// The result of a function of the driver or of cuBLASLt.
enum class Result : int {
  Success = 0,
  OutOfMemory = 2,
  NoDevice = 100,
  InvalidDevice = 101,
  NotFound = 500,
  StreamCaptureUnsupported = 900,
  StreamCaptureInvalidated = 901,
  StreamCaptureImplicit = 906,
  CapturedEvent = 907
};

/// A library of the system, which stays loaded; null if there is none.
void *openLibrary(const char *name);
/// The same, only if the process has loaded it before.
void *findLoadedLibrary(const char *name);
void *findSymbol(void *library, const char *name);
/// The paths of what the process has loaded, as far as the system tells them.
std::vector<std::string> listLoadedLibraries();
/// Returns why the latest library was not loaded.
std::string libraryError();

/// A symbol of a library.
struct Symbol {
  const char *name;
  void *address = nullptr;
};

/// The symbols of a table, which enter themselves.
class SymbolTable {
public:
  std::vector<Symbol *> symbols;

protected:
  /// Finds all symbols; the first that the library does not have, or null.
  const Symbol *findSymbols(void *library);

  /// A function of the library: what it is called there, and its type.
  template <typename Type>
  struct Entry;
  template <typename Return, typename... Parameters>
  struct Entry<Return(Parameters...)> : Symbol {
    Entry(SymbolTable *table, const char *name) : Symbol{name} {
      table->symbols.push_back(this);
    }
    Return operator()(Parameters... arguments) const {
      using Type = Return (*)(Parameters...);
      return reinterpret_cast<Type>(address)(arguments...);
    }
  };
};

} // namespace tandem::runtime::cuda

#endif // TANDEM_RUNTIME_LIB_CUDA_SHAREDLIBRARY_H
