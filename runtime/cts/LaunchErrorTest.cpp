//===- LaunchErrorTest.cpp - Refused launches -----------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tests of the checks of a launch's arguments.
//
//===----------------------------------------------------------------------===//

#include "TestKernels.h"

#include <limits>

using namespace tandem::cts;

namespace {

/// A plan of the sgd kernel over one tensor, which no failed launch changes.
class LaunchError : public testing::Test {
protected:
  LaunchError() : kernel(sgdDesc()), param(5000, 1.0f), grad(5000, 1.0f) {
    list.add(5000, {param.data(), grad.data()});
  }

  void expectRefused(tdm_status status, const std::string &message) {
    OwnedPlan plan(kernel, list);
    tdm_launch_info info = {infoSize, 77, 77, 77};
    expectFailure(tdm_plan_launch(plan, hypers, integers, rows, threads, &info),
                  status, "kernel 'sgd': " + message);
    EXPECT_EQ(param, std::vector<float>(5000, 1.0f));
    EXPECT_EQ(info.flags, 77u);
  }

  void expectHyper(int index, double value, const std::string &message) {
    double saved = values[index];
    values[index] = value;
    expectRefused(TDM_OUT_OF_DOMAIN, message);
    values[index] = saved;
  }

  OwnedKernel kernel;
  std::vector<float> param, grad;
  TensorList list;
  double values[4] = {0.1, 1e-8, 0.2, 0};
  int64_t steps[2] = {1, 2};
  const double *hypers = values;
  const int64_t *integers = steps;
  int64_t rows = 2;
  int32_t threads = 2;
  size_t infoSize = sizeof(tdm_launch_info);
};

} // namespace

TEST_F(LaunchError, HypersOutOfDomain) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expectHyper(0, -0.5,
              "hyper 'lr' of row 0 is -0.5; it must be at least 0 and less "
              "than inf");
  expectHyper(2, nan,
              "hyper 'lr' of row 1 is nan; it must be at least 0 and less "
              "than inf");
  expectHyper(0, inf,
              "hyper 'lr' of row 0 is inf; it must be at least 0 and less "
              "than inf");
  expectHyper(3, 1.0,
              "hyper 'eps' of row 1 is 1; it must be at least 0 and less "
              "than 1");
  expectHyper(1, 1e-50,
              "hyper 'eps' of row 0 is 1e-50, which this kernel's format "
              "would round to zero; use 0 or at least 1e-38");
}

TEST_F(LaunchError, EachKindOfDomain) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto expectDomain = [&](tdm_hyper_desc hyper, double value,
                          const char *message) {
    tdm_kernel_desc desc = countDesc();
    desc.num_hypers = 1;
    desc.hypers = &hyper;
    OwnedKernel kernel(desc);
    TensorList none;
    OwnedPlan plan(kernel, none);
    expectFailure(tdm_plan_launch(plan, &value, nullptr, 1, 1, nullptr),
                  TDM_OUT_OF_DOMAIN,
                  std::string("kernel 'count': hyper 'h' of row 0 is ") +
                      message);
  };
  expectDomain({"h", 0, inf, 1, 0, 0}, 0, "0; it must be greater than 0");
  expectDomain({"h", -inf, 2, 0, 0, 0}, 3, "3; it must be at most 2");
  expectDomain({"h", -inf, inf, 0, 0, 0}, nan, "nan; it must be a number");
  expectDomain({"h", 0, 1, 1, 0, 0.5}, 0.25,
               "0.25, which this kernel's format would round to zero; use at "
               "least 0.5");
  expectDomain({"h", 0, 1, 0, 1, 0}, -0.1,
               "-0.1; it must be at least 0 and less than 1");
}

TEST_F(LaunchError, IntegerBelowItsLeast) {
  steps[1] = 0;
  expectRefused(TDM_OUT_OF_DOMAIN,
                "integer 'step' of row 1 is 0; it must be at least 1");
}

TEST_F(LaunchError, Rows) {
  rows = 0;
  expectRefused(TDM_INVALID_ARGUMENT,
                "tensor 0: scalar_row is 0 but the launch has 0 rows; pass "
                "more rows or a lower scalar_row");
  rows = -1;
  expectRefused(TDM_INVALID_ARGUMENT, "rows is -1; it must be 0 to 2147483648");
  rows = 2;
  list[0].scalar_row = 2;
  expectRefused(TDM_INVALID_ARGUMENT,
                "tensor 0: scalar_row is 2 but the launch has 2 rows; pass "
                "more rows or a lower scalar_row");
}

TEST_F(LaunchError, NullArguments) {
  hypers = nullptr;
  expectRefused(TDM_INVALID_ARGUMENT, "hypers is NULL; pass 2 rows of 2 "
                                      "values, the first of them 'lr'");
  hypers = values;
  integers = nullptr;
  expectRefused(TDM_INVALID_ARGUMENT, "integers is NULL; pass 2 rows of 1 "
                                      "values, the first of them 'step'");
  expectFailure(tdm_plan_launch(nullptr, hypers, steps, 1, 1, nullptr),
                TDM_INVALID_ARGUMENT,
                "tdm_plan_launch: plan is NULL; pass one from "
                "tdm_plan_create");
  expectFailure(tdm_plan_metrics(nullptr, 0, nullptr, 0), TDM_INVALID_ARGUMENT,
                "tdm_plan_metrics: plan is NULL; pass one from "
                "tdm_plan_create");
}

TEST_F(LaunchError, ThreadsAndInfo) {
  for (int32_t count : {-1, 1025}) {
    threads = count;
    expectRefused(TDM_INVALID_ARGUMENT,
                  "threads is " + std::to_string(count) +
                      "; pass 0 for one per core, or 1 to 1024");
  }
  threads = 1;
  infoSize = 4;
  expectRefused(TDM_INVALID_ARGUMENT,
                "info's struct_size is 4 but this runtime's is " +
                    std::to_string(sizeof(tdm_launch_info)) +
                    "; set it to sizeof(tdm_launch_info) of the matching "
                    "header");
}

TEST_F(LaunchError, ZeroEpsIsAllowed) {
  OwnedPlan plan(kernel, list);
  values[1] = 0;
  EXPECT_EQ(tdm_plan_launch(plan, values, steps, 2, 1, nullptr), TDM_OK);
  EXPECT_EQ(param[4999], 1.0f + static_cast<float>(-0.1));
}
