//===- KernelCache.cpp - Kernels that were compiled before ----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the compiler's use of the cache on disk.
//
//===----------------------------------------------------------------------===//

#include "KernelCache.h"
#include "Session.h"
#include "tandem/Support/BuildIdentity.h"
#include "tandem/Support/Library.h"
#include "tandem/Target/Package.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/SHA256.h"
#include "llvm/TargetParser/Host.h"
#include <set>

using namespace mlir;
using namespace tandem;

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

namespace {
/// A hash of a list of texts and numbers. Each is preceded by its length, so
/// that no two lists have the same bytes.
class FieldHash {
public:
  FieldHash &add(StringRef field) {
    addNumber(field.size());
    hash.update(field);
    return *this;
  }
  FieldHash &add(const std::vector<std::string> &fields) {
    addNumber(fields.size());
    for (const std::string &field : fields)
      add(field);
    return *this;
  }
  FieldHash &addNumber(uint64_t number) {
    std::array<uint8_t, 8> bytes;
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<uint8_t>(number >> (8 * i));
    hash.update(ArrayRef(bytes));
    return *this;
  }
  KernelKey finish() { return hash.final(); }

private:
  llvm::SHA256 hash;
};
} // namespace

/// Describes the processor that code is compiled for and runs on.
static std::string describeProcessor() {
  std::vector<std::string> features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    features.push_back((feature.second ? "+" : "-") + feature.first().str());
  llvm::sort(features);
  return llvm::sys::getProcessTriple() + " " +
         llvm::sys::getHostCPUName().str() + " " + llvm::join(features, ",");
}

/// Returns the versions of everything that a kernel is compiled with in this
/// process.
static const std::string &getCompiler() {
  static const std::string compiler =
      "tandem " TANDEM_VERSION ", LLVM " LLVM_VERSION_STRING ", package " +
      std::to_string(TDM_PACKAGE_VERSION) + ", " + describeProcessor();
  return compiler;
}

/// Returns the identities of the builds of Tandem, MLIR and LLVM, and of the
/// libraries with targets. Returns none if one of them has no identity.
static std::optional<std::vector<std::string>> getBuilds() {
  auto getAddress = [](auto *function) {
    return reinterpret_cast<const void *>(function);
  };
  std::vector<const void *> addresses = {
      getAddress(&getBuilds), getAddress(&mlir::registerMLIRContextCLOptions),
      getAddress(&llvm::sys::getHostCPUName)};
  // The table of virtual functions is in the library that has the target.
  forEachTarget([&](const Target &target) {
    addresses.push_back(*reinterpret_cast<const void *const *>(&target));
  });
  std::set<std::string> builds;
  for (const void *address : addresses)
    builds.insert(getBuildIdentity(address));
  if (builds.count(""))
    return std::nullopt;
  return std::vector<std::string>(builds.begin(), builds.end());
}

/// Returns the text of the strategy if it is in a file; the built-in ones are a
/// part of the build.
static std::string getStrategyFile(const CompileOptions &options) {
  if (options.strategy.empty())
    return "";
  auto file = findInLibrary(options.strategy, options.path, {});
  return file ? file->text : "";
}

static void addOptions(const CompileOptions &options, FieldHash &hash) {
  hash.add(options.function).add(options.strategy).add(options.strategyTitle);
  hash.add(options.target).add(options.isa).addNumber(options.width);
  hash.addNumber(options.weightAverage).addNumber(options.weightOperand);
  hash.addNumber(options.metrics).addNumber(options.flags);
  hash.addNumber(options.rules.size());
  for (const CompileOptions::Rule &rule : options.rules)
    hash.addNumber(uint64_t(rule.kind)).add(rule.name).add(rule.storage);
  hash.add(options.compute);
}

std::optional<KernelKey> KernelEntry::findKey() const {
  const Target *target = findTarget(options.target);
  if (!target->isCacheable(options.target) || !tdm_cache_is_enabled())
    return std::nullopt;
  auto builds = getBuilds();
  if (!builds)
    return std::nullopt;
  FieldHash hash;
  hash.add(getCompiler()).add(*builds).add(text);
  addOptions(options, hash);
  hash.add(getStrategyFile(options));
  return hash.finish();
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

namespace {
/// The loaded code of an entry.
class CachedCode : public HostCode {
public:
  explicit CachedCode(std::shared_ptr<const tdm_cached_kernel> kernel)
      : kernel(std::move(kernel)) {}

  llvm::Expected<void *> lookup(llvm::StringRef symbol) override {
    if (void *code = tdm_cached_kernel_find(kernel.get(), symbol.str().c_str()))
      return code;
    return llvm::createStringError("the cached code has no function " + symbol);
  }

private:
  std::shared_ptr<const tdm_cached_kernel> kernel;
};
} // namespace

std::unique_ptr<CompiledKernel> KernelEntry::read() const {
  tdm_cached_kernel *opened = nullptr;
  if (!key || tdm_cached_kernel_open(key->data(), &opened) != TDM_OK || !opened)
    return nullptr;
  std::shared_ptr<const tdm_cached_kernel> kernel(opened,
                                                  tdm_cached_kernel_close);
  auto result = std::make_unique<CompiledKernel>();
  result->info = {kernel, tdm_cached_kernel_info(opened)};
  result->width = options.width;
  result->target = options.target;
  if (findTarget(options.target)->hasImages()) {
    result->image = result->info->images;
    return result;
  }
  result->code = std::make_unique<CachedCode>(std::move(kernel));
  if (llvm::Error error = findCode(*result)) {
    llvm::consumeError(std::move(error));
    return nullptr;
  }
  return result;
}

void KernelEntry::write(const CompiledKernel &kernel,
                        const Image &image) const {
  if (!key || image.data.empty() || findKey() != key)
    return;
  std::string package = writePackage(kernel, image);
  tdm_cached_kernel_store(key->data(), package.data(), package.size());
}
