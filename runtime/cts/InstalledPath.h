//===- InstalledPath.h - Libraries next to the tests ------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file finds the libraries that the tests load after the tests and the
// libraries were copied to another machine. CMake includes it before sources.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_INSTALLEDPATH_H
#define TANDEM_RUNTIME_CTS_INSTALLEDPATH_H

#include <climits>
#include <string>
#include <unistd.h>

namespace tandem::cts {

/// Returns the path of a library in the directory lib next to the program's
/// directory.
inline std::string installedPath(const char *name) {
  char program[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", program, sizeof(program));
  std::string path(program, length > 0 ? static_cast<size_t>(length) : 0);
  path.resize(path.rfind('/') + 1);
  return path + "../lib/" + name;
}

} // namespace tandem::cts

#endif // TANDEM_RUNTIME_CTS_INSTALLEDPATH_H
