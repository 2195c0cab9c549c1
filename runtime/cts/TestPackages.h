//===- TestPackages.h - Packages written by hand ----------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares packages for tests, written with only the schema.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_TESTPACKAGES_H
#define TANDEM_RUNTIME_CTS_TESTPACKAGES_H

#include "Package_generated.h"
#include "TestISA.h"
#include "tandem-runtime/tandem_package.h"

#include <string>

namespace tandem::cts {

/// Returns a package without code that has a kernel `count` with one plane of
/// bytes, a hyperparameter and a step.
package::PackageT describeCount();

/// Returns the shared library whose tandem_count adds \p step, 1 or 2, to each
/// byte.
std::string readCode(int step);

/// The numbers of TDM_NUMBERED_IMAGE_KINDS, and the number of images that name
/// their kind.
enum : uint8_t { packedPTX, packedCubin, packedLibrary, packedByName };

/// Adds an image for an instruction set, with the right hash.
void addImage(package::PackageT &package, const std::string &data,
              const std::string &target = thisISA);

/// Returns the bytes of a FlatBuffer of \p package.
std::string pack(const package::PackageT &package);

/// Returns \p content after a header with the right checksum.
std::string addHeader(const std::string &content,
                      uint32_t version = TDM_PACKAGE_VERSION);

/// Returns the bytes of a file of \p package.
inline std::string write(const package::PackageT &package) {
  return addHeader(pack(package));
}

/// Opens bytes as package "test", and closes it at the end.
class OpenPackage {
public:
  explicit OpenPackage(const std::string &bytes)
      : status(tdm_package_open_memory(bytes.data(), bytes.size(), "test",
                                       &package)) {}
  explicit OpenPackage(const package::PackageT &package)
      : OpenPackage(write(package)) {}
  ~OpenPackage() { tdm_package_close(package); }
  OpenPackage(const OpenPackage &) = delete;
  operator tdm_package *() const { return package; }

private:
  tdm_package *package = nullptr;

public:
  const tdm_status status;
};

} // namespace tandem::cts

#endif // TANDEM_RUNTIME_CTS_TESTPACKAGES_H
