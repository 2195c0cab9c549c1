//===- FiniteCheckTest.cpp - Checks of packages' gradients ----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests that the check of gradients refuses unknown types, which the
// package of a later compiler may contain.
//
//===----------------------------------------------------------------------===//

#include "tandem/InitAllTargets.h"
#include "tandem/Target/Compiler.h"
#include "tandem/Target/Conversions.h"
#include "gtest/gtest.h"

using namespace tandem;

TEST(FiniteCheckTest, UnknownTypes) {
  registerAllTargets();
  CompileOptions options;
  options.graph = llvm::cantFail(loadGraph("sgd"));
  options.strategy = "fp32";
  auto kernel = llvm::cantFail(compile(options));
  tdm_kernel_desc desc = *kernel->info->desc;
  std::vector<tdm_plane_desc> planes(desc.planes,
                                     desc.planes + desc.num_planes);
  for (tdm_plane_desc &plane : planes)
    if (plane.kind == TDM_ROLE_GRAD)
      plane.type = "f1";
  desc.planes = planes.data();
  auto info = std::make_shared<tdm_kernel_info>(*kernel->info);
  info->desc = &desc;
  CompiledKernel later;
  later.info = info;
  later.target = "cpu";
  EXPECT_EQ(llvm::toString(compileFiniteCheck(later).takeError()),
            "'f1' is not a float format; formats are f32, bf16, f16, f8E4M3FN "
            "and f8E5M2");
  later.info = std::move(kernel->info);
  EXPECT_TRUE(bool(compileFiniteCheck(later)));
}
