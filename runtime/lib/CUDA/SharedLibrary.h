//===- SharedLibrary.h - Libraries of the system ----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the loading of NVIDIA's libraries on demand.
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

/// Loads a library, which stays loaded; returns null if there is none.
void *openLibrary(const char *name);
/// Returns a library that the process has already loaded, or null.
void *findLoadedLibrary(const char *name);
void *findSymbol(void *library, const char *name);
/// Returns the paths of the libraries that the process has loaded, if the
/// system can list them.
std::vector<std::string> listLoadedLibraries();
/// Returns why the latest library could not be loaded.
std::string libraryError();

/// A symbol of a library.
struct Symbol {
  const char *name;
  void *address = nullptr;
};

/// The symbols of a table, whose entries register themselves.
class SymbolTable {
public:
  std::vector<Symbol *> symbols;

protected:
  /// Finds all symbols. Returns the first one that the library does not have,
  /// or null.
  const Symbol *findSymbols(void *library);

  /// A function of the library, with its name there and its type.
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
