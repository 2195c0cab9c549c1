//===- PlaneSharing.cpp - How many entries a plane has --------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the queries about which elements share an entry of a
// plane.
//
//===----------------------------------------------------------------------===//

#include "tandem-runtime/tandem_runtime.h"
#include <algorithm>
#include <cstdio>

static bool isWhole(const tdm_plane_desc &plane) {
  return plane.group == TDM_WHOLE_TENSOR || plane.group == TDM_WHOLE_ROW;
}

static void describe(const tdm_plane_desc &plane, tdm_plane_sharing &sharing) {
#define NAME(enumerator, name) #name,
  static const char *const names[] = {TDM_GRANULARITIES(NAME)};
#undef NAME
  auto print = [&](auto... arguments) {
    std::snprintf(sharing.text, sizeof(sharing.text), arguments...);
  };
  if (plane.group == TDM_WHOLE_TENSOR)
    print("%s", "the tensor");
  else if (plane.group == TDM_WHOLE_ROW)
    print("%s", "each row");
  else if (plane.per != TDM_PER_ELEMENT && plane.group <= 1)
    print("each %s", names[plane.per]);
  else if (plane.per != TDM_PER_ELEMENT)
    print("each %u %ss", plane.group, names[plane.per]);
  else if (plane.rows > 1)
    print("each %ux%u", plane.rows, plane.group);
  else if (plane.group > 1)
    print("each %u", plane.group);
}

void tdm_plane_get_sharing(const tdm_plane_desc *plane,
                           tdm_plane_sharing *sharing) {
  int64_t group = isWhole(*plane) ? TDM_WHOLE_AXIS : std::max(plane->group, 1u);
  int64_t rows = plane->group == TDM_WHOLE_TENSOR ? TDM_WHOLE_AXIS
                                                  : std::max(plane->rows, 1u);
  *sharing = {};
  sharing->rows = plane->per == TDM_PER_ROW      ? group
                  : plane->per == TDM_PER_COLUMN ? 0
                                                 : rows;
  sharing->columns = plane->per == TDM_PER_ROW ? 0 : group;
  sharing->values = std::max(plane->history, 1u);
  describe(*plane, *sharing);
}

int64_t tdm_plane_elements_per_entry(const tdm_plane_desc *plane) {
  tdm_plane_sharing sharing;
  tdm_plane_get_sharing(plane, &sharing);
  bool isFixed =
      sharing.rows != TDM_WHOLE_AXIS && sharing.columns != TDM_WHOLE_AXIS;
  return isFixed ? sharing.rows * sharing.columns : 0;
}

/// Returns the number of groups of \p size among \p places.
static int64_t countGroups(int64_t places, int64_t size) {
  return size ? places / size + (places % size != 0) : 1;
}

int64_t tdm_plane_num_entries(const tdm_plane_desc *plane, int64_t rows,
                              int64_t columns) {
  tdm_plane_sharing sharing;
  tdm_plane_get_sharing(plane, &sharing);
  return countGroups(rows, sharing.rows) *
         countGroups(columns, sharing.columns) * sharing.values;
}
