//===- Library.h - Built-in graphs and strategies ---------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares access to the graphs and strategies that are built into
// the compiler, and the search for others in files.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_LIBRARY_H
#define TANDEM_SUPPORT_LIBRARY_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace tandem {

/// One file of the library.
struct LibraryFile {
  llvm::StringRef name;
  llvm::StringRef text;
};

/// Return the .mlir files of lib/Graphs (optimizers) and lib/Strategies
/// (storages of the tensors that they update), named without their suffix.
llvm::ArrayRef<LibraryFile> getBuiltinGraphs();
llvm::ArrayRef<LibraryFile> getBuiltinStrategies();
/// Return the files of lib/Layers (layers with their backward passes) and
/// lib/Recipes (storages for what is kept between the passes).
llvm::ArrayRef<LibraryFile> getBuiltinLayers();
llvm::ArrayRef<LibraryFile> getBuiltinRecipes();

/// A text, and the file that messages about it name.
struct LibraryText {
  std::string file;
  std::string text;
};

/// Returns the text of `<directory>/<name>.mlir` in the first directory that
/// has it, otherwise that of the built-in file of that name.
std::optional<LibraryText>
findInLibrary(llvm::StringRef name, llvm::ArrayRef<std::string> directories,
              llvm::ArrayRef<LibraryFile> builtin);

/// Returns the names of all built-in files, for diagnostics: "a, b, c".
std::string listNames(llvm::ArrayRef<LibraryFile> files);

/// Returns the built-in file whose name is most like one that does not exist,
/// for diagnostics: " (did you mean 'a'?)". It is empty if none is alike.
std::string suggestName(llvm::StringRef name,
                        llvm::ArrayRef<LibraryFile> files);

/// Returns the first sentence of the comment at the top of a file.
std::string summarize(const LibraryFile &file);

} // namespace tandem

#endif // TANDEM_SUPPORT_LIBRARY_H
