//===- TestKernels.h - Kernels written by hand ------------------*- C++ -*-===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file declares kernels with the binary interface of compiled ones, and
// small owners of the runtime's objects.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CTS_TESTKERNELS_H
#define TANDEM_RUNTIME_CTS_TESTKERNELS_H

#include "KernelCode.h"

#include "gtest/gtest.h"

#include <string>
#include <vector>

namespace tandem::cts {

/// Describes a kernel that computes param += -lr * grad in f32 and raises a
/// flag if a gradient is not finite. It has planes param and grad, hypers lr in
/// [0, inf) and eps, which is 0 or at least 1e-38, an integer step of at least
/// 1, and one scalar, -lr.
tdm_kernel_desc sgdDesc();

/// Describes a kernel without arguments that adds one to each byte of its plane
/// count.
tdm_kernel_desc countDesc();

/// Describes a kernel with two metrics of its read-only f32 plane value: the
/// sum of the values, as a balanced tree over the chunk, and the number of
/// elements.
tdm_kernel_desc sumDesc();

/// Describes a kernel that adds its group's entry of `scale` to each element of
/// `code`, and sets the entry to the group's number of elements.
tdm_kernel_desc groupDesc();

/// Owns a kernel.
class OwnedKernel {
public:
  explicit OwnedKernel(const tdm_kernel_desc &desc) {
    EXPECT_EQ(tdm_kernel_create(&desc, &kernel), TDM_OK) << tdm_last_error();
  }
  ~OwnedKernel() { tdm_kernel_destroy(kernel); }
  OwnedKernel(const OwnedKernel &) = delete;
  operator tdm_kernel *() const { return kernel; }

private:
  tdm_kernel *kernel = nullptr;
};

/// Owns a list of tensors with their pointers to planes.
class TensorList {
public:
  tdm_tensor &add(int64_t columns, const std::vector<void *> &planes) {
    pointers.push_back(planes);
    tensors.push_back({1, columns, 0, 0, 0, nullptr, nullptr});
    return tensors.back();
  }
  const tdm_tensor *data() {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (!tensors[i].planes)
        tensors[i].planes = pointers[i].data();
    return tensors.data();
  }
  int64_t size() const { return static_cast<int64_t>(tensors.size()); }
  tdm_tensor &operator[](size_t i) { return tensors[i]; }
  std::vector<void *> &planes(size_t i) { return pointers[i]; }

private:
  std::vector<tdm_tensor> tensors;
  std::vector<std::vector<void *>> pointers;
};

/// Owns a plan.
class OwnedPlan {
public:
  OwnedPlan(tdm_kernel *kernel, TensorList &list) {
    EXPECT_EQ(tdm_plan_create(kernel, list.data(), list.size(), &plan), TDM_OK)
        << tdm_last_error();
  }
  ~OwnedPlan() { tdm_plan_destroy(plan); }
  OwnedPlan(const OwnedPlan &) = delete;
  operator tdm_plan *() const { return plan; }

private:
  tdm_plan *plan = nullptr;
};

/// Launches a plan of a kernel without arguments and returns the report.
tdm_launch_info launchPlain(tdm_plan *plan, int threads);

/// Launches a plan of the sgd kernel, one row for each learning rate.
tdm_launch_info launchSgd(tdm_plan *plan, const std::vector<double> &lrs,
                          int threads);

/// Returns numbers of both signs with magnitudes from 2^(-8 * spread) to 2^(8 *
/// spread), the same ones for the same seed.
std::vector<float> randomFloats(size_t count, unsigned seed, int spread = 1);

/// Expects that a call failed with this status and message.
void expectFailure(tdm_status actual, tdm_status status,
                   const std::string &message);

/// Expects that a call failed with this status and a message that contains
/// \p part.
void expectFailureSaying(tdm_status actual, tdm_status status,
                         const std::string &part);

} // namespace tandem::cts

#endif // TANDEM_RUNTIME_CTS_TESTKERNELS_H
