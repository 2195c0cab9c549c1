//===- Package.h - Packages -------------------------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares an open package: its checked bytes, and the descriptions
// of its kernels.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LIB_PACKAGE_H
#define TANDEM_RUNTIME_LIB_PACKAGE_H

#include "Failure.h"
#include "Package_generated.h"
#include "tandem-runtime/tandem_package.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::runtime {

/// The start of a package.
struct PackageHeader {
  char magic[8];
  uint32_t version;
  uint32_t headerSize;
  uint64_t contentSize;
  uint64_t zero;
  uint8_t digest[32];
};
static_assert(sizeof(PackageHeader) == 64);

constexpr std::string_view packageMagic("\x89TANDEM\n", 8);

/// The bytes of a file, aligned for the numbers of a FlatBuffer.
class AlignedBytes {
public:
  explicit AlignedBytes(size_t size) : words(size / 8 + 1), count(size) {}

  uint8_t *data() { return reinterpret_cast<uint8_t *>(words.data()); }
  const uint8_t *data() const {
    return reinterpret_cast<const uint8_t *>(words.data());
  }
  size_t size() const { return count; }

private:
  std::vector<uint64_t> words;
  size_t count;
};

/// A kernel of a package, as the C interface describes it. Strings and images
/// point into the package.
class PackedKernel {
public:
  PackedKernel(const package::Kernel &kernel, uint32_t version);
  PackedKernel(const PackedKernel &) = delete;

  const tdm_kernel_info &getInfo() const { return info; }

private:
  void addArguments(const package::Kernel &kernel);
  void addParts(const package::Kernel &kernel);

  std::vector<tdm_plane_desc> planes;
  std::vector<tdm_hyper_desc> hypers;
  std::vector<tdm_integer_desc> integers;
  std::vector<tdm_reduction_desc> reductions;
  std::vector<tdm_part_info> phases, epilogues;
  std::vector<uint32_t> reductionGranularities, fusedWithPrevious;
  std::vector<tdm_image> images;
  std::vector<tdm_tensor_info> tensors;
  std::vector<tdm_external_desc> externals;
  tdm_kernel_desc desc = {};
  tdm_kernel_info info = {};
};

/// A package whose bytes passed all checks.
class Package {
public:
  /// Checks \p bytes and creates \p package from them. Messages begin with
  /// \p name. \p isHashed is whether the caller has compared a hash of them.
  static tdm_status read(AlignedBytes bytes, std::string name,
                         std::unique_ptr<const Package> &package,
                         bool isHashed = false);

  const char *getCompiler() const { return compiler; }
  size_t getNumKernels() const { return kernels.size(); }
  const PackedKernel &getKernel(size_t index) const { return *kernels[index]; }

  /// Finds a kernel by its name, or the only one if \p kernel is NULL.
  tdm_status find(const char *kernel, uint32_t &index) const;

  /// Returns a failure whose message begins with the package's name.
  Failure fail(tdm_status status) const;
  /// Prepends the package's name to the latest failure's message.
  tdm_status failAgain(tdm_status status) const;

private:
  Package(AlignedBytes bytes, std::string name)
      : bytes(std::move(bytes)), name(std::move(name)) {}

  tdm_status checkHeader(const PackageHeader &header) const;
  tdm_status checkHash(const PackageHeader &header) const;
  tdm_status checkVersion(const PackageHeader &header) const;
  tdm_status checkContent(const PackageHeader &header) const;
  tdm_status addKernels(const package::Package &content);
  tdm_status addKernel(const package::Kernel &kernel);

  AlignedBytes bytes;
  std::string name;
  const char *compiler = "";
  uint32_t version = 0;
  std::vector<std::unique_ptr<PackedKernel>> kernels;
};

} // namespace tandem::runtime

/// The C interface's handle.
struct tdm_package {
  std::unique_ptr<const tandem::runtime::Package> package;
};

#endif // TANDEM_RUNTIME_LIB_PACKAGE_H
