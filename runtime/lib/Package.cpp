//===- Package.cpp - Packages ---------------------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the checks of a package's bytes, and its C interface.
//
//===----------------------------------------------------------------------===//

#include "Package.h"
#include "SHA256.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

using namespace tandem;
using namespace tandem::runtime;

/// The maximum size of a FlatBuffer in bytes.
static constexpr uint64_t maxSize = INT32_MAX;

Failure Package::fail(tdm_status status) const {
  Failure failure(status);
  failure << "package '" << name << "': ";
  return failure;
}

tdm_status Package::failAgain(tdm_status status) const {
  std::string reason = lastMessage();
  return fail(status) << reason;
}

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

tdm_status Package::checkVersion(const PackageHeader &header) const {
  if (header.version >= TDM_OLDEST_PACKAGE_VERSION &&
      header.version <= TDM_PACKAGE_VERSION)
    return TDM_OK;
  Failure failure = fail(TDM_INVALID_PACKAGE);
  failure << "has format version " << header.version
          << ", and this runtime reads versions " << TDM_OLDEST_PACKAGE_VERSION
          << " to " << TDM_PACKAGE_VERSION;
  if (header.version > TDM_PACKAGE_VERSION)
    return failure << "; use a newer runtime, or write the package with the "
                      "compiler of this one";
  return failure << "; write it again with a newer compiler";
}

static Digest hash(const PackageHeader &header, const uint8_t *content,
                   size_t size) {
  SHA256 sha;
  sha.add(&header, offsetof(PackageHeader, digest));
  sha.add(content, size);
  return sha.finish();
}

tdm_status Package::checkHeader(const PackageHeader &header) const {
  if (std::memcmp(header.magic, packageMagic.data(), packageMagic.size()))
    return fail(TDM_INVALID_PACKAGE)
           << "is not a package of Tandem; give a file that tandem-translate "
              "--to-package or Kernel.save has written";
  if (tdm_status status = checkVersion(header))
    return status;
  size_t size = bytes.size() - sizeof(header);
  if (header.headerSize != sizeof(header) || header.contentSize > maxSize)
    return fail(TDM_INVALID_PACKAGE)
           << "has a damaged header; copy or write it again";
  if (size < header.contentSize)
    return fail(TDM_INVALID_PACKAGE)
           << "is cut short: " << header.contentSize - size << " of "
           << header.contentSize + sizeof(header)
           << " bytes are missing; copy or write it again";
  if (size > header.contentSize)
    return fail(TDM_INVALID_PACKAGE)
           << "goes on for " << size - header.contentSize
           << " bytes after its end; copy or write it again";
  return TDM_OK;
}

tdm_status Package::checkHash(const PackageHeader &header) const {
  Digest digest = hash(header, bytes.data() + sizeof(header),
                       bytes.size() - sizeof(header));
  if (std::memcmp(header.digest, digest.data(), digest.size()))
    return fail(TDM_INVALID_PACKAGE)
           << "is damaged: its checksum is not that of its bytes; copy or "
              "write it again";
  return TDM_OK;
}

tdm_status Package::checkContent(const PackageHeader &header) const {
  flatbuffers::Verifier verifier(bytes.data() + sizeof(header),
                                 header.contentSize);
  if (package::VerifyPackageBuffer(verifier))
    return TDM_OK;
  return fail(TDM_INVALID_PACKAGE)
         << "has content that does not follow the format, though its checksum "
            "is right; write it again with a compiler of this version";
}

tdm_status Package::addKernels(const package::Package &content) {
  if (content.kernels()->size() == 0)
    return fail(TDM_INVALID_PACKAGE)
           << "has no kernel; write it again with one";
  for (const package::Kernel *kernel : *content.kernels())
    if (tdm_status status = addKernel(*kernel))
      return status;
  return TDM_OK;
}

tdm_status Package::read(AlignedBytes bytes, std::string name,
                         std::unique_ptr<const Package> &package,
                         bool isHashed) {
  std::unique_ptr<Package> result(
      new Package(std::move(bytes), std::move(name)));
  PackageHeader header = {};
  size_t available = std::min(result->bytes.size(), sizeof(header));
  std::memcpy(&header, result->bytes.data(), available);
  if (available < sizeof(header) && available >= packageMagic.size() &&
      !std::memcmp(header.magic, packageMagic.data(), packageMagic.size()))
    return result->fail(TDM_INVALID_PACKAGE)
           << "is cut short: it has " << available << " bytes, and its header "
           << sizeof(header) << "; copy or write it again";
  if (tdm_status status = result->checkHeader(header))
    return status;
  if (!isHashed)
    if (tdm_status status = result->checkHash(header))
      return status;
  if (tdm_status status = result->checkContent(header))
    return status;
  auto *content = package::GetPackage(result->bytes.data() + sizeof(header));
  result->compiler = content->compiler()->c_str();
  result->version = header.version;
  if (tdm_status status = result->addKernels(*content))
    return status;
  package = std::move(result);
  return TDM_OK;
}

tdm_status Package::find(const char *kernel, uint32_t &index) const {
  if (!kernel && kernels.size() == 1) {
    index = 0;
    return TDM_OK;
  }
  for (size_t i = 0; kernel && i < kernels.size(); ++i)
    if (!std::strcmp(kernels[i]->getInfo().name, kernel)) {
      index = static_cast<uint32_t>(i);
      return TDM_OK;
    }
  Failure failure = fail(TDM_INVALID_ARGUMENT);
  if (kernel)
    failure << "has no kernel '" << kernel << "'; it has ";
  else
    failure << "has several kernels; name one of ";
  for (size_t i = 0; i < kernels.size(); ++i)
    failure << (i ? ", " : "") << kernels[i]->getInfo().name;
  return failure;
}

//===----------------------------------------------------------------------===//
// C interface
//===----------------------------------------------------------------------===//

namespace {
/// Closes a file.
struct CloseFile {
  void operator()(std::FILE *file) const { std::fclose(file); }
};
} // namespace

static Failure failFile(const char *path) {
  Failure failure(TDM_INVALID_PACKAGE);
  failure << "package '" << path << "': ";
  return failure;
}

/// Reads the whole file into \p bytes.
static tdm_status readFile(const char *path,
                           std::unique_ptr<AlignedBytes> &bytes) {
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path, "rb"));
  if (!file)
    return failFile(path) << "cannot be opened: " << std::strerror(errno)
                          << "; give the path of a package";
  long size = std::fseek(file.get(), 0, SEEK_END) ? -1 : std::ftell(file.get());
  if (size < 0 || uint64_t(size) > maxSize)
    return failFile(path) << "is not a regular file of at most " << maxSize
                          << " bytes; give the path of a package";
  std::rewind(file.get());
  bytes = std::make_unique<AlignedBytes>(size_t(size));
  if (std::fread(bytes->data(), 1, bytes->size(), file.get()) != bytes->size())
    return failFile(path) << "cannot be read to its end; copy it again";
  return TDM_OK;
}

static tdm_status create(AlignedBytes bytes, const char *name,
                         tdm_package **package) {
  auto handle = std::make_unique<tdm_package>();
  if (tdm_status status =
          Package::read(std::move(bytes), name, handle->package))
    return status;
  *package = handle.release();
  return TDM_OK;
}

tdm_status tdm_package_open(const char *path, tdm_package **package) {
  return guarded("tdm_package_open", [&]() -> tdm_status {
    if (!path || !package)
      return Failure(TDM_INVALID_ARGUMENT)
             << "tdm_package_open: " << (path ? "package" : "path")
             << " is NULL; pass a path, and where to store the package";
    std::unique_ptr<AlignedBytes> bytes;
    if (tdm_status status = readFile(path, bytes))
      return status;
    return create(std::move(*bytes), path, package);
  });
}

tdm_status tdm_package_open_memory(const void *bytes, size_t size,
                                   const char *name, tdm_package **package) {
  return guarded("tdm_package_open_memory", [&]() -> tdm_status {
    if (!bytes || !name || !package)
      return Failure(TDM_INVALID_ARGUMENT)
             << "tdm_package_open_memory: "
             << (!bytes  ? "bytes"
                 : !name ? "name"
                         : "package")
             << " is NULL; pass bytes, a name for messages, and where to store "
                "the package";
    AlignedBytes copy(size);
    std::memcpy(copy.data(), bytes, size);
    return create(std::move(copy), name, package);
  });
}

void tdm_package_close(tdm_package *package) { delete package; }

const char *tdm_package_compiler(const tdm_package *package) {
  return package ? package->package->getCompiler() : "";
}

uint32_t tdm_package_num_kernels(const tdm_package *package) {
  return package ? static_cast<uint32_t>(package->package->getNumKernels()) : 0;
}

tdm_status tdm_package_kernel(const tdm_package *package, uint32_t index,
                              tdm_kernel_info *info) {
  if (!package || !info)
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_package_kernel: " << (package ? "info" : "package")
           << " is NULL; pass a package, and where to store what it says";
  const Package &opened = *package->package;
  if (info->struct_size != sizeof(tdm_kernel_info))
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_package_kernel: struct_size is " << info->struct_size
           << " but this runtime's is " << sizeof(tdm_kernel_info)
           << "; set it to sizeof(tdm_kernel_info) of the matching header";
  if (index >= opened.getNumKernels())
    return opened.fail(TDM_INVALID_ARGUMENT)
           << "has no kernel number " << index << "; it has "
           << opened.getNumKernels();
  *info = opened.getKernel(index).getInfo();
  return TDM_OK;
}

tdm_status tdm_package_find(const tdm_package *package, const char *name,
                            uint32_t *index) {
  if (!package || !index)
    return Failure(TDM_INVALID_ARGUMENT)
           << "tdm_package_find: " << (package ? "index" : "package")
           << " is NULL; pass a package, and where to store the number";
  return package->package->find(name, *index);
}
