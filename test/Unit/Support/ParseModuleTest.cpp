//===- ParseModuleTest.cpp - Read MLIR text -------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests what is taken for a list of dimensions, and what is not.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/ParseModule.h"
#include "gtest/gtest.h"

using namespace mlir::tandem;

static std::optional<size_t> find(const std::string &text) {
  std::optional<MalformedList> list = findMalformedList("linalg." + text);
  return list ? std::optional<size_t>(list->place) : std::nullopt;
}

TEST(ParseModuleTest, Lists) {
  for (const char *list : {"[]", "[0]", "[ 0 ]", "[0,1]", "[1 , 0]", "[\n0]"}) {
    EXPECT_FALSE(find("x dimensions = " + std::string(list))) << list;
    EXPECT_FALSE(find("x permutation=" + std::string(list))) << list;
  }
  for (const char *list : {"[0, ]", "[1 0]", "[,]", "[0", "0", "", "[x]",
                           "[-1]", "[0x1]", "[1000000000000000000000]"}) {
    EXPECT_EQ(find("x dimensions = " + std::string(list)), 22u) << list;
    EXPECT_EQ(find("\npermutation =\n" + std::string(list)), 22u) << list;
  }
}

TEST(ParseModuleTest, Iterators) {
  for (const char *list : {"[]", "[\"x\"]", "[ \"\" , \"parallel\"\n]"})
    EXPECT_FALSE(find("generic {iterator_types = " + std::string(list)))
        << list;
  for (std::string list : {"[5]", "[\"x\", #i<x>]", "[\"x\" \"y\"]", "\"x\""}) {
    EXPECT_EQ(find("generic {iterator_types = " + list), 33u) << list;
    EXPECT_EQ(find("generic {a={}, iterator_types=" + list), 37u) << list;
    EXPECT_EQ(find("\n#a = {iterator_types = " + list), 31u) << list;
    EXPECT_EQ(find("generic {\"iterator_types\" = " + list), 35u) << list;
    EXPECT_FALSE(find("generic\"() <{a = {}, iterator_types = " + list));
    EXPECT_FALSE(find("generic\"() {iterator_types = " + list));
  }
}

TEST(ParseModuleTest, Places) {
  EXPECT_EQ(find(" dimensions = [0] permutation = [1 0]"), 39u);
  EXPECT_EQ(find(" // dimensions = [1 0]\n dimensions = [0]"), std::nullopt);
  EXPECT_EQ(find(" \"//\" dimensions = x"), 26u);
  EXPECT_EQ(find(" \"\\\"//\" dimensions = x"), 28u);
  EXPECT_EQ(find(" my_dimensions = x"), std::nullopt);
  EXPECT_EQ(find("x <{permutation = array<i64>}>"), std::nullopt);
  EXPECT_EQ(find("x {a,\n dimensions = x}"), std::nullopt);
  EXPECT_EQ(find("x {a} dimensions = x"), 26u);
  EXPECT_EQ(findMalformedList("dimensions = x"), std::nullopt);
}
