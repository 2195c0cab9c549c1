//===- take-step.cpp - A step of AdamW from C++ ---------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements a C++ program that compiles AdamW under a given
// strategy, writes a package, loads the kernel from it, and takes a step. It
// needs no MLIR headers.
//
//===----------------------------------------------------------------------===//

#include "tandem-cpp/Compiler.h"
#include <cstring>

static int fail(const tdm::Error &error) {
  std::fprintf(stderr, "take-step: %s\n", error.message.c_str());
  return 1;
}

/// Compiles the kernel into a package, and loads it from there.
static tdm::Expected<tdm::Kernel> makeKernel(const std::string &strategy,
                                             const std::string &file) {
  auto compiled = tdm::compile({"adamw", strategy});
  if (!compiled)
    return compiled.error();
  tdm::PackageEntry entry = {"adamw", &*compiled};
  std::vector<std::string> targets = {"x86-64", "aarch64"};
  if (auto saved = tdm::savePackage(file, entry, targets); !saved)
    return saved.error();
  auto package = tdm::Package::open(file);
  if (!package)
    return package.error();
  return package->load("adamw");
}

/// Takes a step on one vector, whose weights are 0 and whose gradients are 1.
static tdm::Expected<float> takeStep(const tdm::Kernel &kernel) {
  constexpr int64_t size = 1000;
  std::vector<std::vector<char>> arrays;
  std::vector<void *> planes;
  const float one = 1.0f;
  float *weights = nullptr;
  for (const tdm_plane_desc &plane : kernel.planes()) {
    arrays.emplace_back(kernel.bytes(plane, 1, size));
    planes.push_back(arrays.back().data());
    if (plane.kind == TDM_ROLE_PARAM && !std::strcmp(plane.type, "f32"))
      weights = static_cast<float *>(planes.back());
    if (plane.kind == TDM_ROLE_GRAD && !std::strcmp(plane.type, "f32"))
      for (int64_t i = 0; i < size; ++i)
        std::memcpy(&arrays.back()[size_t(i) * sizeof(one)], &one, sizeof(one));
  }
  if (!weights)
    return tdm::Error{"this program has weights in f32 only; name fp32"};
  tdm_tensor tensor = {1, size, 0, 0, 0, planes.data(), nullptr};
  auto plan = tdm::Plan::create(kernel, tensor);
  if (!plan)
    return plan.error();
  std::vector<double> hypers;
  for (const tdm_hyper_desc &hyper : kernel.hypers())
    hypers.push_back(hyper.has_default ? hyper.default_value : 0.0);
  std::vector<int64_t> integers(kernel.integers().size(), 1);
  auto flags = plan->launch(hypers, integers);
  if (!flags)
    return flags.error();
  return weights[size - 1];
}

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: take-step STRATEGY PACKAGE\n");
    return 2;
  }
  auto kernel = makeKernel(argv[1], argv[2]);
  if (!kernel)
    return fail(kernel.error());
  auto weight = takeStep(*kernel);
  if (!weight)
    return fail(weight.error());
  std::printf("%s under %s, %zu arrays: the last weight is %g\n",
              kernel->info().graph, kernel->info().strategy,
              kernel->planes().size(), double(*weight));
  return 0;
}
