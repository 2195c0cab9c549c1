//===- Library.cpp - Built-in graphs and strategies -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the search for graphs and strategies.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/Library.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace tandem;

static const LibraryFile graphs[] = {
#include "Graphs.inc"
};

static const LibraryFile strategies[] = {
#include "Strategies.inc"
};

static const LibraryFile layers[] = {
#include "Layers.inc"
};

static const LibraryFile recipes[] = {
#include "Recipes.inc"
};

ArrayRef<LibraryFile> tandem::getBuiltinGraphs() { return graphs; }
ArrayRef<LibraryFile> tandem::getBuiltinLayers() { return layers; }
ArrayRef<LibraryFile> tandem::getBuiltinRecipes() { return recipes; }
ArrayRef<LibraryFile> tandem::getBuiltinStrategies() { return strategies; }

std::optional<LibraryText>
tandem::findInLibrary(StringRef name, ArrayRef<std::string> directories,
                      ArrayRef<LibraryFile> builtin) {
  for (const std::string &directory : directories) {
    SmallString<128> path(directory);
    sys::path::append(path, name + ".mlir");
    if (auto buffer = MemoryBuffer::getFile(path))
      return LibraryText{path.str().str(), (*buffer)->getBuffer().str()};
  }
  for (const LibraryFile &file : builtin)
    if (file.name == name)
      return LibraryText{file.name.str() + ".mlir", file.text.str()};
  return std::nullopt;
}

std::string tandem::listNames(ArrayRef<LibraryFile> files) {
  return join(
      map_range(files, [](const LibraryFile &file) { return file.name; }),
      ", ");
}

std::string tandem::suggestName(StringRef name, ArrayRef<LibraryFile> files) {
  unsigned most = std::max<unsigned>(1, name.size() / 3);
  const LibraryFile *found = nullptr;
  for (const LibraryFile &file : files) {
    unsigned distance = name.edit_distance_insensitive(
        file.name, /*AllowReplacements=*/true, most);
    if (distance > most)
      continue;
    most = distance - (distance > 0);
    found = &file;
  }
  return found ? (" (did you mean '" + found->name + "'?)").str() : "";
}

/// Returns the length of the first sentence. A full stop before a small letter
/// or a digit belongs to an abbreviation.
static size_t getSentenceLength(StringRef text) {
  for (size_t at = text.find(". "); at != StringRef::npos;
       at = text.find(". ", at + 1))
    if (isUpper(text[at + 2]))
      return at + 1;
  return text.size();
}

std::string tandem::summarize(const LibraryFile &file) {
  std::string comment;
  SmallVector<StringRef> lines;
  file.text.split(lines, '\n');
  for (StringRef line : lines) {
    if (line.consume_front("//"))
      comment += (comment.empty() ? "" : " ") + line.trim().str();
    else if (!comment.empty())
      break;
  }
  return comment.substr(0, getSentenceLength(comment));
}
