//===- PackageFormatTest.cpp - Tests of refused packages ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests that files are refused that are damaged, truncated, not
// packages or of another version.
//
//===----------------------------------------------------------------------===//

#include "TestKernels.h"
#include "TestPackages.h"

#include <cstring>

using namespace tandem;
using namespace tandem::cts;

/// Expects that \p bytes are refused with a message that contains \p part and
/// names the package.
static void expectRefused(const std::string &bytes, const std::string &part) {
  OpenPackage package(bytes);
  expectFailureSaying(package.status, TDM_INVALID_PACKAGE, part);
  EXPECT_EQ(std::string(tdm_last_error()).rfind("package 'test': ", 0), 0u)
      << tdm_last_error();
  EXPECT_EQ(static_cast<tdm_package *>(package), nullptr);
}

TEST(PackageFormatTest, OpensWhatFollowsIt) {
  OpenPackage package(describeCount());
  EXPECT_EQ(package.status, TDM_OK) << tdm_last_error();
}

TEST(PackageFormatTest, RefusesForeignFiles) {
  const std::string message = "is not a package of Tandem; give a file that "
                              "tandem-translate --to-package or Kernel.save";
  expectRefused("", message);
  expectRefused("\x89", message);
  expectRefused(std::string(64, '\0'), message);
  expectRefused("#!/usr/bin/env python3\nimport tandem\n", message);
  expectRefused(readCode(1), message);
  std::string bytes = write(describeCount());
  bytes[7] = '\r';
  expectRefused(bytes, message);
}

TEST(PackageFormatTest, RefusesOtherVersions) {
  std::string content = pack(describeCount());
  expectRefused(
      addHeader(content, TDM_PACKAGE_VERSION + 1),
      "has format version 6, and this runtime reads versions 4 to 5; use a "
      "newer runtime");
  expectRefused(addHeader(content, 0), "write it again with a newer compiler");
}

TEST(PackageFormatTest, RefusesEveryTruncation) {
  std::string bytes = write(describeCount());
  for (size_t size = 8; size < bytes.size(); ++size)
    expectRefused(bytes.substr(0, size), "is cut short");
  for (size_t size = 0; size < 8; ++size)
    expectRefused(bytes.substr(0, size), "is not a package");
}

TEST(PackageFormatTest, RefusesBytesBehindTheEnd) {
  expectRefused(write(describeCount()) + "more",
                "goes on for 4 bytes after its end");
}

TEST(PackageFormatTest, RefusesEveryFlippedBit) {
  package::PackageT described = describeCount();
  addImage(described, "code");
  std::string bytes = write(described);
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ 1 << bit);
      OpenPackage package(flipped);
      EXPECT_EQ(package.status, TDM_INVALID_PACKAGE) << i << ", bit " << bit;
    }
}

TEST(PackageFormatTest, RefusesContentThatIsNoFlatBuffer) {
  const std::string message = "has content that does not follow the format";
  expectRefused(addHeader(""), message);
  expectRefused(addHeader(std::string(1000, '\xFF')), message);
  std::string content = pack(describeCount());
  expectRefused(addHeader(content.substr(0, content.size() - 8)), message);
}

TEST(PackageFormatTest, RefusesAHeaderOfAnotherSize) {
  std::string bytes = write(describeCount());
  bytes[12] = 72;
  expectRefused(bytes, "has a damaged header");
}

//===----------------------------------------------------------------------===//
// Content
//===----------------------------------------------------------------------===//

/// Expects that the package is refused after a change of its kernel.
template <typename Change>
static void expectKernelRefused(Change change, const std::string &part) {
  package::PackageT package = describeCount();
  change(*package.kernels[0]);
  expectRefused(write(package), part);
}

TEST(PackageFormatTest, RefusesUnknownValues) {
  const std::string message = "describes kernel 'count' by values that the "
                              "format does not know";
  using package::KernelT;
  expectKernelRefused(
      [](KernelT &k) { k.planes[0]->kind = TDM_NUM_VALUES(TDM_ROLES); },
      message);
  expectKernelRefused([](KernelT &k) { k.planes[0]->per = 4; }, message);
  expectKernelRefused([](KernelT &k) { k.integers[0]->kind = 255; }, message);
  expectKernelRefused([](KernelT &k) { k.phases[0]->per = 4; }, message);
  expectKernelRefused([](KernelT &k) { k.phases[0]->entry.clear(); }, message);
  expectKernelRefused([](KernelT &k) { k.phases.clear(); }, message);
  expectKernelRefused([](KernelT &k) { k.prologue.clear(); }, message);
  for (bool inScope : {false, true})
    expectKernelRefused(
        [&](KernelT &k) {
          k.reductions.push_back(std::make_unique<package::ReductionT>());
          if (inScope)
            k.reductions[0]->kind = 3;
          else
            k.reductions[0]->scope = 5;
        },
        message);
}

TEST(PackageFormatTest, RefusesWritingPhasesOfRows) {
  expectKernelRefused(
      [](package::KernelT &k) {
        k.matrix = true;
        k.phases[0]->per = TDM_PER_ROW;
      },
      "describes kernel 'count' by values");
}

TEST(PackageFormatTest, RefusesAFirstPhaseThatIsFused) {
  expectKernelRefused(
      [](package::KernelT &k) { k.phases[0]->fused_with_previous = true; },
      "kernel 'count': phase 0 is fused with the previous one; only a phase "
      "over the elements of a matrix can be, after another one");
}

TEST(PackageFormatTest, RefusesTwoEpiloguesOfAKind) {
  expectKernelRefused(
      [](package::KernelT &k) {
        for (int i = 0; i < 2; ++i) {
          k.epilogues.push_back(std::make_unique<package::PartT>());
          k.epilogues[i]->entry = "tandem_count";
        }
      },
      "describes kernel 'count' by values");
}

TEST(PackageFormatTest, RefusesMalformedImages) {
  package::PackageT package = describeCount();
  addImage(package, "code");
  auto &image = *package.kernels[0]->images[0];
  image.sha256.pop_back();
  expectRefused(write(package), "describes kernel 'count' by values");
  image.sha256.push_back(0);
  image.kind = packedByName + 1;
  expectRefused(write(package), "describes kernel 'count' by values");
  image.kind = packedByName;
  expectRefused(write(package), "describes kernel 'count' by values");
  image.kind = packedPTX;
  image.target.clear();
  expectRefused(write(package), "describes kernel 'count' by values");
}

TEST(PackageFormatTest, RefusesWhatNoKernelHas) {
  expectKernelRefused([](package::KernelT &k) { k.planes[0]->bits = 12; },
                      "kernel 'count': plane 'count' has 12 bits per element");
  expectKernelRefused([](package::KernelT &k) { k.hypers[0]->max = -1; },
                      "kernel 'count': hyper 'lr' has an empty domain");
  expectKernelRefused(
      [](package::KernelT &k) {
        k.epilogues.push_back(std::make_unique<package::PartT>());
        k.epilogues[0]->entry = "tandem_count_commit";
        k.epilogues[0]->per = TDM_PER_ROW;
      },
      "epilogue 0 has granularity 1; use a tdm_granularity, and "
      "TDM_PER_ELEMENT "
      "except in a matrix kernel");
}

TEST(PackageFormatTest, RefusesNoKernelAndTwoOfAName) {
  package::PackageT package = describeCount();
  package.kernels.push_back(std::move(describeCount().kernels[0]));
  expectRefused(write(package), "has two kernels 'count'");
  package.kernels.clear();
  expectRefused(write(package), "has no kernel");
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

TEST(PackageFormatTest, RefusesFilesThatCannotBeRead) {
  tdm_package *package = nullptr;
  expectFailureSaying(
      tdm_package_open("/no/such/file.tdm", &package), TDM_INVALID_PACKAGE,
      "package '/no/such/file.tdm': cannot be opened: No such file");
  expectFailureSaying(tdm_package_open("/", &package), TDM_INVALID_PACKAGE,
                      "package '/': is not a regular file");
  expectFailureSaying(tdm_package_open("/dev/null", &package),
                      TDM_INVALID_PACKAGE, "is not a package of Tandem");
  EXPECT_EQ(package, nullptr);
}

TEST(PackageFormatTest, RefusesNullArguments) {
  tdm_package *package = nullptr;
  std::string bytes = write(describeCount());
  expectFailureSaying(tdm_package_open(nullptr, &package), TDM_INVALID_ARGUMENT,
                      "path is NULL");
  expectFailureSaying(tdm_package_open("file", nullptr), TDM_INVALID_ARGUMENT,
                      "package is NULL");
  expectFailureSaying(tdm_package_open_memory(nullptr, 1, "test", &package),
                      TDM_INVALID_ARGUMENT, "bytes is NULL");
  expectFailureSaying(
      tdm_package_open_memory(bytes.data(), bytes.size(), nullptr, &package),
      TDM_INVALID_ARGUMENT, "name is NULL");
  expectFailureSaying(
      tdm_package_open_memory(bytes.data(), bytes.size(), "test", nullptr),
      TDM_INVALID_ARGUMENT, "package is NULL");
  EXPECT_STREQ(tdm_package_compiler(nullptr), "");
  EXPECT_EQ(tdm_package_num_kernels(nullptr), 0u);
  tdm_package_close(nullptr);
}
