//===- LaunchABI.cpp - The launch ABI for Python's tests ------------------===//
//
// Part of the Tandem Project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file implements the launch ABI for Python: the offsets of the records'
// fields and the names of functions, from the header that the compiler and the
// runtime use.
//
//===----------------------------------------------------------------------===//

#include "LaunchABI.h"

#include "tandem-runtime/tandem_launch.h"
#include <cstddef>

namespace nb = nanobind;

#define FIELD(record, name) fields[#name] = offsetof(record, name)

static nb::dict describeTensor() {
  nb::dict fields;
  FIELD(tdm_launch_tensor, rows);
  FIELD(tdm_launch_tensor, columns);
  FIELD(tdm_launch_tensor, num_elements);
  FIELD(tdm_launch_tensor, first);
  FIELD(tdm_launch_tensor, key);
  FIELD(tdm_launch_tensor, scalar_row);
  FIELD(tdm_launch_tensor, totals);
  FIELD(tdm_launch_tensor, first_chunk);
  FIELD(tdm_launch_tensor, end_chunk);
  FIELD(tdm_launch_tensor, first_column_chunk);
  FIELD(tdm_launch_tensor, end_column_chunk);
  FIELD(tdm_launch_tensor, tiles_across);
  FIELD(tdm_launch_tensor, tiles_down);
  return fields;
}

static nb::dict describeChunk() {
  nb::dict fields;
  FIELD(tdm_launch_chunk, tensor);
  FIELD(tdm_launch_chunk, row);
  FIELD(tdm_launch_chunk, begin);
  FIELD(tdm_launch_chunk, end);
  return fields;
}

static nb::dict describeTile() {
  nb::dict fields;
  FIELD(tdm_launch_tile, tensor);
  FIELD(tdm_launch_tile, first_row);
  FIELD(tdm_launch_tile, end_row);
  FIELD(tdm_launch_tile, first_column);
  FIELD(tdm_launch_tile, end_column);
  FIELD(tdm_launch_tile, row_parts);
  FIELD(tdm_launch_tile, column_parts);
  return fields;
}

static nb::dict describeFlags() {
  nb::dict fields;
  FIELD(tdm_launch_flags, raised);
  FIELD(tdm_launch_flags, skip);
  return fields;
}

#define CONSTANT(name) constants[#name] = TDM_LAUNCH_##name

static nb::dict describeConstants() {
  nb::dict constants;
  CONSTANT(PADDING);
  CONSTANT(PROLOGUE);
  CONSTANT(TOTALS);
  CONSTANT(MODEL);
  CONSTANT(ROW_TOTALS);
  CONSTANT(COLUMN_TOTALS);
  CONSTANT(BANDS);
  return constants;
}

void bindLaunchABI(nb::module_ &m) {
  nb::dict records;
  records["tensor"] =
      nb::make_tuple(sizeof(tdm_launch_tensor), describeTensor());
  records["chunk"] = nb::make_tuple(sizeof(tdm_launch_chunk), describeChunk());
  records["tile"] = nb::make_tuple(sizeof(tdm_launch_tile), describeTile());
  records["flags"] = nb::make_tuple(sizeof(tdm_launch_flags), describeFlags());
  m.attr("launch_abi") = records;
  m.attr("launch_constants") = describeConstants();
}
