//===- ParseModuleTest.cpp - Read MLIR text -------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests which texts are taken for a list of dimensions.
//
//===----------------------------------------------------------------------===//

#include "tandem/Support/ParseModule.h"
#include "gtest/gtest.h"

using namespace tandem;

static std::optional<size_t> find(const std::string &text) {
  std::optional<MalformedText> malformed = findMalformedText("linalg." + text);
  return malformed ? std::optional<size_t>(malformed->place) : std::nullopt;
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

TEST(ParseModuleTest, Nesting) {
  for (char open : {'(', '[', '{', '<'}) {
    EXPECT_FALSE(findMalformedText(std::string(256, open)));
    std::optional<MalformedText> malformed =
        findMalformedText("x" + std::string(5000, open));
    ASSERT_TRUE(malformed);
    EXPECT_EQ(malformed->place, 257u);
    EXPECT_EQ(malformed->expected,
              "no more than 256 brackets within each other");
  }
  std::string flat;
  for (int i = 0; i < 1000; ++i)
    flat += "(a <= 0) -> [b] {c = \"(((\"} // (((\n";
  EXPECT_FALSE(findMalformedText(flat));
}

TEST(ParseModuleTest, LongAffineExpressions) {
  auto repeat = [](unsigned count, const std::string &text) {
    std::string all;
    for (unsigned i = 0; i < count; ++i)
      all += text;
    return all;
  };
  for (std::string keyword : {"affine_map<(i) -> (", "affine_set<(i) : ("})
    for (std::string term : {"-", "- ", "i + ", "i - "}) {
      EXPECT_FALSE(findMalformedText(keyword + repeat(1024, term) + "i)>"));
      std::optional<MalformedText> malformed = findMalformedText(
          "#a = " + keyword + repeat(1025, term) + "i >= 0)>");
      ASSERT_TRUE(malformed) << keyword << term;
      EXPECT_EQ(malformed->expected, "no more than 1024 additions and signs in "
                                     "an affine map or set");
    }
  // The signs of each map are counted separately, and following ones do not
  // count.
  EXPECT_FALSE(findMalformedText(
      repeat(1000, "#m = affine_map<(i) -> (i - 1 + 2)>\n") +
      "#s = affine_set<(i) : (i >= 0, i <= 1)>\n" + repeat(2000, "-1.0 ")));
}

TEST(ParseModuleTest, EscapedQuotationMarks) {
  std::string deep(300, '[');
  EXPECT_FALSE(findMalformedText("a = \"x\\\"" + deep));
  EXPECT_FALSE(findMalformedText("a = \"x\\\\\\\"" + deep));
  // An escaped backslash does not escape a quotation mark.
  EXPECT_TRUE(findMalformedText("a = \"x\\\\\"" + deep));
  EXPECT_FALSE(findMalformedText("a = \"x\\\\\" // " + deep));
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

TEST(ParseModuleTest, AliasesOfIterators) {
  std::string use = "\nlinalg.generic {a = 1, iterator_types = #its}";
  for (const char *list : {"[]", "[\"parallel\"]", "\n[ \"x\", \"y\" ]"})
    EXPECT_FALSE(findMalformedText("#its = " + std::string(list) + use))
        << list;
  for (const char *list : {"[5]", "\"x\"", "#other", "{}"})
    EXPECT_TRUE(findMalformedText("#its = " + std::string(list) + use)) << list;
  EXPECT_TRUE(findMalformedText("#it = [\"parallel\"]" + use));
  EXPECT_TRUE(findMalformedText(use + "\n#its = [\"parallel\"]"));
}

TEST(ParseModuleTest, Operands) {
  std::string in = "ins(%a : tensor<?xf32>)", out = "outs(%b : tensor<f32>)";
  for (std::string name : {"reduce", "map"}) {
    EXPECT_FALSE(find(name + " { arith.addf } " + in + "\n " + out));
    EXPECT_FALSE(findMalformedText("!a = tensor<?xf32>\nlinalg." + name +
                                   "{ arith.addf } ins(%a : !a)" + out));
    EXPECT_FALSE(find(name + " { arith.addf {a = {}} } {b = 1} " + in + out));
    EXPECT_FALSE(find(name + " { arith.addf } <{c}> " + out));
    EXPECT_FALSE(find(name + " " + in + out));
    EXPECT_FALSE(find(name + "\"(%a) ({}) : (f32) -> f32"));
    for (const std::string &rest :
         {"ins(%a : f32)" + out, in + "outs(%a : f32)",
          std::string("dimensions = [1]"), "ins()" + out,
          "ins(%a : !tandem.stored<f32>)" + out, "ins(%a : !a)" + out})
      EXPECT_EQ(find(name + " { arith.addf } " + rest), 9 + name.size())
          << rest;
  }
  EXPECT_FALSE(
      find("\nvector.shuffle %a, %b [0] : vector<2xf32>, vector<2xf32>"));
  EXPECT_FALSE(find("\n!v=vector<2xf32>\nvector.shuffle %a, %b [0] : !v, !v"));
  for (const char *types :
       {": f32, f32", "", ": !tandem.stored<f32>, f32", ": !v, !v"})
    EXPECT_EQ(find("\nvector.shuffle %a, %b [0] " + std::string(types)), 23u);
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
  EXPECT_EQ(findMalformedText("dimensions = x"), std::nullopt);
}
