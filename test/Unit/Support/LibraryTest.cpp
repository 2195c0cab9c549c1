//===- LibraryTest.cpp - Built-in graphs and strategies -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests what diagnostics and lists say of the library's files.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/Library.h"
#include "gtest/gtest.h"

using namespace tandem;

TEST(LibraryTest, Suggestions) {
  auto suggest = [](const char *name) {
    return suggestName(name, getBuiltinStrategies());
  };
  EXPECT_EQ(suggest("colage-plus"), " (did you mean 'collage-plus'?)");
  EXPECT_EQ(suggest("FP32"), " (did you mean 'fp32'?)");
  EXPECT_EQ(suggest("dither_mulaw"), " (did you mean 'dither-mulaw'?)");
  EXPECT_EQ(suggest("bf"), "");
  EXPECT_EQ(suggest("something"), "");
  EXPECT_EQ(suggest(""), "");
}

TEST(LibraryTest, Summaries) {
  LibraryFile file{"name",
                   "#id = affine_map<(i) -> (i)>\n\n// A (B et al. 2020,\n"
                   "// section 1.2) of C. Second.\nfunc.func @name()\n"
                   "// Not read.\n"};
  EXPECT_EQ(summarize(file), "A (B et al. 2020, section 1.2) of C.");
  EXPECT_EQ(summarize({"name", "// One line"}), "One line");
  EXPECT_EQ(summarize({"name", "func.func @name()\n"}), "");
  for (auto files : {getBuiltinGraphs(), getBuiltinLayers(),
                     getBuiltinRecipes(), getBuiltinStrategies()})
    for (const LibraryFile &each : files)
      EXPECT_GT(summarize(each).size(), 10u) << each.name.str();
}
