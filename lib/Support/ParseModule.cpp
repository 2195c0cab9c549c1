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

/// Whether what follows is in the braces behind linalg.generic, or behind the
/// name of such a dictionary. (In MLIR's generic form the name is in quotes.)
static bool isInCustomForm(StringRef before) {
  unsigned closed = 0;
  for (; !before.empty(); before = before.drop_back()) {
    if (before.back() == '}')
      ++closed;
    else if (before.back() == '{' && closed-- == 0)
      break;
  }
  before = before.drop_back(!before.empty()).rtrim();
  return before.ends_with("linalg.generic") || before.ends_with("=");
}

static bool isListOfNumbers(StringRef text) {
  static const llvm::Regex list("^\\[[ \t\r\n]*([0-9]{1,18}([ \t\r\n]*,"
                                "[ \t\r\n]*[0-9]{1,18})*)?[ \t\r\n]*\\]");
  return list.match(text);
}

static bool isListOfStrings(StringRef text) {
  static const llvm::Regex list(
      "^\\[[ \t\r\n]*(\"[^\"\n]*\"([ \t\r\n]*,[ \t\r\n]*\"[^\"\n]*\")*)?"
      "[ \t\r\n]*\\]");
  return list.match(text);
}

std::optional<MalformedList> mlir::tandem::findMalformedList(StringRef text) {
  if (!text.contains("linalg."))
    return std::nullopt;
  static const llvm::Regex keyword(
      "(^|[^A-Za-z0-9_.$])(dimensions|permutation|iterator_types)\"?"
      "[ \t\r\n]*=[ \t\r\n]*");
  std::string blank = blankComments(text);
  StringRef rest = blank;
  SmallVector<StringRef> match;
  while (keyword.match(rest, &match)) {
    StringRef before(blank.data(), match[2].begin() - blank.data());
    rest = rest.substr(match[0].end() - rest.begin());
    size_t place = rest.begin() - blank.data();
    if (match[2] == "iterator_types") {
      if (!isListOfStrings(rest) && isInCustomForm(before))
        return MalformedList{place, "iterators, such as [\"parallel\"]"};
      continue;
    }
    // Behind a brace or a comma it is an attribute of a dictionary, such as
    // the generic form's, whose parser is sound.
    if (!before.rtrim().ends_with("{") && !before.rtrim().ends_with(",") &&
        !isListOfNumbers(rest))
      return MalformedList{place, "dimensions, such as [0, 1]"};
  }
  return std::nullopt;
}

OwningOpRef<ModuleOp> mlir::tandem::parseModule(StringRef text,
                                                MLIRContext *context,
                                                StringRef name) {
  std::optional<MalformedList> list = findMalformedList(text);
  if (!list)
    return parseSourceString<ModuleOp>(text, context, name);
  StringRef before = text.take_front(list->place);
  unsigned line = before.count('\n') + 1;
  unsigned column = before.size() - (before.rfind('\n') + 1) + 1;
  emitError(FileLineColLoc::get(context, name, line, column))
      << "expected a list of " << list->expected;
  return {};
}
