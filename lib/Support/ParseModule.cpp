//===- ParseModule.cpp - Read MLIR text -----------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the parser of modules in a host process.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/ParseModule.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace mlir::tandem;

/// The text with spaces for comments, so that places stay.
static std::string blankComments(StringRef text) {
  std::string blank = text.str();
  bool isString = false;
  for (size_t i = 0; i < blank.size(); ++i) {
    if (blank[i] == '"' && (i == 0 || blank[i - 1] != '\\'))
      isString = !isString;
    isString &= blank[i] != '\n';
    if (!isString && blank.compare(i, 2, "//") == 0)
      for (; i < blank.size() && blank[i] != '\n'; ++i)
        blank[i] = ' ';
  }
  return blank;
}

std::optional<size_t> mlir::tandem::findMalformedList(StringRef text) {
  if (!text.contains("linalg."))
    return std::nullopt;
  // Behind a brace or a comma it is an attribute of a dictionary, such as the
  // generic form's, whose parser is sound.
  static const llvm::Regex keyword(
      "(^|[^A-Za-z0-9_.$,{ \t\r\n]|[^,{ \t\r\n][ \t\r\n]+)"
      "(dimensions|permutation)[ \t\r\n]*=[ \t\r\n]*");
  static const llvm::Regex list("^\\[[ \t\r\n]*([0-9]{1,18}([ \t\r\n]*,"
                                "[ \t\r\n]*[0-9]{1,18})*)?[ \t\r\n]*\\]");
  std::string blank = blankComments(text);
  StringRef rest = blank;
  SmallVector<StringRef> match;
  while (keyword.match(rest, &match)) {
    rest = rest.substr(match[0].end() - rest.begin());
    if (!list.match(rest))
      return rest.begin() - blank.data();
  }
  return std::nullopt;
}

OwningOpRef<ModuleOp> mlir::tandem::parseModule(StringRef text,
                                                MLIRContext *context,
                                                StringRef name) {
  std::optional<size_t> place = findMalformedList(text);
  if (!place)
    return parseSourceString<ModuleOp>(text, context, name);
  StringRef before = text.take_front(*place);
  unsigned line = before.count('\n') + 1;
  unsigned column = before.size() - (before.rfind('\n') + 1) + 1;
  emitError(FileLineColLoc::get(context, name, line, column))
      << "expected a list of dimensions, such as [0, 1]";
  return {};
}
