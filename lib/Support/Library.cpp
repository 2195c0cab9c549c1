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
