//===- ArchitectureTest.cpp - Tests of instruction sets -------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests which instruction sets a machine is said to run.
//
//===----------------------------------------------------------------------===//

#include "lib/Target/CPU/Architecture.h"
#include "gtest/gtest.h"

using namespace tandem;

/// Returns the features of the instruction sets up to a name, as LLVM reports
/// those of a machine.
static llvm::StringMap<bool> getFeatures(const Architecture &architecture,
                                         llvm::StringRef last) {
  llvm::StringMap<bool> features;
  for (const InstructionSet &set : architecture.getInstructionSets()) {
    for (llvm::StringRef feature : set.features)
      features[feature] = true;
    if (set.name == last)
      break;
  }
  return features;
}

static std::string check(llvm::StringRef name, const Architecture &machine,
                         const llvm::StringMap<bool> &features) {
  return llvm::toString(checkRuns(name, &machine, features));
}

TEST(ArchitectureTest, RunsSmallerSetsOnly) {
  llvm::StringMap<bool> features = getFeatures(getX86(), "x86-64-v3");
  for (llvm::StringRef name : {"x86-64", "x86-64-v2", "x86-64-v3"})
    EXPECT_EQ(check(name, getX86(), features), "");
  EXPECT_EQ(check("x86-64-v4", getX86(), features),
            "this machine cannot run code for 'x86-64-v4': its processor has "
            "no avx512f; leave isa out, and the code is for this machine");
}

TEST(ArchitectureTest, NeedsEveryFeature) {
  for (llvm::StringRef feature : {"avx2", "f16c", "fma", "popcnt"}) {
    llvm::StringMap<bool> features = getFeatures(getX86(), "x86-64-v4");
    features[feature] = false;
    EXPECT_NE(check("x86-64-v4", getX86(), features).find(feature),
              std::string::npos);
    EXPECT_EQ(check("x86-64", getX86(), features), "");
  }
}

TEST(ArchitectureTest, RunsNoOtherArchitecture) {
  llvm::StringMap<bool> features = getFeatures(getX86(), "x86-64-v4");
  EXPECT_EQ(check("aarch64", getX86(), features),
            "this machine cannot run code for 'aarch64': it is another "
            "architecture; leave isa out, and the code is for this machine");
  EXPECT_NE(check("x86-64", getAArch64(), {}), "");
}

TEST(ArchitectureTest, DescribesProcessors) {
  for (const Architecture *architecture : getArchitectures())
    for (const InstructionSet &set : architecture->getInstructionSets())
      EXPECT_EQ(describeProcessor(*architecture, "generic",
                                  getFeatures(*architecture, set.name)),
                (set.name + " (generic)").str());
  llvm::StringMap<bool> features = getFeatures(getX86(), "x86-64-v4");
  features["avx512vbmi"] = features["gfni"] = true;
  EXPECT_EQ(describeProcessor(getX86(), "znver4", features),
            "x86-64-v4 (znver4: avx512vbmi, gfni)");
  // A set counts only with all of the smaller ones.
  features["avx2"] = false;
  EXPECT_EQ(describeProcessor(getX86(), "odd", features),
            "x86-64-v2 (odd: avx512vbmi, gfni)");
}

TEST(ArchitectureTest, NamesAreUnique) {
  for (const Architecture *architecture : getArchitectures())
    for (const InstructionSet &set : architecture->getInstructionSets()) {
      NamedSet found = findInstructionSet(set.name);
      EXPECT_EQ(found.architecture, architecture);
      EXPECT_EQ(found.set, &set);
    }
  EXPECT_FALSE(findInstructionSet("native").set);
}
