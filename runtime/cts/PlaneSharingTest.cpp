//===- PlaneSharingTest.cpp - How many entries a plane has ----------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file tests the queries about which elements share an entry of a plane.
//
//===----------------------------------------------------------------------===//

#include "tandem-runtime/tandem_runtime.h"
#include "gtest/gtest.h"
#include <algorithm>

static tdm_plane_desc makePlane(uint32_t group, tdm_granularity per,
                                uint32_t rows, uint32_t history) {
  tdm_plane_desc plane = {};
  plane.name = "plane";
  plane.bits = 32;
  plane.group = group;
  plane.per = per;
  plane.rows = rows;
  plane.history = history;
  return plane;
}

struct Case {
  tdm_plane_desc plane;
  const char *text;
  int64_t rows, columns;
  int64_t elements;
  /// The numbers of entries for 5 rows of 130 columns, for 5 rows without
  /// columns, and for no rows.
  int64_t some, noColumns, noRows;
};

TEST(PlaneSharingTest, Entries) {
  constexpr int64_t all = TDM_WHOLE_AXIS;
  const tdm_granularity element = TDM_PER_ELEMENT, row = TDM_PER_ROW,
                        column = TDM_PER_COLUMN;
  const Case cases[] = {
      {makePlane(0, element, 0, 0), "", 1, 1, 1, 650, 0, 0},
      {makePlane(1, element, 1, 1), "", 1, 1, 1, 650, 0, 0},
      {makePlane(64, element, 0, 0), "each 64", 1, 64, 64, 15, 0, 0},
      {makePlane(64, element, 64, 0), "each 64x64", 64, 64, 4096, 3, 0, 0},
      {makePlane(TDM_WHOLE_ROW, element, 0, 0), "each row", 1, all, 0, 5, 0, 0},
      {makePlane(TDM_WHOLE_TENSOR, element, 0, 7), "the tensor", all, all, 0, 7,
       0, 0},
      {makePlane(1, row, 0, 3), "each row", 1, 0, 0, 15, 15, 0},
      {makePlane(2, row, 0, 0), "each 2 rows", 2, 0, 0, 3, 3, 0},
      {makePlane(1, column, 0, 0), "each column", 0, 1, 0, 130, 0, 130},
      {makePlane(64, column, 0, 0), "each 64 columns", 0, 64, 0, 3, 0, 3},
      {makePlane(TDM_WHOLE_TENSOR, row, 0, 0), "the tensor", all, 0, 0, 1, 1,
       0}};
  for (const Case &expected : cases) {
    SCOPED_TRACE(expected.text);
    tdm_plane_sharing sharing;
    tdm_plane_get_sharing(&expected.plane, &sharing);
    EXPECT_STREQ(sharing.text, expected.text);
    EXPECT_EQ(sharing.rows, expected.rows);
    EXPECT_EQ(sharing.columns, expected.columns);
    EXPECT_EQ(sharing.values, std::max(expected.plane.history, 1u));
    EXPECT_EQ(tdm_plane_elements_per_entry(&expected.plane), expected.elements);
    auto count = [&](int64_t rows, int64_t columns) {
      return tdm_plane_num_entries(&expected.plane, rows, columns);
    };
    EXPECT_EQ(count(5, 130), expected.some);
    EXPECT_EQ(count(5, 0), expected.noColumns);
    EXPECT_EQ(count(0, 130), expected.noRows);
  }
}

TEST(PlaneSharingTest, TheLongestTextFits) {
  tdm_plane_sharing sharing;
  tdm_plane_desc plane = makePlane(TDM_WHOLE_ROW - 1, TDM_PER_COLUMN, 0, 0);
  tdm_plane_get_sharing(&plane, &sharing);
  EXPECT_STREQ(sharing.text, "each 4294967293 columns");
}
