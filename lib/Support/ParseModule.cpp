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
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace tandem;

/// The limit on the nesting of brackets, far deeper than any graph or kernel
/// needs.
static constexpr unsigned maxNesting = 256;

/// The limit on the additions and signs of an affine map or set. The maps of
/// graphs have only a few.
static constexpr unsigned maxSigns = 1024;

namespace {
/// Tells the characters inside of string literals from those outside.
class StringTracker {
public:
  /// Consumes the next character and returns whether it is inside of a string.
  /// The closing quotation mark is outside, and a string never extends to the
  /// next line.
  bool isInString(char c) {
    if (c == '"' && !isEscaped)
      isString = !isString;
    isEscaped = isString && c == '\\' && !isEscaped;
    isString &= c != '\n';
    return isString;
  }

private:
  bool isString = false, isEscaped = false;
};
} // namespace

/// Returns the text with comments replaced by spaces, which keeps the positions
/// of all other characters.
static std::string blankComments(StringRef text) {
  std::string blank = text.str();
  StringTracker strings;
  for (size_t i = 0; i < blank.size(); ++i) {
    if (!strings.isInString(blank[i]) && blank.compare(i, 2, "//") == 0)
      for (; i < blank.size() && blank[i] != '\n'; ++i)
        blank[i] = ' ';
  }
  return blank;
}

/// Returns whether what follows `before` is in the braces after linalg.generic,
/// or in a dictionary after `NAME =`. (In MLIR's generic form, the operation's
/// name is in quotes.)
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

/// Follows an alias, such as `#map` or `!type`, at the start of `text`: returns
/// its definition in `before`, or an empty string if it is not defined there.
/// Returns `text` itself if it does not start with an alias.
static StringRef followAlias(StringRef text, StringRef before) {
  if (!text.starts_with("!") && !text.starts_with("#"))
    return text;
  StringRef name = text.take_until(
      [](char c) { return StringRef(" \t\r\n,)}=").contains(c); });
  SmallVector<StringRef> match;
  llvm::Regex definition("(^|\n)[ \t]*" + llvm::Regex::escape(name) +
                         "[ \t\r\n]*=[ \t\r\n]*");
  return definition.match(before, &match)
             ? before.substr(match[0].end() - before.begin())
             : StringRef();
}

static bool isListOfStrings(StringRef text, StringRef before) {
  static const llvm::Regex list(
      "^\\[[ \t\r\n]*(\"[^\"\n]*\"([ \t\r\n]*,[ \t\r\n]*\"[^\"\n]*\")*)?"
      "[ \t\r\n]*\\]");
  return list.match(followAlias(text, before));
}

/// Returns the text after the brace that closes the open one.
static StringRef skipBraces(StringRef text) {
  for (unsigned open = 1; open && !text.empty(); text = text.drop_front())
    open += text.front() == '{' ? 1 : text.front() == '}' ? -1 : 0;
  return text;
}

/// Returns whether the text starts with a type of one of the kinds, or with an
/// alias of one.
static bool isType(StringRef text, StringRef before, StringRef kinds) {
  return llvm::Regex("^(" + kinds.str() + ")<")
      .match(followAlias(text, before));
}

/// Returns whether the operation in the braces of linalg.reduce or linalg.map
/// is followed by operands, and the first type of each list is a tensor or
/// memref.
static bool isReductionOfTensors(StringRef text, StringRef before) {
  static const llvm::Regex operands(
      "(^|[^A-Za-z0-9_])(ins|outs)[ \t\r\n]*\\([^():]*:?[ \t\r\n]*");
  text = skipBraces(text);
  text =
      text.take_front(std::min(text.find("dimensions"), text.find("linalg.")));
  bool hasOperands = false;
  SmallVector<StringRef> match;
  while (operands.match(text, &match)) {
    text = text.substr(match[0].end() - text.begin());
    if (!isType(text, before, "tensor|memref"))
      return false;
    hasOperands = true;
  }
  return hasOperands;
}

static bool isShuffleOfVectors(StringRef text, StringRef before) {
  static const llvm::Regex operands("^[^:]*:[ \t\r\n]*");
  SmallVector<StringRef> match;
  return operands.match(text, &match) &&
         isType(text.drop_front(match[0].size()), before, "vector");
}

/// Returns a description of the syntax that must follow the keyword, or an
/// empty string if `text` has it.
static StringRef findMissing(StringRef keyword, StringRef before,
                             StringRef text) {
  if (keyword.starts_with("iterator_types"))
    return isListOfStrings(text, before) || !isInCustomForm(before)
               ? ""
               : "a list of iterators, such as [\"parallel\"]";
  if (keyword.starts_with("vector.shuffle"))
    return isShuffleOfVectors(text, before) ? "" : "two vectors";
  if (keyword.starts_with("linalg"))
    return isReductionOfTensors(text, before)
               ? ""
               : "an operation in braces, ins(...) and outs(...) of tensors";
  // After a brace or a comma, the keyword is an attribute in a dictionary, as
  // in the generic form, whose parser is sound.
  bool isInDictionary =
      before.rtrim().ends_with("{") || before.rtrim().ends_with(",");
  return isInDictionary || isListOfNumbers(text)
             ? ""
             : "a list of dimensions, such as [0, 1]";
}

/// Returns the position at which brackets are nested `limit` deep. MLIR's
/// parser recurses at each of them and would overflow the stack. Characters
/// that are not brackets, as in `->` and `<=`, do not count.
static std::optional<size_t> findDeepNesting(StringRef blank, unsigned limit) {
  unsigned open = 0;
  StringTracker strings;
  for (size_t i = 0; i < blank.size(); ++i) {
    bool isString = strings.isInString(blank[i]);
    bool isArrow = blank[i] == '>' && i > 0 && blank[i - 1] == '-';
    bool isComparison = StringRef(blank).substr(i, 2) == "<=";
    if (isString || isArrow || isComparison)
      continue;
    if (StringRef("([{<").contains(blank[i]) && ++open > limit)
      return i;
    if (StringRef(")]}>").contains(blank[i]) && open)
      --open;
  }
  return std::nullopt;
}

/// Returns the position at which an affine map or set has too many additions
/// and signs. `map` starts after its opening bracket.
static std::optional<size_t> findManySigns(StringRef map) {
  unsigned open = 1, signs = 0;
  for (size_t i = 0; i < map.size() && open; ++i) {
    StringRef pair = map.substr(i, 2);
    if (pair == "->" || pair == ">=" || pair == "<=")
      ++i;
    else if ((pair[0] == '+' || pair[0] == '-') && ++signs > maxSigns)
      return i;
    else
      open += pair[0] == '<' ? 1 : pair[0] == '>' ? -1 : 0;
  }
  return std::nullopt;
}

/// Returns the position at which any affine map or set has too many additions
/// and signs. MLIR's parser recurses at each of these, too.
static std::optional<size_t> findLongExpression(StringRef blank) {
  for (StringRef keyword : {"affine_map<", "affine_set<"})
    for (size_t place = blank.find(keyword); place != StringRef::npos;
         place = blank.find(keyword, place)) {
      place += keyword.size();
      if (std::optional<size_t> end = findManySigns(blank.drop_front(place)))
        return place + *end;
    }
  return std::nullopt;
}

std::optional<MalformedText> tandem::findMalformedText(StringRef text) {
  static const llvm::Regex keyword(
      "(^|[^A-Za-z0-9_.$])"
      "(((dimensions|permutation|iterator_types)\"?[ \t\r\n]*=[ \t\r\n]*)|"
      "((linalg\\.reduce|linalg\\.map)[ \t\r\n]*\\{)|(vector\\.shuffle[ "
      "\t]+))");
  std::string blank = blankComments(text);
  if (std::optional<size_t> place = findDeepNesting(blank, maxNesting))
    return MalformedText{*place, "no more than 256 brackets within each other"};
  if (std::optional<size_t> place = findLongExpression(blank))
    return MalformedText{*place, "no more than 1024 additions and signs in an "
                                 "affine map or set"};
  if (!text.contains("linalg.") && !text.contains("vector."))
    return std::nullopt;
  StringRef rest = blank;
  SmallVector<StringRef> match;
  while (keyword.match(rest, &match)) {
    StringRef before(blank.data(), match[2].begin() - blank.data());
    rest = rest.substr(match[0].end() - rest.begin());
    StringRef expected = findMissing(match[2], before, rest);
    if (!expected.empty())
      return MalformedText{size_t(rest.begin() - blank.data()), expected};
  }
  return std::nullopt;
}

OwningOpRef<ModuleOp> tandem::parseModule(StringRef text, MLIRContext *context,
                                          StringRef name) {
  std::optional<MalformedText> malformed = findMalformedText(text);
  if (!malformed)
    return parseSourceString<ModuleOp>(text, context, name);
  StringRef before = text.take_front(malformed->place);
  unsigned line = before.count('\n') + 1;
  unsigned column = before.size() - (before.rfind('\n') + 1) + 1;
  emitError(FileLineColLoc::get(context, name, line, column))
      << "expected " << malformed->expected;
  return {};
}

Type tandem::parseTypeText(StringRef text, MLIRContext *context) {
  if (findMalformedText(text))
    return {};
  ScopedDiagnosticHandler handler(context,
                                  [](Diagnostic &) { return success(); });
  return parseType(text, context);
}
