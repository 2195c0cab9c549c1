//===- KernelCacheTest.cpp - Kernels are compiled once --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests what the cache on disk is asked for: the same kernel is
// compiled once, and every option and every text makes another one.
//
//===----------------------------------------------------------------------===//

#include "tandem/InitAllTargets.h"
#include "tandem/Support/BuildIdentity.h"
#include "tandem/Target/Compiler.h"
#include "tandem/Target/Conversions.h"
#include "tandem/Target/Layers.h"
#include "tandem/Target/Package.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include "gtest/gtest.h"
#include <cstdlib>

using namespace mlir;
using namespace tandem;

/// Returns what is expected, or ends the process with the error's message.
template <typename T>
static T take(llvm::Expected<T> expected) {
  if (!expected)
    llvm::report_fatal_error(expected.takeError());
  return std::move(*expected);
}

namespace {
/// An empty cache, and a folder for strategies.
class KernelCacheTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("tandem-cache", folder));
    setenv("TANDEM_CACHE_DIR", (folder.str() + "/cache").str().c_str(), 1);
    options.graph = take(loadGraph("sgd"));
    options.strategy = "fp32";
  }
  void TearDown() override {
    setenv("TANDEM_CACHE_DIR", "", 1);
    llvm::sys::fs::remove_directories(folder);
  }

  /// Returns how many kernels `compile` generates code for.
  uint64_t count(llvm::function_ref<void()> compile) {
    uint64_t before = getNumCompilations();
    compile();
    return getNumCompilations() - before;
  }
  uint64_t countOf(const CompileOptions &options) {
    return count([&] { take(compile(options)); });
  }

  void writeStrategy(StringRef text) {
    std::error_code error;
    llvm::raw_fd_ostream(folder.str().str() + "/mine.mlir", error) << text;
    ASSERT_FALSE(error);
  }

  llvm::SmallString<128> folder;
  CompileOptions options;
};
} // namespace

TEST_F(KernelCacheTest, CompilesOnce) {
  EXPECT_EQ(countOf(options), 1u);
  EXPECT_EQ(countOf(options), 0u);
  setenv("TANDEM_CACHE", "off", 1);
  EXPECT_EQ(countOf(options), 1u);
  unsetenv("TANDEM_CACHE");
  EXPECT_EQ(countOf(options), 0u);
}

/// Returns the package of a kernel without code: its whole description.
static std::string describe(const CompiledKernel &kernel) {
  return writePackage(kernel, Image());
}

TEST_F(KernelCacheTest, KernelsAreLikeCompiledOnes) {
  for (const char *graph : {"adamw", "adafactor", "lamb"})
    for (const char *target : {"cpu", "sm_90", "x86-64-v3"}) {
      options.graph = take(loadGraph(graph));
      options.strategy = "bf16-stochastic";
      options.target = target;
      options.flags = true;
      options.width = 4;
      auto compiled = take(compile(options));
      auto cached = take(compile(options));
      EXPECT_EQ(describe(*cached), describe(*compiled));
      EXPECT_EQ(cached->width, compiled->width);
      EXPECT_EQ(cached->target, compiled->target);
      EXPECT_EQ(cached->package, nullptr);
      EXPECT_EQ(cached->info->format, 0u);
      EXPECT_EQ(cached->reductionEntries.size(),
                compiled->reductionEntries.size());
      EXPECT_EQ(cached->epilogues.size(), compiled->epilogues.size());
      EXPECT_EQ(bool(cached->entry), bool(compiled->entry));
      ASSERT_EQ(bool(cached->image), bool(compiled->image));
      if (!compiled->image)
        continue;
      EXPECT_STREQ(cached->image->kind, compiled->image->kind);
      EXPECT_STREQ(cached->image->target, compiled->image->target);
      EXPECT_EQ(getBytes(*cached->image), getBytes(*compiled->image));
    }
}

TEST_F(KernelCacheTest, CompilesForOtherTargetsFromTheText) {
  auto compiled = take(compile(options));
  auto cached = take(compile(options));
  EXPECT_EQ(take(emitLLVMIR(*cached, "native")),
            take(emitLLVMIR(*compiled, "native")));
  EXPECT_EQ(take(compileImage(*cached, "sm_90")).data,
            take(compileImage(*compiled, "sm_90")).data);
}

TEST_F(KernelCacheTest, EveryOptionCounts) {
  using Change = void (*)(CompileOptions &);
  const Change changes[] = {
      [](CompileOptions &o) { o.strategy = "remainder"; },
      [](CompileOptions &o) { o.strategyTitle = "another"; },
      [](CompileOptions &o) { o.graph += "\n// a comment"; },
      [](CompileOptions &o) { o.graph = take(loadGraph("lion")); },
      [](CompileOptions &o) { o.function = "sgd"; },
      [](CompileOptions &o) { o.isa = "x86-64"; },
      [](CompileOptions &o) { o.target = "sm_80"; },
      [](CompileOptions &o) { o.target = "sm_90"; },
      [](CompileOptions &o) { o.width = 4; },
      [](CompileOptions &o) { o.metrics = true; },
      [](CompileOptions &o) { o.flags = true; },
      [](CompileOptions &o) { o.weightAverage = true; },
  };
  EXPECT_EQ(countOf(options), 1u);
  for (const auto &[index, change] : llvm::enumerate(changes)) {
    if (index == 5 && !llvm::Triple(llvm::sys::getProcessTriple()).isX86())
      continue;
    CompileOptions other = options;
    change(other);
    EXPECT_EQ(countOf(other), 1u) << "change " << index;
    EXPECT_EQ(countOf(other), 0u) << "change " << index;
  }
  EXPECT_EQ(countOf(options), 0u);
}

TEST_F(KernelCacheTest, EveryRuleCounts) {
  options.strategy = "mine";
  options.compute = "f32 f32";
  options.rules = {{RoleKind::param, "", "#tandem.float<f32>"},
                   {RoleKind::grad, "", "#tandem.float<f32>"},
                   {RoleKind::state, "", "#tandem.float<f32>"}};
  EXPECT_EQ(countOf(options), 1u);
  EXPECT_EQ(countOf(options), 0u);
  options.rules[2].storage = "#tandem.float<bf16>";
  EXPECT_EQ(countOf(options), 1u);
  options.rules[1].storage = "#tandem.float<bf16>";
  EXPECT_EQ(countOf(options), 1u);
  EXPECT_EQ(countOf(options), 0u);
  options.rules.push_back({RoleKind::output, "operand", "#tandem.float<bf16>"});
  EXPECT_EQ(countOf(options), 1u);
  options.weightOperand = true;
  EXPECT_EQ(countOf(options), 1u);
  EXPECT_EQ(countOf(options), 0u);
}

TEST_F(KernelCacheTest, FilesCountByTheirContent) {
  auto text = [](StringRef format) {
    std::string storage = ("#tandem.float<" + format + ">").str();
    return "tandem.strategy @mine compute(<f32, f32>) {\n"
           "  tandem.assign param = " +
           storage + "\n  tandem.assign grad = " + storage +
           "\n  tandem.assign state = " + storage + "\n}\n";
  };
  options.strategy = "mine";
  options.path = {folder.str().str()};
  writeStrategy(text("f32"));
  EXPECT_EQ(countOf(options), 1u);
  writeStrategy(text("f32"));
  EXPECT_EQ(countOf(options), 0u) << "not by their time";
  writeStrategy(text("bf16"));
  EXPECT_EQ(countOf(options), 1u);
  EXPECT_EQ(take(getTensors(*take(compile(options))))[0].storage,
            "#tandem.float<bf16>");
  // A folder without the file makes no difference.
  options.path.insert(options.path.begin(), "/nowhere");
  EXPECT_EQ(countOf(options), 0u);
}

TEST_F(KernelCacheTest, ErrorsAreNotKept) {
  options.strategy = "unknown";
  for (int i = 0; i < 2; ++i) {
    std::string message = llvm::toString(compile(options).takeError());
    EXPECT_TRUE(StringRef(message).contains("unknown strategy 'unknown'"))
        << message;
  }
  options.strategy = "fp32";
  options.target = "nothing";
  EXPECT_FALSE(llvm::toString(compile(options).takeError()).empty());
}

TEST_F(KernelCacheTest, PassesOfLayersAreKept) {
  auto compilePasses = [&] {
    LayerOptions layerOptions;
    layerOptions.layer = take(loadGraph("rms_norm"));
    layerOptions.recipe = "fp32";
    auto layer = take(Layer::create(layerOptions));
    for (LayerPass pass : {LayerPass::forward, LayerPass::backward}) {
      LayerPassOptions wanted;
      wanted.pass = pass;
      take(layer->compile(wanted));
    }
  };
  EXPECT_EQ(count(compilePasses), 2u);
  EXPECT_EQ(count(compilePasses), 0u);
}

TEST_F(KernelCacheTest, ConversionsAndChecksAreKept) {
  auto compileAll = [&] {
    ConversionOptions conversion;
    conversion.source = "#tandem.float<f32>";
    conversion.target = "#tandem.float<bf16>";
    take(compileConversion(conversion));
    conversion.adds = true;
    take(compileConversion(conversion));
    std::vector<std::string> sources = {"#tandem.float<bf16>",
                                        "#tandem.float<f16>"};
    take(compileSum(sources,
                    "#tandem.scaled<#scaled.float<f8E4M3FN>, group = tensor, "
                    "scale = f32, recipe = given>",
                    "cpu"));
    take(compileFiniteCheck(*take(compile(options))));
  };
  EXPECT_EQ(count(compileAll), 5u);
  EXPECT_EQ(count(compileAll), 0u);
}

TEST(BuildIdentityTest, TellsLibrariesApart) {
  std::string tandem =
      getBuildIdentity(reinterpret_cast<void *>(&getNumCompilations));
  std::string llvm =
      getBuildIdentity(reinterpret_cast<void *>(&llvm::sys::getProcessTriple));
  EXPECT_FALSE(tandem.empty());
  EXPECT_FALSE(llvm.empty());
  EXPECT_NE(tandem, llvm);
  EXPECT_EQ(getBuildIdentity(nullptr), "");
}
