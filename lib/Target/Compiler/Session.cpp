//===- Session.cpp - The context that compilations share ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the MLIR context that a process compiles in.
//
//===----------------------------------------------------------------------===//

#include "Session.h"
#include "tandem/InitAllDialects.h"
#include "tandem/Support/ParseModule.h"
#include <utility>

using namespace mlir;
using namespace tandem;

Session &Session::get() {
  // The session is never destroyed: code may be compiled while the process
  // shuts down.
  static Session *session = new Session();
  return *session;
}

Session::Session() {
  DialectRegistry registry;
  registerAllDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
}

DiagnosticCollector::DiagnosticCollector(MLIRContext *context)
    : handler(context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          error.add(diagnostic, /*withPlace=*/true);
        return success();
      }) {}

llvm::Error DiagnosticCollector::takeError(TandemErrorKind kind) {
  CompilerError taken = std::exchange(error, CompilerError(TandemErrorNone));
  if (taken.isEmpty()) {
    taken.kind = TandemErrorInternal;
    taken.addText("compilation failed");
  }
  if (taken.kind == TandemErrorNone)
    taken.kind = kind;
  return llvm::make_error<CompilerError>(std::move(taken));
}

SessionModule::SessionModule(llvm::StringRef text, llvm::StringRef name)
    : SessionModule() {
  module = parseModule(text, getContext(), name);
}

void SessionModule::prepareFor(const Target &target) {
  DialectRegistry registry;
  target.registerDialects(registry);
  getContext()->appendDialectRegistry(registry);
  getContext()->loadAllAvailableDialects();
}
