//===- TargetTest.cpp - Tests of external targets -------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests that the compiler accepts targets outside of Tandem.
//
//===----------------------------------------------------------------------===//

#include "tandem/InitAllTargets.h"
#include "tandem/Target/Compiler.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "gtest/gtest.h"
#include <cstdlib>

using namespace mlir;
using namespace tandem;

namespace {
/// Emits the kernels as text for "text", and an error for "nothing".
class TextTarget : public Target {
public:
  bool hasName(StringRef name) const override {
    return name == "text" || name == "nothing";
  }
  std::string listNames() const override { return "text, nothing"; }
  llvm::Expected<TargetCode>
  compile(ModuleOp kernels, const TargetOptions &options) const override {
    if (options.name == "nothing") {
      kernels.emitError("nothing can be made of this");
      return llvm::createStringError("failed");
    }
    TargetCode code;
    code.image.kind = "text";
    code.image.target = options.name;
    llvm::raw_string_ostream(code.image.data) << options.width << "\n"
                                              << kernels;
    return code;
  }
};
} // namespace

static llvm::Expected<std::unique_ptr<CompiledKernel>>
compileFor(const char *target) {
  static bool once = [] {
    registerAllTargets();
    registerTarget(std::make_unique<TextTarget>());
    return true;
  }();
  (void)once;
  CompileOptions options;
  options.graph = llvm::cantFail(loadGraph("lamb"));
  options.strategy = "fp32";
  options.target = target;
  options.width = 4;
  return compile(options);
}

TEST(TargetTest, CompilesForATargetFromOutside) {
  auto kernel = llvm::cantFail(compileFor("text"));
  StringRef text = getBytes(*kernel->image);
  EXPECT_TRUE(text.starts_with("4\n"));
  EXPECT_TRUE(text.contains("tandem.step @lamb"));
  EXPECT_EQ(llvm::cantFail(compileImage(*kernel, "text")).data, text);
  EXPECT_EQ(llvm::cantFail(compileImage(*kernel, "sm_90")).kind, "PTX");
}

TEST(TargetTest, DiagnosticsAreTheMessage) {
  std::string message = llvm::toString(compileFor("nothing").takeError());
  EXPECT_TRUE(StringRef(message).contains("nothing can be made of this"));
  EXPECT_FALSE(StringRef(message).contains("failed"));
}

TEST(TargetTest, UnknownNamesListAllTargets) {
  std::string message = llvm::toString(compileFor("other").takeError());
  EXPECT_TRUE(StringRef(message).starts_with(
      "unknown target 'other'; expected cpu; x86-64, "));
  EXPECT_TRUE(StringRef(message).ends_with("; text, nothing"));
  auto kernel = llvm::cantFail(compileFor("cpu"));
  message = llvm::toString(compileImage(*kernel, "cpu").takeError());
  EXPECT_TRUE(StringRef(message).starts_with(
      "code for 'cpu' stays in this process; an image is for x86-64, "));
}

namespace {
/// A program called ptxas that precedes all others on PATH during a test.
class StandInAssembler : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("tandem-ptxas", folder));
    llvm::SmallString<128> program = folder;
    llvm::sys::path::append(program, "ptxas");
    std::error_code error;
    llvm::raw_fd_ostream(program, error)
        << "#!/bin/sh\n"
           "if [ \"$1\" = --version ]; then echo 'release 13.0, V13.0.88'; "
           "exit; fi\n"
           "echo \"machine code $1 $2\" > \"$5\"\n";
    ASSERT_FALSE(error);
    ASSERT_FALSE(
        llvm::sys::fs::setPermissions(program, llvm::sys::fs::owner_all));
    path = std::getenv("PATH");
    setenv("PATH", (folder.str() + ":" + path).str().c_str(), 1);
  }
  void TearDown() override {
    setenv("PATH", path.c_str(), 1);
    llvm::sys::fs::remove_directories(folder);
  }

  llvm::SmallString<128> folder;
  std::string path;
};
} // namespace

TEST_F(StandInAssembler, MakesMachineCode) {
  auto kernel = llvm::cantFail(compileFor("cubin:sm_90"));
  EXPECT_STREQ(kernel->image->kind, "cubin");
  EXPECT_STREQ(kernel->image->target, "sm_90");
  EXPECT_EQ(getBytes(*kernel->image), "machine code -arch=sm_90 -O3\n");
  ASSERT_EQ(kernel->info->num_images, 1u);
  EXPECT_STREQ(kernel->info->images[0].assembler, "13.0.88");
  EXPECT_EQ(kernel->info->images[0].level, 3u);
  kernel = llvm::cantFail(compileFor("cubin-O0:sm_80"));
  EXPECT_EQ(getBytes(*kernel->image), "machine code -arch=sm_80 -O0\n");
  EXPECT_EQ(kernel->info->images[0].level, 0u);
}

TEST_F(StandInAssembler, IsNamedWhereItIsMissing) {
  setenv("PATH", "/nowhere", 1);
  std::string message = llvm::toString(compileFor("cubin:sm_90").takeError());
  EXPECT_TRUE(StringRef(message).starts_with(
      "target 'cubin:sm_90' needs ptxas, which is not on PATH; "))
      << message;
}
