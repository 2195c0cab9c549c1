//===- CompilerError.cpp - Errors with fields -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements errors with fields.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/CompilerError.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "tandem/Support/LLVM.h"
#include <optional>

using namespace mlir;
using namespace tandem;

char CompilerError::ID = 0;

Diagnostic &tandem::operator<<(Diagnostic &diagnostic, const Named &thing) {
  // The metadata are pairs: an argument's position and the kind of thing that
  // it names.
  unsigned position = diagnostic.getArguments().size();
  diagnostic.getMetadata().push_back(DiagnosticArgument(position));
  diagnostic.getMetadata().push_back(DiagnosticArgument(unsigned(thing.kind)));
  return diagnostic << Twine(thing.name);
}

/// Returns the kind of thing that the argument of a diagnostic names.
static tdm_message_kind getArgumentKind(Diagnostic &diagnostic,
                                        unsigned position) {
  ArrayRef<DiagnosticArgument> marks = diagnostic.getMetadata();
  for (size_t i = 0; i + 1 < marks.size(); i += 2)
    if (marks[i].getAsUnsigned() == position)
      return static_cast<tdm_message_kind>(marks[i + 1].getAsUnsigned());
  return TDM_MESSAGE_TEXT;
}

/// Returns the name of the operation that Operation::emitOpError put at the
/// beginning of a diagnostic, or an empty string if there is none.
static StringRef getOperation(Diagnostic &diagnostic) {
  auto arguments = diagnostic.getArguments();
  auto isText = [&](size_t i) {
    return arguments[i].getKind() ==
           DiagnosticArgument::DiagnosticArgumentKind::String;
  };
  if (arguments.size() < 3 || !isText(0) || !isText(1) || !isText(2) ||
      arguments[0].getAsString() != "'" ||
      arguments[2].getAsString() != "' op ")
    return "";
  return arguments[1].getAsString();
}

/// Returns the kind of an error whose message begins by naming such a thing, or
/// no value if the thing does not determine it.
static std::optional<TandemErrorKind> getErrorKind(tdm_message_kind thing) {
  switch (thing) {
  case TDM_MESSAGE_STRATEGY:
    return TandemErrorStrategy;
  case TDM_MESSAGE_STORAGE:
    return TandemErrorStorage;
  case TDM_MESSAGE_TARGET:
    return TandemErrorTarget;
  default:
    return std::nullopt;
  }
}

CompilerError CompilerError::from(llvm::Error error, TandemErrorKind kind) {
  CompilerError result(kind);
  llvm::handleAllErrors(
      std::move(error),
      [&](const CompilerError &known) {
        if (result.isEmpty())
          result = known;
        else
          result.addText("\n" + known.message());
      },
      [&](const llvm::ErrorInfoBase &other) {
        result.addText((result.isEmpty() ? "" : "\n") + other.message());
      });
  return result;
}

void CompilerError::log(raw_ostream &stream) const {
  for (const Part &part : parts)
    stream << part.text;
}

std::error_code CompilerError::convertToErrorCode() const {
  return llvm::inconvertibleErrorCode();
}

void CompilerError::addText(const Twine &text) {
  if (text.isTriviallyEmpty())
    return;
  if (parts.empty() || parts.back().kind != TDM_MESSAGE_TEXT)
    parts.push_back({TDM_MESSAGE_TEXT, 0, ""});
  parts.back().text += text.str();
}

void CompilerError::add(const Named &thing) {
  parts.push_back({thing.kind, 0, thing.name.str()});
}

void CompilerError::describe(Diagnostic &first) {
  operation = getOperation(first).str();
  if (auto place = first.getLocation()->findInstanceOf<FileLineColLoc>()) {
    file = place.getFilename().str();
    line = place.getLine();
    column = place.getColumn();
  }
  for (size_t i = 0, e = first.getArguments().size(); i < e; ++i)
    if (tdm_message_kind thing = getArgumentKind(first, i)) {
      kind = getErrorKind(thing).value_or(kind);
      return;
    }
}

void CompilerError::add(Diagnostic &diagnostic, bool withPlace) {
  if (isEmpty())
    describe(diagnostic);
  else
    addText("\n");
  // Line 0 stands for the text as a whole.
  if (auto place = dyn_cast<FileLineColLoc>(diagnostic.getLocation());
      withPlace && place && place.getLine())
    addText(place.getFilename().getValue() + ":" + Twine(place.getLine()) +
            ":" + Twine(place.getColumn()) + ": ");
  for (auto [position, argument] : llvm::enumerate(diagnostic.getArguments())) {
    std::string text;
    llvm::raw_string_ostream(text) << argument;
    tdm_message_kind thing = getArgumentKind(diagnostic, position);
    if (thing == TDM_MESSAGE_TEXT)
      addText(text);
    else
      add(Named{thing, text});
  }
}

llvm::Error tandem::takeRuntimeError(TandemErrorKind kind) {
  auto error = std::make_unique<CompilerError>(kind);
  std::vector<tdm_message_part> parts(tdm_last_error_parts(nullptr, 0));
  tdm_last_error_parts(parts.data(), parts.size());
  for (const tdm_message_part &part : parts)
    error->parts.push_back(
        {part.kind, part.index, std::string(part.text, part.size)});
  return llvm::Error(std::move(error));
}
