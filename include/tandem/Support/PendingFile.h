//===- PendingFile.h - Files that are written atomically --------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares files that appear under their names when they are
// complete.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_PENDINGFILE_H
#define TANDEM_SUPPORT_PENDINGFILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <utility>

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace tandem {

/// Returns the file that a path is a symbolic link to, in any number of steps,
/// or the path itself. Writing under a link's name is to replace that file, and
/// not the link.
std::string followLinks(llvm::StringRef path);

/// A file that has its name only after commit(), and is removed without it. A
/// process that is killed leaves the previous file, and perhaps a file
/// `.tandem-*.tmp` next to it, which nothing reads.
class PendingFile {
public:
  explicit PendingFile(llvm::StringRef path) : path(followLinks(path)) {}
  PendingFile(PendingFile &&other)
      : path(std::move(other.path)),
        temporary(std::exchange(other.temporary, {})) {}
  ~PendingFile() { discard(); }

  /// Fills the temporary file, which is next to the final one. A failure of the
  /// system is returned as an ECError; other errors are those of `print`.
  llvm::Error write(llvm::function_ref<llvm::Error(llvm::raw_ostream &)> print);

  /// Gives the file its name and atomically replaces another one of that name.
  llvm::Error commit();

private:
  llvm::Expected<int> open();
  void discard();

  std::string path;
  std::string temporary;
};

/// Writes these bytes into a file that appears complete or not at all.
llvm::Error writeWholeFile(llvm::StringRef path, llvm::StringRef bytes);

} // namespace tandem

#endif // TANDEM_SUPPORT_PENDINGFILE_H
