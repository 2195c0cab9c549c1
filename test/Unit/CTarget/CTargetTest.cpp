//===- CTargetTest.cpp - Tests of an external target ----------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests that a target and a driver outside of Tandem compile, store,
// load and run a kernel with scales and two phases, with the same bits as on
// the CPU.
//
//===----------------------------------------------------------------------===//

#include "CTarget.h"

#include "tandem/Target/Package.h"
#include "tandem/Target/Run.h"
#include "llvm/Support/FileSystem.h"
#include "gtest/gtest.h"
#include <random>

using namespace mlir;
using namespace tandem;

static void registerOnce() {
  static bool once = [] {
    ctarget::registerTarget();
    EXPECT_EQ(ctarget::registerDriver(), TDM_OK) << tdm_last_error();
    return true;
  }();
  (void)once;
}

static llvm::Expected<std::unique_ptr<CompiledKernel>>
compileFor(const char *target, const char *graph, const char *strategy) {
  registerOnce();
  CompileOptions options;
  options.graph = llvm::cantFail(loadGraph(graph));
  options.strategy = strategy;
  options.target = target;
  return compile(options);
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

namespace {
/// The tensors of a run: the bytes of each plane.
class Tensors {
public:
  Tensors(const tdm_kernel_info &info, llvm::ArrayRef<int64_t> sizes)
      : info(info), sizes(sizes) {
    for (int64_t size : sizes)
      for (const tdm_plane_desc &plane : getPlanes(info))
        bytes.emplace_back(
            (tdm_plane_num_entries(&plane, 1, size) * plane.bits + 7) / 8);
    fill("param", 1, 0.5f);
  }

  /// Fills a plane with random bf16 numbers.
  void fill(llvm::StringRef name, unsigned seed, float deviation) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, deviation);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const tdm_plane_desc &plane = info.desc->planes[i % getNumPlanes()];
      if (plane.name != name)
        continue;
      ASSERT_STREQ(plane.type, "bf16");
      auto *values = reinterpret_cast<uint16_t *>(bytes[i].data());
      for (size_t k = 0; k < bytes[i].size() / 2; ++k)
        values[k] = llvm::bit_cast<uint32_t>(normal(random)) >> 16;
    }
  }

  /// Returns a list that points to the planes.
  std::vector<tdm_tensor> getList() {
    pointers.clear();
    for (auto &plane : bytes)
      pointers.push_back(plane.data());
    std::vector<tdm_tensor> list;
    for (auto [i, size] : llvm::enumerate(sizes))
      list.push_back(
          {1, size, 0, int64_t(i), 0, pointers.data() + i * getNumPlanes()});
    return list;
  }

  size_t getNumPlanes() const { return info.desc->num_planes; }

  std::vector<std::vector<char>> bytes;

private:
  const tdm_kernel_info &info;
  std::vector<int64_t> sizes;
  std::vector<void *> pointers;
};
} // namespace

/// Returns hyperparameters by name; those that are not listed have defaults.
static std::vector<double> getHypers(const tdm_kernel_info &info,
                                     double maxNorm) {
  std::vector<double> values;
  for (const tdm_hyper_desc &hyper : tandem::getHypers(info)) {
    llvm::StringRef name = hyper.name;
    values.push_back(name == "max_norm"       ? maxNorm
                     : name == "lr"           ? 0.01
                     : name == "weight_decay" ? 0.1
                                              : hyper.default_value);
  }
  return values;
}

static void launch(tdm_kernel *kernel, const tdm_kernel_info &info,
                   Tensors &tensors, int64_t step, double maxNorm) {
  std::vector<tdm_tensor> list = tensors.getList();
  tdm_plan *plan = nullptr;
  ASSERT_EQ(tdm_plan_create(kernel, list.data(), list.size(), &plan), TDM_OK)
      << tdm_last_error();
  std::vector<double> hypers = getHypers(info, maxNorm);
  EXPECT_EQ(tdm_plan_launch(plan, hypers.data(), &step, 1, 2, nullptr), TDM_OK)
      << tdm_last_error();
  tdm_plan_destroy(plan);
}

/// Loads a package's kernel on the device "c".
static tdm_kernel *loadOnC(const std::string &package) {
  tdm_package *opened = nullptr;
  tdm_device *device = nullptr;
  tdm_kernel *kernel = nullptr;
  EXPECT_EQ(
      tdm_package_open_memory(package.data(), package.size(), "c", &opened),
      TDM_OK)
      << tdm_last_error();
  EXPECT_EQ(tdm_device_open("c", 0, &device), TDM_OK) << tdm_last_error();
  EXPECT_EQ(tdm_package_load(opened, nullptr, device, nullptr, &kernel), TDM_OK)
      << tdm_last_error();
  tdm_device_close(device);
  tdm_package_close(opened);
  return kernel;
}

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

TEST(CTargetTest, APackagesKernelHasTheCPUsBits) {
  auto cpu = llvm::cantFail(compileFor("cpu", "adamw_clip", "coat"));
  const tdm_kernel_info &info = *cpu->info;
  EXPECT_EQ(info.num_phases, 2u);
  EXPECT_TRUE(llvm::any_of(getPlanes(info), [](const tdm_plane_desc &plane) {
    return plane.group > 1;
  }));
  std::string package = llvm::cantFail(writePackage(
      {PackageEntry{"adamw_clip", cpu.get()}}, {"x86-64", "aarch64", "c"}));
  tdm_kernel *onC = loadOnC(package);
  ASSERT_NE(onC, nullptr);
  tdm_kernel *onCPU = llvm::cantFail(createRuntimeKernel(*cpu));
  const int64_t sizes[] = {1, 31, 128, 4096, 70001};
  Tensors first(info, sizes), second(info, sizes);
  std::vector<std::vector<char>> before = first.bytes;
  for (int64_t step = 1; step <= 5; ++step) {
    // The gradients' norm is below the limit, then above it.
    double maxNorm = step < 3 ? 1000.0 : 0.5;
    for (Tensors *tensors : {&first, &second})
      tensors->fill("grad", 100 + step, 0.1f);
    launch(onCPU, info, first, step, maxNorm);
    launch(onC, info, second, step, maxNorm);
    for (size_t i = 0; i < first.bytes.size(); ++i)
      ASSERT_TRUE(first.bytes[i] == second.bytes[i])
          << "plane " << info.desc->planes[i % info.desc->num_planes].name
          << " of tensor " << i / info.desc->num_planes << " after step "
          << step;
  }
  for (auto [plane, was] : llvm::zip(first.bytes, before))
    EXPECT_TRUE(plane != was) << "each plane has changed";
  tdm_kernel_destroy(onC);
  tdm_kernel_destroy(onCPU);
}

TEST(CTargetTest, CompiledKernelsRunOnItsDevice) {
  auto kernel = llvm::cantFail(compileFor("c", "adamw_clip", "coat"));
  EXPECT_STREQ(kernel->image->kind, ctarget::imageKind);
  tdm_device *device = nullptr;
  ASSERT_EQ(tdm_device_open("c", 0, &device), TDM_OK);
  tdm_kernel *handle = llvm::cantFail(createRuntimeKernel(*kernel, device));
  tdm_kernel_destroy(handle);
  auto other = llvm::cantFail(compileFor("cpu", "adamw_clip", "coat"));
  EXPECT_EQ(llvm::toString(createRuntimeKernel(*other, device).takeError()),
            "kernel 'adamw_clip' was compiled for this process; compile it for "
            "'c'");
  tdm_device_close(device);
  EXPECT_EQ(llvm::toString(createRuntimeKernel(*kernel).takeError()),
            "kernel 'adamw_clip': no image runs on cpu; there is one for c; "
#ifdef __aarch64__
            "compile it for aarch64, which every AArch64 processor runs");
#else
            "compile it for x86-64, which every x86-64 processor runs");
#endif
}

TEST(CTargetTest, WhatItCannotEmitIsRefused) {
  std::string message =
      llvm::toString(compileFor("c", "adamw", "bf16-stochastic").takeError());
  EXPECT_TRUE(llvm::StringRef(message).contains(
      "C code for this operation is not written yet"))
      << message;
}
