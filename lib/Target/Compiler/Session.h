//===- Session.h - The context that compilations share ----------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares what compilations of one process share: the MLIR context,
// whose errors become messages, and the way from a module to code.
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

/// Gathers the errors that are emitted while it lives.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(MLIRContext *context);

  bool isEmpty() const { return error.isEmpty(); }
  /// The errors so far, of which there are none afterwards. The kind is that of
  /// errors that do not tell theirs.
  llvm::Error takeError(TandemErrorKind kind = TandemErrorGraph);

private:
  CompilerError error{TandemErrorNone};
  ScopedDiagnosticHandler handler;
};

/// A module of the session's context, which it locks: other threads wait until
/// the object is destroyed.
struct SessionModule {
  /// Locks the context only; the caller builds the module.
  SessionModule()
      : lock(Session::get().mutex), diagnostics(&Session::get().context) {}
  /// Parses the module; it is null after an error.
  SessionModule(llvm::StringRef text, llvm::StringRef name);

  /// Loads what a target needs.
  void prepareFor(const Target &target);

  MLIRContext *getContext() { return &Session::get().context; }

  std::lock_guard<std::mutex> lock;
  DiagnosticCollector diagnostics;
  OwningOpRef<ModuleOp> module;
};

/// Compiles the program of a module; of the options, `graph` does not count.
llvm::Expected<std::unique_ptr<CompiledKernel>>
compileModule(SessionModule &session, const CompileOptions &options);

} // namespace tandem

#endif // TANDEM_LIB_TARGET_COMPILER_SESSION_H
