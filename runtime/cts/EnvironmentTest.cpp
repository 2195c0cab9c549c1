//===- EnvironmentTest.cpp - The caller's floating-point settings ---------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tests that floating-point settings of the caller do not
// reach kernels and are restored.
//
//===----------------------------------------------------------------------===//

#include "TestKernels.h"

#if defined(__SSE2__) || defined(_M_X64) || defined(__aarch64__)

#include <algorithm>

#ifdef __aarch64__

/// The control word FPCR: flush to zero, default NaNs, and round up.
static constexpr unsigned strange = 1 << 24 | 1 << 25 | 1 << 22;
static constexpr unsigned neutral = 0;

static unsigned getControl() {
  uint64_t control;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(control));
  return static_cast<unsigned>(control);
}

static void setControl(unsigned control) {
  __asm__ __volatile__("msr fpcr, %0" : : "r"(uint64_t(control)) : "memory");
}

#else

#include <xmmintrin.h>

/// The control word MXCSR: flush to zero, denormals are zero, round up, and the
/// inexact flag.
static constexpr unsigned strange = 0x8000 | 0x0040 | 0x4000 | 0x1F80 | 0x20;
static constexpr unsigned neutral = 0x1F80;

static unsigned getControl() { return _mm_getcsr(); }

static void setControl(unsigned control) { _mm_setcsr(control); }

#endif

using namespace tandem::cts;

namespace {
/// Sets the control word and restores the caller's.
struct WithControl {
  explicit WithControl(unsigned control) : saved(getControl()) {
    setControl(control);
  }
  ~WithControl() { setControl(saved); }
  unsigned saved;
};
} // namespace

static unsigned prologueControl;

static void controlPrologue(const double *, const int64_t *, uint32_t *,
                            int64_t) {
  prologueControl = getControl();
}

/// Stores the control word of the thread that ran the element.
static void controlEntry(const void *tensors, const void *chunks,
                         const uint32_t *, void *, uint32_t *, int64_t begin,
                         int64_t end) {
  forEach<Chunk>(chunks, begin, end, [=](const Chunk &chunk, int64_t) {
    uint32_t *control = Record(tensors, chunk.tensor, 1).plane<uint32_t>(0);
    std::fill(control + chunk.begin, control + chunk.end, getControl());
  });
}

TEST(Environment, CallersControlIsNeutralizedAndRestored) {
  static const tdm_plane_desc plane = {"control", 32, TDM_ACCESS_WRITE, 1};
  tdm_kernel_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.name = "control";
  desc.num_planes = desc.num_scalars = 1;
  desc.planes = &plane;
  desc.entry = controlEntry;
  desc.prologue = controlPrologue;
  OwnedKernel kernel(desc);
  for (int threads : {1, 8}) {
    std::vector<uint32_t> control(200000);
    TensorList list;
    list.add(200000, {control.data()});
    OwnedPlan plan(kernel, list);
    unsigned after;
    tdm_status status;
    {
      WithControl with(strange);
      status = tdm_plan_launch(plan, nullptr, nullptr, 1, threads, nullptr);
      after = getControl();
    }
    EXPECT_EQ(status, TDM_OK) << tdm_last_error();
    EXPECT_EQ(after, strange);
    EXPECT_EQ(prologueControl, neutral);
    EXPECT_EQ(control, std::vector<uint32_t>(control.size(), neutral));
  }
}

TEST(Environment, SubnormalsSurviveFlushToZero) {
  OwnedKernel kernel(sgdDesc());
  std::vector<float> param(20000, 0x1p-149f), grad(20000, -0x1p-148f);
  TensorList list;
  list.add(20000, {param.data(), grad.data()});
  OwnedPlan plan(kernel, list);
  {
    WithControl with(strange);
    launchSgd(plan, {1.0}, 3);
  }
  EXPECT_EQ(param, std::vector<float>(20000, 0x3p-149f));
}

TEST(Environment, MetricsIgnoreTheCallersControl) {
  OwnedKernel kernel(sumDesc());
  std::vector<float> values = randomFloats(100000, 3, /*spread=*/6);
  TensorList list;
  list.add(100000, {values.data()});
  OwnedPlan plan(kernel, list);
  double expected[2], actual[2];
  launchPlain(plan, 1);
  ASSERT_EQ(tdm_plan_metrics(plan, 0, expected, 2), TDM_OK);
  {
    WithControl with(strange);
    launchPlain(plan, 2);
    tdm_plan_metrics(plan, 0, actual, 2);
  }
  EXPECT_EQ(actual[0], expected[0]);
}

#endif
