//===- CompilerError.h - Errors with fields ---------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares the errors that the C API reports: their kind, the parts
// of their message, and the place of the first diagnostic.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_COMPILERERROR_H
#define TANDEM_SUPPORT_COMPILERERROR_H

#include "mlir/IR/Diagnostics.h"
#include "tandem-c/Error.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace tandem {

/// A thing that a message names. Diagnostics and ErrorBuilder take it with <<.
struct Named {
  tdm_message_kind kind;
  llvm::StringRef name;
};

/// Appends the name to a diagnostic, which also keeps its kind.
mlir::Diagnostic &operator<<(mlir::Diagnostic &diagnostic, const Named &thing);

/// An error of the compiler. Only these errors have fields.
class CompilerError : public llvm::ErrorInfo<CompilerError> {
public:
  static char ID;

  /// A part of the message; kind and index are as in tdm_message_part.
  struct Part {
    tdm_message_kind kind;
    int64_t index;
    std::string text;
  };

  explicit CompilerError(TandemErrorKind kind) : kind(kind) {}

  /// Converts any error to one with fields. One without becomes plain text of a
  /// kind.
  static CompilerError from(llvm::Error error,
                            TandemErrorKind kind = TandemErrorInternal);

  void log(llvm::raw_ostream &stream) const override;
  std::error_code convertToErrorCode() const override;

  bool isEmpty() const { return parts.empty(); }
  /// Appends to the last part if both are plain text.
  void addText(const llvm::Twine &text);
  void add(const Named &thing);
  /// Appends the message of a diagnostic, after its place if `withPlace`. The
  /// first one gives the error its place and operation, and, if the first thing
  /// that it names is a strategy, storage or target, its kind.
  void add(mlir::Diagnostic &diagnostic, bool withPlace);

  TandemErrorKind kind;
  std::vector<Part> parts;
  std::string file, operation;
  int64_t line = 0, column = 0;

private:
  void describe(mlir::Diagnostic &first);
};

/// Builds an error:
///   return ErrorBuilder(TandemErrorTarget)
///          << "unknown target '" << Named{TDM_MESSAGE_TARGET, name} << "'";
class ErrorBuilder {
public:
  explicit ErrorBuilder(TandemErrorKind kind)
      : error(std::make_unique<CompilerError>(kind)) {}

  ErrorBuilder &operator<<(const llvm::Twine &text) {
    error->addText(text);
    return *this;
  }
  ErrorBuilder &operator<<(const Named &thing) {
    error->add(thing);
    return *this;
  }

  operator llvm::Error() { return llvm::Error(std::move(error)); }
  template <typename T>
  operator llvm::Expected<T>() {
    return llvm::Error(std::move(error));
  }

private:
  std::unique_ptr<CompilerError> error;
};

/// Returns the runtime's last error (tdm_last_error).
llvm::Error takeRuntimeError(TandemErrorKind kind);

} // namespace tandem

#endif // TANDEM_SUPPORT_COMPILERERROR_H
