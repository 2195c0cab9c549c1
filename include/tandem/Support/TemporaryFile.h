//===- TemporaryFile.h - Files for other programs ---------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares files that exist while a linker or an assembler needs
// them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_SUPPORT_TEMPORARYFILE_H
#define TANDEM_SUPPORT_TEMPORARYFILE_H

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileUtilities.h"

namespace tandem {

/// A file that is deleted with this object.
class TemporaryFile {
public:
  /// Makes an empty file whose name ends in `.suffix`.
  llvm::Error create(llvm::StringRef suffix);

  llvm::Error write(llvm::StringRef bytes) const;
  llvm::Expected<std::string> read() const;

  const char *getPath() { return path.c_str(); }

private:
  llvm::SmallString<128> path;
  llvm::FileRemover remover;
};

} // namespace tandem

#endif // TANDEM_SUPPORT_TEMPORARYFILE_H
