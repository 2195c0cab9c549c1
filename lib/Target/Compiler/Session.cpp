//===- Session.cpp - The context that compilations share ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the MLIR context of a process that compiles.
//
//===----------------------------------------------------------------------===//

#include "Session.h"
#include "tandem/InitAllDialects.h"
#include "tandem/Support/ParseModule.h"

using namespace mlir;
using namespace tandem;

Session &Session::get() {
  // Never destroyed: code may be compiled while the process shuts down.
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
          add(diagnostic);
        return success();
      }) {}

llvm::Error DiagnosticCollector::takeError() {
  std::string message = std::move(text);
  text.clear();
  return llvm::createStringError(message.empty() ? "compilation failed"
                                                 : message);
}

void DiagnosticCollector::add(Diagnostic &diagnostic) {
  llvm::raw_string_ostream stream(text);
  if (!text.empty())
    stream << "\n";
  // Line 0 stands for all of the text.
  if (auto location = dyn_cast<FileLineColLoc>(diagnostic.getLocation());
      location && location.getLine())
    stream << location.getFilename().getValue() << ":" << location.getLine()
           << ":" << location.getColumn() << ": ";
  stream << diagnostic;
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
