//===- RulesTest.cpp - Tests of strategies without a text -----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests that a host can define a strategy rule by rule.
//
//===----------------------------------------------------------------------===//

#include "tandem-c/Tandem.h"
#include "llvm/ADT/StringRef.h"
#include "gtest/gtest.h"
#include <string>
#include <vector>

namespace {
/// A kernel of a graph under rules, or the error message if there is none.
class Compiled {
public:
  explicit Compiled(std::vector<TandemStorageRule> rules,
                    const char *compute = "f32 f32",
                    const char *strategy = "mine",
                    const char *graph = "sgd_momentum") {
    TandemCompileOptions options = {};
    options.graph = graph;
    options.strategy = strategy;
    options.rules = rules.data();
    options.numRules = rules.size();
    options.compute = compute;
    kernel = tandemCompile(&options);
    if (!kernel)
      error = tandemGetLastError();
  }
  ~Compiled() { tandemKernelDestroy(kernel); }

  std::string getStorage(intptr_t tensor) {
    EXPECT_TRUE(kernel) << error;
    if (!kernel || tandemKernelGetNumTensors(kernel) <= tensor)
      return "";
    return tandemKernelGetTensor(kernel, tensor).storage;
  }

  TandemKernel *kernel = nullptr;
  std::string error;
};
} // namespace

static constexpr const char *f32 = "#tandem.float<f32>";
static constexpr const char *bf16 = "#tandem.float<bf16>";
static const TandemStorageRule param = {TDM_ROLE_PARAM, nullptr, bf16};
static const TandemStorageRule grad = {TDM_ROLE_GRAD, nullptr, f32};
static const TandemStorageRule state = {TDM_ROLE_STATE, nullptr, f32};

TEST(RulesTest, GiveStorages) {
  Compiled compiled({param, grad, state});
  EXPECT_EQ(compiled.getStorage(0), bf16);
  EXPECT_EQ(compiled.getStorage(1), f32);
  EXPECT_EQ(compiled.getStorage(2), f32);
  EXPECT_STREQ(tandemKernelGetInfo(compiled.kernel)->strategy, "mine");
  EXPECT_STREQ(tandemKernelGetInfo(compiled.kernel)->compute, "f32 f32");
}

TEST(RulesTest, CountInTheirOrder) {
  const char *name = "momentum_buffer";
  Compiled compiled({param, grad, {TDM_ROLE_STATE, name, bf16}, state});
  EXPECT_EQ(compiled.getStorage(2), bf16);
  EXPECT_STREQ(tandemKernelGetTensor(compiled.kernel, 2).role, name);
}

TEST(RulesTest, HaveAPolicy) {
  Compiled compiled(
      {param, {TDM_ROLE_GRAD, nullptr, bf16}, {TDM_ROLE_STATE, nullptr, bf16}},
      "component bf16");
  ASSERT_TRUE(compiled.kernel) << compiled.error;
  EXPECT_STREQ(tandemKernelGetInfo(compiled.kernel)->compute, "component bf16");
}

TEST(RulesTest, ReplaceAStrategyOfTheirName) {
  Compiled compiled({param, grad, state}, "f32 f32", "fp32");
  EXPECT_EQ(compiled.getStorage(0), bf16);
  const char *text =
      "tandem.strategy @mine compute(<f32, f32>) {\n"
      "  tandem.assign saved = #tandem.float<f16>\n}\n"
      "func.func @keep(%x: tensor<?x?xf32> {tandem.role = #tandem.role<input "
      "\"x\">}, %y: tensor<?x?xf32> {tandem.role = #tandem.role<output "
      "\"y\">}) -> tensor<?x?xf32> {\n  return %x : tensor<?x?xf32>\n}\n";
  TandemStorageRule output = {TDM_ROLE_OUTPUT, nullptr, bf16};
  TandemStorageRule input = {TDM_ROLE_INPUT, nullptr, f32};
  Compiled inText({input, output}, "f32 f32", "mine", text);
  EXPECT_EQ(inText.getStorage(1), bf16);
}

TEST(RulesTest, MustBeSound) {
  EXPECT_EQ(Compiled({param}, "f32 f32", "").error,
            "there are rules, but the strategy that they make has no name; "
            "give it one");
  std::string deep = "f32 ";
  for (int i = 0; i < 100000; ++i)
    deep += "tuple<";
  for (const char *compute :
       {"", "f32", "bf16 f32", "component", "f32 x", deep.c_str()})
    EXPECT_EQ(Compiled({param}, compute).error,
              "'" + std::string(compute) +
                  "' is not a compute policy; policies are 'f32 f32' and "
                  "'component' with bf16, f16 or f32");
  EXPECT_EQ(Compiled({param}, "component f8E5M2").error,
            "a component policy rounds to bf16, f16 or f32, got 'f8E5M2'");
  EXPECT_EQ(Compiled({{TDM_ROLE_PARAM, nullptr, "x"}}).error,
            "cannot read storage 'x': expected attribute value");
  EXPECT_EQ(Compiled({{TDM_ROLE_HYPER, nullptr, f32}}).error,
            "'tandem.assign' op stores a param, grad, state, input, output or "
            "what is saved, sent or received, not a hyper");
  EXPECT_TRUE(llvm::StringRef(Compiled({param, grad}).error)
                  .contains("momentum_buffer"));
  const char *kernel = "tandem.kernel @k compute(<f32, f32>) tensors [] "
                       "scalars [] prologue {\n  tandem.yield\n} body {\n"
                       "  tandem.yield\n}\n";
  EXPECT_EQ(Compiled({param}, "f32 f32", "mine", kernel).error,
            "kernel 'k' has its storages; leave out the strategy 'mine'");
}
