//===- TemporaryFile.cpp - Files for other programs -----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements temporary files.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/TemporaryFile.h"
#include "tandem/Support/CompilerError.h"
#include "tandem/Support/PendingFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace tandem;

llvm::Error TemporaryFile::create(llvm::StringRef suffix) {
  if (auto error = llvm::sys::fs::createTemporaryFile("tandem", suffix, path))
    return ErrorBuilder(TandemErrorIO)
           << "no temporary file can be made: " + error.message() +
                  "; set TMPDIR to a directory with room";
  remover.setFile(path);
  return llvm::Error::success();
}

llvm::Error TemporaryFile::write(llvm::StringRef bytes) const {
  if (llvm::Error error = writeWholeFile(path, bytes))
    return ErrorBuilder(TandemErrorIO)
           << "cannot write '" << Named{TDM_MESSAGE_FILE, path}
           << "': " + llvm::toString(std::move(error)) +
                  "; set TMPDIR to a directory with room";
  return llvm::Error::success();
}

llvm::Expected<std::string> TemporaryFile::read() const {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return ErrorBuilder(TandemErrorIO)
           << "cannot read '" << Named{TDM_MESSAGE_FILE, path}
           << "': " + buffer.getError().message();
  return (*buffer)->getBuffer().str();
}
