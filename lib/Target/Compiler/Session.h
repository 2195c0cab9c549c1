//===- Session.h - The context that compilations share ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what the compilations of one process share: the MLIR
// context, whose diagnostics become errors, and the compilation of a module to
// code.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_LIB_TARGET_COMPILER_SESSION_H
#define TANDEM_LIB_TARGET_COMPILER_SESSION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "tandem/Support/CompilerError.h"
#include "tandem/Target/Compiler.h"
#include <mutex>

namespace tandem {

/// The process's MLIR context, kept warm between compilations.
class Session {
public:
  static Session &get();

  std::mutex mutex;
  MLIRContext context{MLIRContext::Threading::DISABLED};

private:
  Session();
};

/// Gathers the errors that are emitted during its lifetime.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(MLIRContext *context);

  bool isEmpty() const { return error.isEmpty(); }
  /// Returns the errors so far and forgets them. `kind` is for errors that do
  /// not determine their own.
  llvm::Error takeError(TandemErrorKind kind = TandemErrorGraph);

private:
  CompilerError error{TandemErrorNone};
  ScopedDiagnosticHandler handler;
};

/// A module in the session's context, which it locks: other threads wait until
/// this object is destroyed.
struct SessionModule {
  /// Locks the context; the caller builds the module.
  SessionModule()
      : lock(Session::get().mutex), diagnostics(&Session::get().context) {}
  /// Locks the context and parses the module, which is null after an error.
  SessionModule(llvm::StringRef text, llvm::StringRef name);

  /// Loads the dialects that a target needs.
  void prepareFor(const Target &target);

  MLIRContext *getContext() { return &Session::get().context; }

  std::lock_guard<std::mutex> lock;
  DiagnosticCollector diagnostics;
  OwningOpRef<ModuleOp> module;
};

/// Compiles the program of a module, unless the cache on disk has it. Ignores
/// the option `graph`.
llvm::Expected<std::unique_ptr<CompiledKernel>>
compileModule(SessionModule &session, const CompileOptions &options);

/// Looks up the addresses of the functions that the description names in code
/// that is in this process.
llvm::Error findCode(CompiledKernel &kernel);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_COMPILER_SESSION_H
