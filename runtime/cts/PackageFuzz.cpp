//===- PackageFuzz.cpp - Fuzzing of packages ------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tandem-package-fuzz, which changes packages at random,
// sets the right checksum and reads the entire content of those that are
// accepted. It is built with sanitizers, which abort at the first error. No
// code of a package is loaded.
//
//===----------------------------------------------------------------------===//

#include "ByteMutator.h"
#include "TestPackages.h"

#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

using namespace tandem;
using namespace tandem::cts;

//===----------------------------------------------------------------------===//
// Initial packages
//===----------------------------------------------------------------------===//

/// Shortens text and code, so that more changes affect other data.
static void shorten(package::PackageT &package) {
  for (auto &kernel : package.kernels) {
    kernel->ir.resize(std::min<size_t>(kernel->ir.size(), 16));
    for (auto &image : kernel->images)
      image->data.resize(std::min<size_t>(image->data.size(), 16));
  }
}

/// Returns a kernel that uses every field.
static package::PackageT describeAll() {
  package::PackageT package = describeCount();
  package::KernelT &kernel = *package.kernels[0];
  kernel.matrix = true;
  for (auto per : {TDM_PER_ROW, TDM_PER_COLUMN, TDM_PER_ELEMENT}) {
    kernel.epilogues.push_back(std::make_unique<package::PartT>());
    kernel.epilogues.back()->entry = "tandem_commit";
    kernel.epilogues.back()->per = per;
  }
  kernel.phases.insert(kernel.phases.begin(),
                       std::make_unique<package::PartT>());
  kernel.phases[0]->entry = "tandem_phase0";
  kernel.phases[1]->fused_with_previous = true;
  kernel.reductions.push_back(std::make_unique<package::ReductionT>());
  kernel.reductions[0]->scope = TDM_SCOPE_ROW;
  addImage(package, "some code");
  addImage(package, "more code", "sm_90");
  package.kernels.push_back(std::move(describeCount().kernels[0]));
  package.kernels[1]->name = "other";
  return package;
}

/// Returns the content of a package that the compiler has written.
static std::string readContent(const char *path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (OpenPackage(bytes).status != TDM_OK) {
    std::fprintf(stderr, "tandem-package-fuzz: '%s': %s\n", path,
                 tdm_last_error());
    std::exit(2);
  }
  std::vector<uint64_t> aligned((bytes.size() - 64 + 7) / 8);
  std::memcpy(aligned.data(), bytes.data() + 64, bytes.size() - 64);
  package::PackageT package;
  package::GetPackage(aligned.data())->UnPackTo(&package);
  shorten(package);
  return pack(package);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static volatile uint64_t sink;

static void touch(const char *text) { sink = sink + std::strlen(text); }
static void touch(const void *bytes, size_t size) {
  for (size_t i = 0; i < size; ++i)
    sink = sink + static_cast<const unsigned char *>(bytes)[i];
}

static void touchArguments(const tdm_kernel_info &info) {
  const tdm_kernel_desc &desc = *info.desc;
  for (uint32_t i = 0; i < desc.num_planes; ++i) {
    touch(&desc.planes[i], sizeof(desc.planes[i]));
    for (const char *text :
         {desc.planes[i].name, desc.planes[i].role, desc.planes[i].type})
      touch(text);
  }
  for (uint32_t i = 0; i < desc.num_hypers; ++i) {
    touch(desc.hypers[i].name);
    touch(&desc.hypers[i].default_value, sizeof(double));
  }
  for (uint32_t i = 0; i < desc.num_integers; ++i) {
    touch(desc.integers[i].name);
    touch(&desc.integers[i].kind, sizeof(tdm_role));
  }
}

static void touchCode(const tdm_kernel_info &info) {
  const tdm_kernel_desc &desc = *info.desc;
  touch(desc.reductions, desc.num_reductions * sizeof(*desc.reductions));
  touch(desc.reduction_granularities,
        desc.num_reduction_entries * sizeof(uint32_t));
  touch(desc.fused_with_previous, info.num_phases * sizeof(uint32_t));
  for (uint32_t i = 0; i < info.num_phases; ++i)
    touch(info.phases[i].entry);
  for (uint32_t i = 0; i < info.num_epilogues; ++i)
    touch(info.epilogues[i].entry);
  for (uint32_t i = 0; i < info.num_images; ++i) {
    touch(info.images[i].target);
    touch(info.images[i].data, info.images[i].size);
    touch(info.images[i].sha256, 32);
  }
}

static void readAll(const tdm_package *package) {
  touch(tdm_package_compiler(package));
  for (uint32_t i = 0; i < tdm_package_num_kernels(package); ++i) {
    tdm_kernel_info info = {};
    info.struct_size = sizeof(info);
    if (tdm_package_kernel(package, i, &info) != TDM_OK)
      std::abort();
    for (const char *text : {info.name, info.graph, info.strategy, info.compute,
                             info.ir, info.prologue})
      touch(text);
    touchArguments(info);
    touchCode(info);
    uint32_t index;
    if (tdm_package_find(package, info.name, &index) != TDM_OK || index != i)
      std::abort();
  }
}

//===----------------------------------------------------------------------===//
// Program
//===----------------------------------------------------------------------===//

static int usage() {
  std::fprintf(
      stderr, "usage: tandem-package-fuzz COUNT [SEED [PACKAGE...]]\n"
              "       tandem-package-fuzz --seconds N [SEED [PACKAGE...]]\n"
              "\n"
              "Reads COUNT packages that were changed at random, or as many as "
              "N seconds allow,\n"
              "beginning with two of its own and those given. A seed makes "
              "the same changes again.\n");
  return 2;
}

/// Reads `count` changed packages, or as many as the time allows. Returns false
/// if all or none were accepted, since little was tested then.
static bool fuzz(ByteMutator &mutator, long count, double seconds) {
  using Clock = std::chrono::steady_clock;
  auto end = Clock::now() + std::chrono::duration<double>(seconds);
  long done = 0, accepted = 0;
  while (done < count && Clock::now() < end) {
    OpenPackage package(addHeader(mutator.next()));
    accepted += package.status == TDM_OK;
    if (package.status == TDM_OK)
      readAll(package);
    ++done;
    if (done % 1000000 == 0 || done == count || Clock::now() >= end) {
      std::printf("%ld packages: %ld accepted, %ld refused\n", done, accepted,
                  done - accepted);
      std::fflush(stdout);
    }
  }
  return accepted > 0 && accepted < done;
}

int main(int argc, char **argv) {
  bool isTimed = argc > 2 && std::strcmp(argv[1], "--seconds") == 0;
  char **next = argv + 1 + isTimed, **last = argv + argc;
  double amount = next < last ? std::atof(*next++) : 0;
  if (amount <= 0)
    return usage();
  long seed = next < last ? std::atol(*next++) : 1;
  std::vector<std::string> contents = {pack(describeCount()),
                                       pack(describeAll())};
  for (; next < last; ++next)
    contents.push_back(readContent(*next));
  for (const std::string &content : contents)
    if (OpenPackage package(addHeader(content)); package.status == TDM_OK)
      readAll(package);
    else
      return std::fprintf(stderr, "%s\n", tdm_last_error()), 1;
  ByteMutator mutator(contents, seed);
  constexpr double year = 31557600;
  return fuzz(mutator, isTimed ? LONG_MAX : static_cast<long>(amount),
              isTimed ? amount : year)
             ? 0
             : 1;
}
