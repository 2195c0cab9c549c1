//===- KernelErrorTest.cpp - Refused kernel descriptions ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tests of the checks of a kernel's description.
//
//===----------------------------------------------------------------------===//

#include "TestKernels.h"

#include <functional>
#include <limits>

using namespace tandem::cts;

/// Expects that creating the sgd kernel with an edited description fails and
/// does not change the result.
static void expectRefused(const std::function<void(tdm_kernel_desc &)> &edit,
                          const std::string &message) {
  tdm_kernel_desc desc = sgdDesc();
  edit(desc);
  auto *untouched = reinterpret_cast<tdm_kernel *>(&desc);
  tdm_kernel *kernel = untouched;
  expectFailure(tdm_kernel_create(&desc, &kernel), TDM_INVALID_ARGUMENT,
                message);
  EXPECT_EQ(kernel, untouched);
}

TEST(KernelError, NullAndVersion) {
  tdm_kernel_desc desc = sgdDesc();
  tdm_kernel *kernel = nullptr;
  expectFailure(tdm_kernel_create(&desc, nullptr), TDM_INVALID_ARGUMENT,
                "tdm_kernel_create: kernel is NULL; pass where to store it");
  expectFailure(tdm_kernel_create(nullptr, &kernel), TDM_INVALID_ARGUMENT,
                "tdm_kernel_create: desc is NULL; pass a tdm_kernel_desc");
  expectRefused([](tdm_kernel_desc &desc) { desc.struct_size = 8; },
                "tdm_kernel_create: struct_size is 8 but this runtime's is " +
                    std::to_string(sizeof(tdm_kernel_desc)) +
                    "; set it to sizeof(tdm_kernel_desc) of the matching "
                    "header");
  expectRefused([](tdm_kernel_desc &desc) { desc.name = nullptr; },
                "tdm_kernel_create: name is NULL; name the kernel");
}

TEST(KernelError, MissingParts) {
  expectRefused([](tdm_kernel_desc &desc) { desc.planes = nullptr; },
                "kernel 'sgd': planes is NULL but num_planes is 2");
  expectRefused([](tdm_kernel_desc &desc) { desc.hypers = nullptr; },
                "kernel 'sgd': hypers is NULL but num_hypers is 2");
  expectRefused([](tdm_kernel_desc &desc) { desc.integers = nullptr; },
                "kernel 'sgd': integers is NULL but num_integers is 1");
  expectRefused([](tdm_kernel_desc &desc) { desc.entry = nullptr; },
                "kernel 'sgd': entry is NULL; pass the compiled function");
  expectRefused([](tdm_kernel_desc &desc) { desc.prologue = nullptr; },
                "kernel 'sgd': prologue is NULL but num_scalars is 1; pass "
                "the compiled prologue");
  expectRefused(
      [](tdm_kernel_desc &desc) { desc.workspace_doubles_per_chunk = 5000; },
      "kernel 'sgd': workspace_doubles_per_chunk is 5000; use at most 4096");
}

TEST(KernelError, Planes) {
  auto expectPlane = [](tdm_plane_desc plane, const char *message) {
    tdm_plane_desc planes[] = {{"param", 32, TDM_ACCESS_WRITE, 1}, plane};
    expectRefused([&](tdm_kernel_desc &desc) { desc.planes = planes; },
                  message);
  };
  expectPlane({nullptr, 32, TDM_ACCESS_READ},
              "kernel 'sgd': plane 1 has no name; set tdm_plane_desc.name");
  for (uint32_t bits : {0u, 24u, 128u})
    expectPlane({"grad", bits, TDM_ACCESS_READ},
                ("kernel 'sgd': plane 'grad' has " + std::to_string(bits) +
                 " bits per element; use 1, 2, 4, 8, 16, 32 or 64")
                    .c_str());
  expectPlane({"grad", 32, 0},
              "kernel 'sgd': plane 'grad' has access 0; use TDM_ACCESS_READ, "
              "TDM_ACCESS_WRITE or both");
  expectPlane({"grad", 32, 5},
              "kernel 'sgd': plane 'grad' has access 5; use TDM_ACCESS_READ, "
              "TDM_ACCESS_WRITE or both");
  for (uint32_t group : {3u, 48u, 8192u, 0x80000000u})
    expectPlane({"grad", 32, TDM_ACCESS_READ, group},
                ("kernel 'sgd': plane 'grad' has an entry for each " +
                 std::to_string(group) +
                 " elements; use a power of two of at most 4096, TDM_WHOLE_ROW "
                 "or TDM_WHOLE_TENSOR")
                    .c_str());
  expectPlane({"grad", 32, TDM_ACCESS_READ, TDM_WHOLE_TENSOR, 65537},
              "kernel 'sgd': plane 'grad' has 65537 values an entry; use at "
              "most 65536");
}

TEST(KernelError, HypersAndIntegers) {
  auto expectHyper = [](tdm_hyper_desc hyper, const char *message) {
    tdm_hyper_desc hypers[] = {{"lr", 0, 1, 0, 0, 0}, hyper};
    expectRefused([&](tdm_kernel_desc &desc) { desc.hypers = hypers; },
                  message);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expectHyper({nullptr, 0, 1, 0, 0, 0},
              "kernel 'sgd': hyper 1 has no name; set tdm_hyper_desc.name");
  expectHyper({"eps", 1, 0.5, 0, 0, 0},
              "kernel 'sgd': hyper 'eps' has an empty domain from 1 to 0.5; "
              "set min below max");
  expectHyper({"eps", 1, 1, 0, 1, 0},
              "kernel 'sgd': hyper 'eps' has an empty domain from 1 to 1; "
              "set min below max");
  expectHyper({"eps", nan, 1, 0, 0, 0},
              "kernel 'sgd': hyper 'eps' has an empty domain from nan to 1; "
              "set min below max");
  expectHyper({"eps", 0, 1, 0, 0, -1},
              "kernel 'sgd': hyper 'eps' has min_positive -1; use 0 or a "
              "positive value");
  tdm_integer_desc integer = {nullptr, 0};
  expectRefused([&](tdm_kernel_desc &desc) { desc.integers = &integer; },
                "kernel 'sgd': integer 0 has no name; set "
                "tdm_integer_desc.name");
}

TEST(KernelError, TheDescriptionIsCopied) {
  std::string name = "temporary";
  tdm_kernel_desc desc = countDesc();
  desc.name = name.c_str();
  OwnedKernel kernel(desc);
  name = "overwritten";
  tdm_plan *plan = nullptr;
  expectFailure(tdm_plan_create(kernel, nullptr, 1, &plan),
                TDM_INVALID_ARGUMENT,
                "kernel 'temporary': tensors is NULL; pass 1 tensors");
}

TEST(KernelError, LongNamesCutTheMessage) {
  std::string name(5000, 'x');
  tdm_kernel_desc desc = countDesc();
  desc.name = name.c_str();
  OwnedKernel kernel(desc);
  tdm_plan *plan = nullptr;
  EXPECT_EQ(tdm_plan_create(kernel, nullptr, 1, &plan), TDM_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(tdm_last_error()).substr(0, 10), "kernel 'xx");
  EXPECT_LT(std::string(tdm_last_error()).size(), 1024u);
}

TEST(KernelError, StatusesAndVersion) {
  EXPECT_EQ(tdm_runtime_version(), TDM_RUNTIME_VERSION);
  EXPECT_STREQ(tdm_status_string(TDM_OK), "ok");
  EXPECT_STREQ(tdm_status_string(TDM_INVALID_ARGUMENT), "invalid argument");
  EXPECT_STREQ(tdm_status_string(TDM_OUT_OF_DOMAIN), "out of domain");
  EXPECT_STREQ(tdm_status_string(TDM_OVERLAP), "overlapping planes");
  EXPECT_STREQ(tdm_status_string(TDM_OUT_OF_MEMORY), "out of memory");
  EXPECT_STREQ(tdm_status_string(TDM_INVALID_STATE), "invalid state");
  EXPECT_STREQ(tdm_status_string(static_cast<tdm_status>(99)),
               "unknown status");
}
