//===- PendingFile.cpp - Files that appear whole --------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements files that appear under their names once they are
// complete.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/PendingFile.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"
#include <atomic>

using namespace llvm;
using namespace tandem;

std::string tandem::followLinks(StringRef path) {
  SmallString<128> target;
  if (sys::fs::is_symlink_file(path) && !sys::fs::real_path(path, target))
    return std::string(target);
  return path.str();
}

/// Refuses anything but a regular file or a new one: the rename would replace a
/// device or a pipe by a file.
static std::error_code checkTarget(StringRef path) {
  sys::fs::file_status status;
  if (sys::fs::status(path, status) || sys::fs::is_regular_file(status))
    return {};
  return std::make_error_code(sys::fs::is_directory(status)
                                  ? std::errc::is_a_directory
                                  : std::errc::not_supported);
}

Expected<int> PendingFile::open() {
  static std::atomic<unsigned> count{0};
  std::error_code code = checkTarget(path);
  if (code)
    return errorCodeToError(code);
  int descriptor;
  do {
    SmallString<128> name(sys::path::parent_path(path));
    sys::path::append(name, ".tandem-" + Twine(sys::Process::getProcessId()) +
                                "-" + Twine(count++) + ".tmp");
    code = sys::fs::openFileForWrite(name, descriptor, sys::fs::CD_CreateNew);
    if (!code)
      temporary = name.str().str();
  } while (code == std::errc::file_exists);
  if (code)
    return errorCodeToError(code);
  sys::RemoveFileOnSignal(temporary);
  return descriptor;
}

Error PendingFile::write(function_ref<Error(raw_ostream &)> print) {
  Expected<int> descriptor = open();
  if (!descriptor)
    return descriptor.takeError();
  raw_fd_ostream os(*descriptor, /*shouldClose=*/true);
  Error error = print(os);
  os.close();
  std::error_code code = os.error();
  os.clear_error(); // Otherwise the stream would end the process.
  if (error)
    return error;
  return errorCodeToError(code);
}

Error PendingFile::commit() {
  if (std::error_code code = sys::fs::rename(temporary, path))
    return errorCodeToError(code);
  sys::DontRemoveFileOnSignal(temporary);
  temporary.clear();
  return Error::success();
}

void PendingFile::discard() {
  if (temporary.empty())
    return;
  sys::fs::remove(temporary);
  sys::DontRemoveFileOnSignal(temporary);
}

Error tandem::writeWholeFile(StringRef path, StringRef bytes) {
  PendingFile file(path);
  Error error = file.write([&](raw_ostream &os) {
    os << bytes;
    return Error::success();
  });
  return error ? std::move(error) : file.commit();
}
