//===- TensorErrorTest.cpp - Refused tensors ------------------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements tests of the checks of a tensor list.
//
//===----------------------------------------------------------------------===//

#include "TestKernels.h"

#include <array>
#include <cmath>
#include <sstream>

using namespace tandem::cts;

namespace {

/// Two valid tensors of the sgd kernel, which a test makes invalid.
class TensorError : public testing::Test {
protected:
  TensorError() : kernel(sgdDesc()), param(64, 1.0f), grad(64, 1.0f) {
    list.add(8, {&param[0], &grad[0]});
    list.add(8, {&param[8], &grad[8]});
  }

  void expectRefused(const std::string &message,
                     tdm_status status = TDM_INVALID_ARGUMENT) {
    auto *untouched = reinterpret_cast<tdm_plan *>(this);
    tdm_plan *plan = untouched;
    expectFailure(tdm_plan_create(kernel, list.data(), list.size(), &plan),
                  status, "kernel 'sgd': " + message);
    EXPECT_EQ(plan, untouched);
    EXPECT_EQ(param, std::vector<float>(64, 1.0f));
  }

  OwnedKernel kernel;
  std::vector<float> param, grad;
  TensorList list;
};

} // namespace

/// Returns the latest message with "<kind index>" in place of parts that are
/// not plain text.
static std::string describeParts() {
  tdm_message_part parts[16];
  size_t count = tdm_last_error_parts(parts, std::size(parts));
  std::ostringstream text;
  for (size_t i = 0; i < count; ++i)
    if (parts[i].kind == TDM_MESSAGE_TEXT)
      text << std::string(parts[i].text, parts[i].size);
    else
      text << "<" << parts[i].kind << " " << parts[i].index << ">";
  return text.str();
}

TEST_F(TensorError, PartsOfMessages) {
  list.planes(1) = list.planes(0);
  tdm_plan *plan = nullptr;
  EXPECT_EQ(tdm_plan_create(kernel, list.data(), 2, &plan), TDM_OVERLAP);
  EXPECT_EQ(describeParts(),
            "kernel 'sgd': <1 0>: plane '<3 0>', which the kernel writes, "
            "shares 32 bytes with plane '<3 0>' of <1 1>; give each its own "
            "memory");
  tdm_message_part all[9];
  EXPECT_EQ(tdm_last_error_parts(all, 9), 9u);
  EXPECT_EQ(std::string(all[3].text, all[3].size), "param");
  // Parts that do not fit are omitted, but counted.
  tdm_message_part part = {};
  EXPECT_EQ(tdm_last_error_parts(&part, 1), 9u);
  EXPECT_EQ(std::string(part.text, part.size), "kernel 'sgd': ");
  EXPECT_EQ(tdm_last_error_parts(nullptr, 0), 9u);
}

TEST_F(TensorError, PartsNameScalars) {
  OwnedPlan plan(kernel, list);
  double hypers[] = {0.1, 2};
  int64_t step = 1;
  EXPECT_EQ(tdm_plan_launch(plan, hypers, &step, 1, 1, nullptr),
            TDM_OUT_OF_DOMAIN);
  EXPECT_EQ(describeParts(), "kernel 'sgd': hyper '<4 1>' of <2 0> is 2; it "
                             "must be at least 0 and less than 1");
  hypers[1] = 0;
  step = 0;
  EXPECT_EQ(tdm_plan_launch(plan, hypers, &step, 1, 1, nullptr),
            TDM_OUT_OF_DOMAIN);
  EXPECT_EQ(describeParts(), "kernel 'sgd': integer '<5 0>' of <2 0> is 0; it "
                             "must be at least 1");
}

TEST_F(TensorError, NullArguments) {
  tdm_plan *plan = nullptr;
  expectFailure(tdm_plan_create(nullptr, list.data(), 2, &plan),
                TDM_INVALID_ARGUMENT,
                "tdm_plan_create: kernel is NULL; pass one from "
                "tdm_kernel_create");
  expectFailure(tdm_plan_create(kernel, list.data(), 2, nullptr),
                TDM_INVALID_ARGUMENT,
                "kernel 'sgd': plan is NULL; pass where to store it");
  expectFailure(tdm_plan_create(kernel, nullptr, 2, &plan),
                TDM_INVALID_ARGUMENT,
                "kernel 'sgd': tensors is NULL; pass 2 tensors");
  expectFailure(tdm_plan_create(kernel, list.data(), -1, &plan),
                TDM_INVALID_ARGUMENT,
                "kernel 'sgd': the number of tensors is -1; it must not be "
                "negative");
  expectFailure(tdm_plan_update(nullptr, nullptr, 0), TDM_INVALID_ARGUMENT,
                "tdm_plan_update: plan is NULL; pass one from "
                "tdm_plan_create");
  tdm_plan_destroy(nullptr);
  tdm_kernel_destroy(nullptr);
}

TEST_F(TensorError, NegativeSizes) {
  list[1].rows = -2;
  expectRefused("tensor 1: rows is -2; it must not be negative");
  list[1].rows = 1;
  list[1].columns = INT64_MIN;
  expectRefused("tensor 1: columns is -9223372036854775808; it must not be "
                "negative");
  list[1].columns = 8;
  list[0].first = -1;
  expectRefused("tensor 0: first is -1; it must not be negative");
  list[0].first = 0;
  list[0].scalar_row = -3;
  expectRefused("tensor 0: scalar_row is -3; it must not be negative");
}

TEST_F(TensorError, Overflows) {
  list[1].rows = list[1].columns = int64_t(1) << 32;
  expectRefused("tensor 1: 4294967296 rows of 4294967296 columns overflow 64 "
                "bits; correct the shape");
  list[1].rows = INT64_MAX;
  list[1].columns = 1;
  expectRefused("tensor 1: plane 'param' of 9223372036854775807 elements does "
                "not fit into memory; correct rows and columns");
  list[1].rows = 1;
  list[1].columns = 8;
  list[1].first = INT64_MAX - 7;
  expectRefused("tensor 1: first is 9223372036854775800, so that the index of "
                "the last element overflows 64 bits; correct first");
  list[1].first = 0;
  list[1].scalar_row = int64_t(1) << 31;
  expectRefused("tensor 1: scalar_row is 2147483648; it must be below "
                "2147483648");
}

TEST_F(TensorError, NullPlanes) {
  list.planes(1)[1] = nullptr;
  expectRefused("tensor 1: plane 'grad' is NULL but the tensor has 8 "
                "elements; pass the plane's memory");
  tdm_tensor tensor = {1, 8, 0, 0, 0, nullptr};
  tdm_plan *plan = nullptr;
  expectFailure(tdm_plan_create(kernel, &tensor, 1, &plan),
                TDM_INVALID_ARGUMENT,
                "kernel 'sgd': tensor 0: planes is NULL; pass 2 pointers, the "
                "first of them 'param'");
  tensor.columns = 0;
  EXPECT_EQ(tdm_plan_create(kernel, &tensor, 1, &plan), TDM_OK);
  tdm_plan_destroy(plan);
}

TEST_F(TensorError, Misalignment) {
  char *odd = reinterpret_cast<char *>(&grad[8]) + 2;
  list.planes(1)[1] = odd;
  std::ostringstream address;
  address << static_cast<void *>(odd);
  expectRefused("tensor 1: plane 'grad' is at " + address.str() +
                ", which is not aligned to its elements of 4 bytes; align it");
}

//===----------------------------------------------------------------------===//
// Overlaps
//===----------------------------------------------------------------------===//

TEST_F(TensorError, WrittenPlanesOverlap) {
  list.planes(1)[0] = &param[7];
  expectRefused("tensor 0: plane 'param', which the kernel writes, shares 4 "
                "bytes with plane 'param' of tensor 1; give each its own "
                "memory",
                TDM_OVERLAP);
}

TEST_F(TensorError, ReadPlaneInsideOfAWrittenOne) {
  list.planes(0)[1] = &param[8];
  expectRefused("tensor 1: plane 'param', which the kernel writes, shares 32 "
                "bytes with plane 'grad' of tensor 0; give each its own "
                "memory",
                TDM_OVERLAP);
}

TEST_F(TensorError, WrittenPlaneInsideOfAReadOne) {
  // Shorter intervals that end earlier follow the long read-only interval.
  list.add(40, {&param[24], &grad[16]});
  list.add(1, {&grad[55], &grad[0]});
  list.add(1, {&param[23], &grad[20]});
  expectRefused("tensor 3: plane 'param', which the kernel writes, shares 4 "
                "bytes with plane 'grad' of tensor 2; give each its own "
                "memory",
                TDM_OVERLAP);
}

TEST_F(TensorError, ReadOnlyPlanesMayOverlap) {
  list.planes(1)[1] = &grad[4];
  OwnedPlan plan(kernel, list);
  launchSgd(plan, {1.0}, 1);
  EXPECT_EQ(param[15], 0.0f);
}

TEST_F(TensorError, EmptyTensorsOverlapNothing) {
  list.add(0, {&param[2], &param[2]});
  OwnedPlan plan(kernel, list);
}

TEST(TensorOverlap, ElementsSmallerThanAByte) {
  static const tdm_plane_desc plane = {"nibbles", 4, TDM_ACCESS_WRITE, 1};
  tdm_kernel_desc desc = countDesc();
  desc.planes = &plane;
  OwnedKernel kernel(desc);
  uint8_t bytes[8];
  TensorList good, bad;
  good.add(5, {&bytes[0]});
  good.add(5, {&bytes[3]});
  OwnedPlan plan(kernel, good);
  bad.add(5, {&bytes[0]});
  bad.add(5, {&bytes[2]});
  tdm_plan *refused = nullptr;
  expectFailure(tdm_plan_create(kernel, bad.data(), 2, &refused), TDM_OVERLAP,
                "kernel 'count': tensor 0: plane 'nibbles', which the kernel "
                "writes, shares 1 bytes with plane 'nibbles' of tensor 1; "
                "give each its own memory");
}

//===----------------------------------------------------------------------===//
// Planes with an entry for each group
//===----------------------------------------------------------------------===//

namespace {
/// A tensor of 70 elements, which has three entries.
class TensorGroups : public testing::Test {
protected:
  TensorGroups() : kernel(groupDesc()), codes(140, 1), scales{1, 2, 3, 4, 5} {
    list.add(70, {&codes[0], &scales[0]});
  }

  void expectRefused(const std::string &message, tdm_status status) {
    tdm_plan *plan = nullptr;
    expectFailure(tdm_plan_create(kernel, list.data(), list.size(), &plan),
                  status, "kernel 'group': " + message);
  }

  OwnedKernel kernel;
  std::vector<uint8_t> codes;
  std::vector<uint16_t> scales;
  TensorList list;
};
} // namespace

TEST_F(TensorGroups, Launch) {
  list[0].first = 64;
  // Its two entries directly follow the three of the first.
  list.add(33, {&codes[70], &scales[3]});
  OwnedPlan plan(kernel, list);
  ASSERT_EQ(tdm_plan_launch(plan, nullptr, nullptr, 1, 2, nullptr), TDM_OK)
      << tdm_last_error();
  EXPECT_EQ(scales, (std::vector<uint16_t>{32, 32, 6, 32, 1}));
  EXPECT_EQ(codes[31], 2);
  EXPECT_EQ(codes[32], 3);
  EXPECT_EQ(codes[69], 4);
  EXPECT_EQ(codes[70], 5);
  EXPECT_EQ(codes[102], 6);
  EXPECT_EQ(codes[103], 1);
}

TEST_F(TensorGroups, LaunchOverRows) {
  // Each row of 35 elements has an entry for 32 of them and one for 3.
  list[0].rows = 2;
  list[0].columns = 35;
  list[0].first = 70;
  OwnedPlan plan(kernel, list);
  ASSERT_EQ(tdm_plan_launch(plan, nullptr, nullptr, 1, 2, nullptr), TDM_OK)
      << tdm_last_error();
  EXPECT_EQ(scales, (std::vector<uint16_t>{32, 3, 32, 3, 5}));
  EXPECT_EQ(codes[31], 2);
  EXPECT_EQ(codes[32], 3);
  EXPECT_EQ(codes[34], 3);
  EXPECT_EQ(codes[35], 4);
  EXPECT_EQ(codes[67], 5);
  EXPECT_EQ(codes[70], 1);
}

TEST_F(TensorGroups, FirstInsideOfARow) {
  list[0].rows = 2;
  list[0].columns = 35;
  list[0].first = 32;
  expectRefused("tensor 0: first is 32, inside of a row of 35 elements, where "
                "groups begin anew; shard at multiples of 35",
                TDM_INVALID_ARGUMENT);
}

TEST_F(TensorGroups, EntriesOfRowsOverlap) {
  list[0].rows = 2;
  list[0].columns = 35;
  list.add(33, {&codes[70], &scales[3]});
  expectRefused("tensor 0: plane 'scale', which the kernel writes, shares 2 "
                "bytes with plane 'scale' of tensor 1; give each its own "
                "memory",
                TDM_OVERLAP);
}

TEST_F(TensorGroups, FirstInsideOfAGroup) {
  list[0].first = 48;
  expectRefused("tensor 0: first is 48, inside of a group of 32 elements that "
                "share an entry of plane 'scale'; shard at multiples of 32",
                TDM_INVALID_ARGUMENT);
}

TEST_F(TensorGroups, NullPlane) {
  list.planes(0)[1] = nullptr;
  expectRefused("tensor 0: plane 'scale' is NULL but the tensor has 70 "
                "elements; pass the plane's memory",
                TDM_INVALID_ARGUMENT);
}

TEST_F(TensorGroups, Overlap) {
  list.add(33, {&codes[70], &scales[2]});
  expectRefused("tensor 0: plane 'scale', which the kernel writes, shares 2 "
                "bytes with plane 'scale' of tensor 1; give each its own "
                "memory",
                TDM_OVERLAP);
}

//===----------------------------------------------------------------------===//
// All pairs
//===----------------------------------------------------------------------===//

/// Compares the check with the quadratic definition on many random intervals.
TEST(TensorOverlap, AgreesWithAllPairs) {
  OwnedKernel kernel(sgdDesc());
  std::vector<float> memory(4000);
  int refused = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::vector<float> random = randomFloats(16, seed);
    auto pick = [&](int i, int range) { // An index below range.
      return static_cast<int>(std::abs(random[i]) * 1e6f) % range;
    };
    TensorList list;
    std::vector<std::array<int, 3>> spans; // Begin, end, written.
    for (int i = 0; i < 4; ++i) {
      int size = pick(i, 60), a = pick(i + 4, 900), b = pick(i + 8, 900);
      list.add(size, {&memory[a], &memory[b]});
      if (size) {
        spans.push_back({a, a + size, 1});
        spans.push_back({b, b + size, 0});
      }
    }
    bool overlap = false;
    for (size_t i = 0; i < spans.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        overlap |= (spans[i][2] || spans[j][2]) && spans[i][0] < spans[j][1] &&
                   spans[j][0] < spans[i][1];
    tdm_plan *plan = nullptr;
    EXPECT_EQ(tdm_plan_create(kernel, list.data(), 4, &plan),
              overlap ? TDM_OVERLAP : TDM_OK)
        << "seed " << seed;
    tdm_plan_destroy(plan);
    refused += overlap;
  }
  EXPECT_GT(refused, 50);
  EXPECT_LT(refused, 290);
}
