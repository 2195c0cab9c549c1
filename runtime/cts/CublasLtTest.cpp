//===- CublasLtTest.cpp - Where cuBLASLt is found -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tests of the search for cuBLASLt. Each test runs in its
// own process, with libraries in the directories that Python packages use.
//
//===----------------------------------------------------------------------===//

#include "FakeCublasLt.h"
#include "TestDevice.h"
#include "tandem-runtime/tandem_product.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <iostream>

using namespace tandem::cts;

namespace fs = std::filesystem;

namespace {
/// A temporary directory with libraries.
class Tree {
public:
  Tree() {
    std::string name = (fs::temp_directory_path() / "tandem-XXXXXX").string();
    const char *made = mkdtemp(name.data());
    EXPECT_NE(made, nullptr) << "cannot make a directory like " << name;
    root = made ? made : "";
  }
  ~Tree() {
    if (!root.empty())
      fs::remove_all(root);
  }
  Tree(const Tree &) = delete;

  fs::path place(const char *name) const {
    fs::create_directories((root / name).parent_path());
    return root / name;
  }
  /// Adds the library that stands in for cuBLASLt as \p name.
  void add(const char *name) const {
    fs::copy_file(TANDEM_NAMED_CUBLASLT, place(name));
  }
  /// Adds it and loads it.
  void load(const char *name) const {
    add(name);
    open(name, RTLD_NOW | RTLD_LOCAL);
  }
  /// Loads an unrelated library as \p name.
  void loadNeighbour(const char *name) const {
    fs::copy_file(TANDEM_COUNT_BY_ONE, place(name));
    open(name, RTLD_NOW | RTLD_LOCAL);
  }
  bool hasLoaded(const char *name) const {
    return dlopen((root / name).c_str(), RTLD_NOW | RTLD_NOLOAD);
  }

  fs::path root;

private:
  void open(const char *name, int flags) const {
    if (!dlopen((root / name).c_str(), flags))
      std::cerr << dlerror() << '\n';
  }
};
} // namespace

static tdm_status createProduct() {
  unsetenv("TANDEM_CUBLASLT");
  OpenDevice device("cuda");
  tdm_product_desc desc = {sizeof(desc),
                           /*rows=*/16,
                           /*columns=*/16,
                           /*depth=*/16,   TDM_FACTOR_E4M3, TDM_FACTOR_E4M3,
                           /*bias=*/0,
                           /*fast=*/0};
  tdm_product *product = nullptr;
  tdm_status status = tdm_product_create(device, &desc, &product);
  tdm_product_destroy(product);
  return status;
}

/// Exits with whether a product uses the cuBLASLt \p name of a tree that
/// \p fill has filled.
template <typename Fill>
[[noreturn]] static void exitIfFound(const char *name, Fill fill) {
  bool isFound = false;
  {
    Tree tree;
    fill(tree);
    if (createProduct())
      std::cerr << tdm_last_error() << '\n';
    else
      isFound = tree.hasLoaded(name);
  }
  std::exit(isFound ? 0 : 1);
}

#define EXPECT_FOUND(NAME, FILL)                                               \
  EXPECT_EXIT(exitIfFound(NAME, [](const Tree &tree) FILL),                    \
              testing::ExitedWithCode(0), "")

namespace {
class CublasLtDeathTest : public testing::Test {
protected:
  void SetUp() override {
    if (!isFakeDriver())
      GTEST_SKIP() << "the library needs the driver that it is for";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};
} // namespace

TEST_F(CublasLtDeathTest, LoadedUnderWhateverPath) {
  EXPECT_FOUND("torch/lib/own.so", { tree.load("torch/lib/own.so"); });
}

TEST_F(CublasLtDeathTest, LoadedBeforeAllOthers) {
  EXPECT_FOUND("own.so", {
    tree.loadNeighbour("lib/libcudart.so.13");
    tree.add("lib/libcublasLt.so.13");
    tree.load("own.so");
    if (createProduct() == TDM_OK && tree.hasLoaded("lib/libcublasLt.so.13"))
      std::exit(2);
  });
}

TEST_F(CublasLtDeathTest, BesideAnotherOfCUDA) {
  EXPECT_FOUND("lib/libcublasLt.so.13", {
    tree.loadNeighbour("lib/libcudart.so.13");
    tree.add("lib/libcublasLt.so.13");
  });
}

TEST_F(CublasLtDeathTest, InPackagesOfCUDA13) {
  EXPECT_FOUND("nvidia/cu13/lib/libcublasLt.so.13", {
    tree.loadNeighbour("torch/lib/libtorch_cuda.so");
    tree.add("nvidia/cu13/lib/libcublasLt.so.13");
  });
}

TEST_F(CublasLtDeathTest, InPackagesOfCUDA12) {
  EXPECT_FOUND("nvidia/cublas/lib/libcublasLt.so.12", {
    tree.loadNeighbour("nvidia/cuda_runtime/lib/libcudart.so.12");
    tree.add("nvidia/cublas/lib/libcublasLt.so.12");
  });
}

/// Exits with the message that no library was found, unless the system has one.
[[noreturn]] static void exitWithoutLibrary() {
  {
    Tree tree;
    tree.loadNeighbour("torch/lib/libtorch_cuda.so");
    std::ofstream(tree.place("nvidia/cu13/lib/libcublasLt.so.13")) << "text";
    if (createProduct() == TDM_OK)
      std::cerr << "the system has one";
    else
      std::cerr << tdm_last_error();
  }
  std::exit(0);
}

TEST_F(CublasLtDeathTest, SaysWhereItLooked) {
  EXPECT_EXIT(
      exitWithoutLibrary(), testing::ExitedWithCode(0),
      "^the system has one$|^there is no cuBLASLt: "
      "[^;]*/nvidia/cu13/lib/libcublasLt\\.so\\.13: [^;]*; "
      "libcublasLt\\.so\\.13: [^;]*; libcublasLt\\.so\\.12: [^;]*; the process "
      "has not loaded one.*, there is none around [^,]*/torch/lib[,;].*"
      "name this one in TANDEM_CUBLASLT$");
}
