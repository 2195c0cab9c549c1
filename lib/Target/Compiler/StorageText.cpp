//===- StorageText.cpp - Storages as text ---------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file parses storages.
//
//===----------------------------------------------------------------------===//

#include "StorageText.h"
#include "mlir/AsmParser/AsmParser.h"
#include "tandem/Support/ParseModule.h"

using namespace mlir;
using namespace tandem;

/// Returns the parser's message, or one that says that this is not a storage.
static std::string findError(Attribute attribute, const std::string &message) {
  if (!message.empty())
    return message;
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << "it is not a storage; storages are attributes such as "
            "#tandem.float<bf16>";
  if (attribute)
    stream << ", got " << attribute;
  return text;
}

llvm::Expected<StorageAttrInterface>
tandem::parseStorage(SessionModule &session, StringRef text) {
  std::string message;
  Attribute attribute;
  if (auto malformed = findMalformedText(text)) {
    message = "expected " + malformed->expected.str();
  } else {
    ScopedDiagnosticHandler handler(session.getContext(),
                                    [&](Diagnostic &diagnostic) {
                                      if (message.empty())
                                        message = diagnostic.str();
                                      return success();
                                    });
    attribute = parseAttribute(text, session.getContext());
  }
  if (auto storage = dyn_cast_if_present<StorageAttrInterface>(attribute))
    return storage;
  return ErrorBuilder(TandemErrorStorage)
         << "cannot read storage '" << Named{TDM_MESSAGE_STORAGE, text}
         << "': " + findError(attribute, message);
}

llvm::Expected<Type> tandem::parseFormat(SessionModule &session,
                                         StringRef text) {
  Type type = parseTypeText(text, session.getContext());
  if (isa_and_present<FloatType>(type))
    return type;
  return ErrorBuilder(TandemErrorStorage)
         << "'" << Named{TDM_MESSAGE_FORMAT, text}
         << "' is not a float format; formats are f32, bf16, f16, f8E4M3FN and "
            "f8E5M2";
}

llvm::Expected<StorageAttrInterface> tandem::makeFloats(SessionModule &session,
                                                        StringRef format) {
  auto type = parseFormat(session, format);
  if (!type)
    return type.takeError();
  Location unknown = UnknownLoc::get(session.getContext());
  auto storage = FloatStorageAttr::getChecked(
      [&] { return emitError(unknown); }, session.getContext(), *type,
      RoundingMode::nearest);
  if (!storage)
    return session.diagnostics.takeError(TandemErrorStorage);
  return cast<StorageAttrInterface>(storage);
}

std::string tandem::printStorage(StorageAttrInterface storage) {
  std::string text;
  llvm::raw_string_ostream(text) << storage;
  return text;
}

llvm::Error tandem::makeStorageError(StorageAttrInterface storage,
                                     const Twine &problem) {
  return ErrorBuilder(TandemErrorStorage)
         << Named{TDM_MESSAGE_STORAGE, printStorage(storage)} << " " + problem;
}
